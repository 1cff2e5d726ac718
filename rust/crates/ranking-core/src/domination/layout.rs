//! Judged lists.

use std::ops::Range;

use crate::matrix::Index;

/// Judged lists sorted into layers, lowest grade first; the contract describes the fields.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct ListLayout<'a> {
    pub list_ptr: &'a [i64],
    pub layer_ptr: &'a [i64],
    pub layer_size: &'a [i64],
    pub block_ptr: &'a [i64],
    pub omega: &'a [f64],
}

impl ListLayout<'_> {
    /// The lists of each block.
    pub(super) fn blocks(&self) -> impl Iterator<Item = Range<usize>> {
        let ends = self.block_ptr.windows(2);
        ends.map(|block| block[0].position()..block[1].position())
    }

    pub(super) fn len(&self) -> usize {
        self.list_ptr.len() - 1
    }

    pub(super) fn n_layers(&self) -> usize {
        self.layer_size.len()
    }

    /// The layers of list `q`.
    #[inline(always)]
    pub(super) fn layers(&self, q: usize) -> Range<usize> {
        self.list_ptr[q].position()..self.list_ptr[q + 1].position()
    }

    /// The rows of a layer, without padding.
    #[inline(always)]
    pub(super) fn rows(&self, layer: usize) -> Range<usize> {
        let first = self.layer_ptr[layer].position();
        first..first + self.layer_size[layer].position()
    }

    /// The rows of a layer, with padding.
    #[inline(always)]
    pub(super) fn padded_rows(&self, layer: usize) -> Range<usize> {
        self.layer_ptr[layer].position()..self.layer_ptr[layer + 1].position()
    }

    /// The rows of some lists, with padding.
    #[inline(always)]
    pub(super) fn rows_of(&self, lists: Range<usize>) -> Range<usize> {
        let (first, last) = (self.list_ptr[lists.start], self.list_ptr[lists.end]);
        self.layer_ptr[first.position()].position()..self.layer_ptr[last.position()].position()
    }
}
