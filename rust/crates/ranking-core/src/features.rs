//! Features, checked once: slices behind a layout that loops can trust.

use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::{Feature, Index};

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
    pub fn new(data: &'a [F], lines: usize, length: usize) -> Result<Self, Invalid> {
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
    ) -> Result<Self, Invalid> {
        check_length("indices", indices.len(), data.len())?;
        let pointers = indptr.iter().map(|i| i.position());
        check_pointer("indptr", pointers, indptr.len().max(1) - 1, data.len())?;
        // A maximum, not `any`, which stops early and so does not vectorise.
        let last = indices.iter().map(|i| i.position()).max();
        if last.is_some_and(|last| last >= length) {
            return Err(Invalid::new(format!(
                "indices must lie below {length}, and not be negative."
            )));
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

    /// The index of an entry, counted through all lines; of the last one, if there are not so many.
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
