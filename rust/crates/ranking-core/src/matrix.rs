//! Matrices: slices behind a layout, and their element types.

use crate::constants::{LANES, WIDE};
use crate::simd::Machine;

/// A dense matrix stored line after line: rows in C order, columns in Fortran order.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct Dense<'a, F> {
    pub data: &'a [F],
    pub lines: usize,
    /// Elements of each line.
    pub length: usize,
}

impl<'a, F: Feature> Dense<'a, F> {
    #[inline(always)]
    pub(crate) fn line(&self, line: usize) -> &'a [F] {
        &self.data[line * self.length..(line + 1) * self.length]
    }
}

/// A compressed sparse matrix: rows for CSR, columns for CSC.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct Compressed<'a, I, F> {
    pub indptr: &'a [I],
    pub indices: &'a [I],
    pub data: &'a [F],
}

impl<'a, I: Index, F: Feature> Compressed<'a, I, F> {
    pub(crate) fn lines(&self) -> usize {
        self.indptr.len() - 1
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

/// A compressed matrix of any types.
#[derive(Clone, Copy, Debug)]
pub enum Sparse<'a> {
    /// int32, float32
    ShortSingle(Compressed<'a, i32, f32>),
    /// int32, float64
    ShortDouble(Compressed<'a, i32, f64>),
    /// int64, float32
    LongSingle(Compressed<'a, i64, f32>),
    /// int64, float64
    LongDouble(Compressed<'a, i64, f64>),
}

/// Run `$body` with `$x` bound to the compressed matrix of whichever types it has.
#[macro_export]
macro_rules! with_sparse {
    ($sparse:expr, |$x:ident| $body:expr) => {
        match $sparse {
            $crate::Sparse::ShortSingle($x) => $body,
            $crate::Sparse::ShortDouble($x) => $body,
            $crate::Sparse::LongSingle($x) => $body,
            $crate::Sparse::LongDouble($x) => $body,
        }
    };
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

macro_rules! indices {
    ($($type:ty)*) => {
        $(impl Index for $type {
            #[inline(always)]
            fn position(self) -> usize {
                usize::try_from(self).unwrap_or(usize::MAX)
            }
        })*
    };
}

indices!(i32 i64);

/// A number of rows, columns or steps as 32 bits, of which there are enough.
#[inline(always)]
pub(crate) fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
