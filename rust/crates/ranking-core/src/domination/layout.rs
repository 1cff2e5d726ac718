//! Judged lists, checked once.

use std::ops::Range;

use crate::constants::LANES;
use crate::error::{Error, check_length, check_pointer};
use crate::matrix::Index;

/// The padding of layers that a loop needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    /// Any number of rows.
    Any,
    /// None, for sparse features.
    None,
    /// Each layer is a whole number of lanes.
    Lanes,
}

/// Judged lists sorted into layers; the contract describes the fields.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct ListLayout<'a> {
    pub list_ptr: &'a [i64],
    pub layer_ptr: &'a [i64],
    pub layer_size: &'a [i64],
    pub block_ptr: &'a [i64],
    pub omega: &'a [f64],
}

/// Lists of layers of rows, lowest grade first; checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layers<'a> {
    list_ptr: &'a [i64],
    layer_ptr: &'a [i64],
    layer_size: &'a [i64],
    block_ptr: &'a [i64],
    omega: &'a [f64],
}

impl<'a> Layers<'a> {
    /// Check the arrays of a layout against one another.
    ///
    /// # Errors
    /// When a pointer array does not rise to the number of what it points at, a list has fewer
    /// than two layers, or a layer is empty or not padded as needed.
    pub(crate) fn new(layout: &ListLayout<'a>, padding: Padding) -> Result<Self, Error> {
        let ListLayout {
            list_ptr,
            layer_ptr,
            layer_size,
            block_ptr,
            omega,
        } = *layout;
        let layers = layer_size.len();
        let lists = list_ptr.len().max(1) - 1;
        check_pointer("list_ptr", positions(list_ptr), lists, layers)?;
        check_pointer("layer_ptr", positions(layer_ptr), layers, omega.len())?;
        let checked = Self {
            list_ptr,
            layer_ptr,
            layer_size,
            block_ptr,
            omega,
        };
        if (0..lists).any(|q| checked.layers(q).len() < 2) {
            return Err(Error::argument("every list must have at least two layers"));
        }
        let fits = |layer: usize| {
            let (size, rows) = (
                layer_size[layer].position(),
                checked.padded_rows(layer).len(),
            );
            let padded = match padding {
                Padding::Any => true,
                Padding::None => size == rows,
                Padding::Lanes => rows.is_multiple_of(LANES),
            };
            (1..=rows).contains(&size) && padded
        };
        if !(0..layers).all(fits) {
            return Err(Error::argument(format!(
                "every layer must have rows, with padding as needed: {padding:?}"
            )));
        }
        Ok(checked)
    }

    /// Check `block_ptr`, and return the lists of each block.
    ///
    /// # Errors
    /// When it does not rise to the number of lists.
    pub(crate) fn blocks(&self) -> Result<Vec<Range<usize>>, Error> {
        let blocks = self.block_ptr.len().max(1) - 1;
        check_pointer("block_ptr", positions(self.block_ptr), blocks, self.len())?;
        Ok(self
            .block_ptr
            .windows(2)
            .map(|block| block[0].position()..block[1].position())
            .collect())
    }

    /// Refuse values that are not one per row.
    pub(crate) fn check_rows(&self, name: &str, rows: usize) -> Result<(), Error> {
        check_length(name, rows, self.n_rows())
    }

    /// Rows of the layout, padding included.
    pub(crate) fn n_rows(&self) -> usize {
        self.omega.len()
    }

    pub(crate) fn len(&self) -> usize {
        self.list_ptr.len() - 1
    }

    pub(crate) fn n_layers(&self) -> usize {
        self.layer_size.len()
    }

    pub(crate) fn omega(&self) -> &'a [f64] {
        self.omega
    }

    /// The layers of list `q`.
    #[inline(always)]
    pub(crate) fn layers(&self, q: usize) -> Range<usize> {
        self.list_ptr[q].position()..self.list_ptr[q + 1].position()
    }

    /// The rows of a layer, without padding.
    #[inline(always)]
    pub(crate) fn rows(&self, layer: usize) -> Range<usize> {
        let first = self.layer_ptr[layer].position();
        first..first + self.layer_size[layer].position()
    }

    /// The rows of a layer, with padding.
    #[inline(always)]
    pub(crate) fn padded_rows(&self, layer: usize) -> Range<usize> {
        self.layer_ptr[layer].position()..self.layer_ptr[layer + 1].position()
    }

    /// The rows of some lists, with padding.
    #[inline(always)]
    pub(crate) fn rows_of(&self, lists: Range<usize>) -> Range<usize> {
        let (first, last) = (self.list_ptr[lists.start], self.list_ptr[lists.end]);
        self.layer_ptr[first.position()].position()..self.layer_ptr[last.position()].position()
    }
}

fn positions(pointer: &[i64]) -> impl ExactSizeIterator<Item = usize> {
    pointer.iter().map(|i| i.position())
}
