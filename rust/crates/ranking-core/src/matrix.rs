//! Matrices, checked once: slices behind a layout that loops can trust, and their element types.

use crate::constants::{LANES, WIDE};
use crate::error::{Error, check_length, check_pointer};
use crate::simd::Machine;

/// A dense matrix stored line after line: rows in C order, columns in Fortran order.
#[derive(Clone, Copy, Debug)]
pub struct Dense<'a, F> {
    data: &'a [F],
    lines: usize,
    length: usize,
}

impl<'a, F: Feature> Dense<'a, F> {
    /// Check `lines` lines of `length` elements each.
    ///
    /// # Errors
    /// When the slice has another size.
    pub fn new(data: &'a [F], lines: usize, length: usize) -> Result<Self, Error> {
        check_length("features", data.len(), lines.saturating_mul(length))?;
        Ok(Self {
            data,
            lines,
            length,
        })
    }

    pub(crate) fn lines(&self) -> usize {
        self.lines
    }

    /// Elements of each line.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    #[inline(always)]
    pub(crate) fn line(&self, line: usize) -> &'a [F] {
        &self.data[line * self.length..(line + 1) * self.length]
    }
}

/// A compressed sparse matrix: rows for CSR, columns for CSC.
#[derive(Clone, Copy, Debug)]
pub struct Compressed<'a, I, F> {
    indptr: &'a [I],
    indices: &'a [I],
    data: &'a [F],
    length: usize,
}

impl<'a, I: Index, F: Feature> Compressed<'a, I, F> {
    /// Check a matrix whose lines have `length` elements, zeros included.
    ///
    /// # Errors
    /// When the pointers do not rise to the number of entries, or an index lies outside.
    pub fn new(
        indptr: &'a [I],
        indices: &'a [I],
        data: &'a [F],
        length: usize,
    ) -> Result<Self, Error> {
        check_length("indices", indices.len(), data.len())?;
        let pointers = indptr.iter().map(|i| i.position());
        check_pointer("indptr", pointers, indptr.len().max(1) - 1, data.len())?;
        // A maximum, not `any`, which stops early and so does not vectorise.
        let last = indices.iter().map(|i| i.position()).max();
        if last.is_some_and(|last| last >= length) {
            return Err(Error::argument(format!("indices must be in 0..{length}")));
        }
        Ok(Self {
            indptr,
            indices,
            data,
            length,
        })
    }

    pub(crate) fn lines(&self) -> usize {
        self.indptr.len() - 1
    }

    /// Elements of each line, zeros included.
    pub(crate) fn length(&self) -> usize {
        self.length
    }

    /// Where a line's entries start; as the line after the last, how many there are.
    #[inline(always)]
    pub(crate) fn start(&self, line: usize) -> usize {
        self.indptr[line].position()
    }

    /// The index of an entry, counted through all lines; that of the last one, if there are fewer.
    #[inline(always)]
    pub(crate) fn index_at_most(&self, entry: usize) -> usize {
        self.indices[entry.min(self.indices.len() - 1)].position()
    }

    /// The indices and values of one line.
    #[inline(always)]
    pub(crate) fn line(&self, line: usize) -> (&'a [I], &'a [F]) {
        let entries = self.indptr[line].position()..self.indptr[line + 1].position();
        (&self.indices[entries.clone()], &self.data[entries])
    }
}

/// A dense or a compressed matrix; the indices of a dense one are of any type.
#[derive(Clone, Copy, Debug)]
pub enum Matrix<'a, I, F> {
    /// Dense.
    Dense(Dense<'a, F>),
    /// Compressed.
    Sparse(Compressed<'a, I, F>),
}

/// A number that features are stored as.
pub trait Feature: Copy + Send + Sync {
    /// Widen it to a double, which is exact.
    fn widen(self) -> f64;

    /// Widen four of them.
    #[doc(hidden)]
    fn load<M: Machine>(machine: M, values: [Self; LANES]) -> M::Doubles;
}

/// A number that weights are stored as.
pub trait Stored: Feature + PartialEq + Default {
    /// Round a double to the nearest.
    fn narrow(value: f64) -> Self;

    /// The largest that is not above a double: |v| <= s as doubles if |v| <= `at_most(s)`.
    fn at_most(value: f64) -> Self;

    /// A bit for each value with |value| <= limit.
    #[doc(hidden)]
    fn within<M: Machine>(machine: M, values: &[Self; WIDE], limit: Self) -> u32;

    /// Is |value| <= limit?
    #[doc(hidden)]
    fn is_within(self, limit: Self) -> bool;
}

impl Feature for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn load<M: Machine>(machine: M, values: [Self; LANES]) -> M::Doubles {
        machine.load_widened(values)
    }
}

impl Feature for f64 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn load<M: Machine>(machine: M, values: [Self; LANES]) -> M::Doubles {
        machine.load(values)
    }
}

impl Stored for f32 {
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
    fn narrow(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn at_most(value: f64) -> Self {
        let near = Self::narrow(value);
        if near.widen() > value {
            near.next_down()
        } else {
            near
        }
    }

    #[inline(always)]
    fn within<M: Machine>(machine: M, values: &[Self; WIDE], limit: Self) -> u32 {
        machine.within_wide(values, limit)
    }

    #[inline(always)]
    fn is_within(self, limit: Self) -> bool {
        self.abs() <= limit
    }
}

impl Stored for f64 {
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn at_most(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn within<M: Machine>(machine: M, values: &[Self; WIDE], limit: Self) -> u32 {
        machine.within(values, limit)
    }

    #[inline(always)]
    fn is_within(self, limit: Self) -> bool {
        self.abs() <= limit
    }
}

/// A number that the indices of sparse matrices are stored as.
pub trait Index: Copy + Send + Sync {
    /// Return it as a position; a negative number becomes one that no slice has.
    fn position(self) -> usize;
}

impl Index for i32 {
    #[inline(always)]
    fn position(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

impl Index for i64 {
    #[inline(always)]
    fn position(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_is_the_largest_below() {
        for value in [0.0, 0.1, 1.0, 1.0 + 1e-9, 1.0 - 1e-9, 1e300, 1e-300] {
            let floor = f32::at_most(value);
            assert!(floor.widen() <= value && floor.next_up().widen() > value);
        }
    }
}
