//! The blocks of places that have equal scores.

use std::ops::Range;

/// Where each block begins, and then the number of places.
#[derive(Default)]
pub(super) struct Blocks {
    heads: Vec<usize>,
}

impl Blocks {
    /// Room for as many heads as there are places, and one more.
    pub(super) fn room(&mut self, places: usize) -> &mut [usize] {
        self.heads.resize(places + 1, 0);
        &mut self.heads
    }

    /// Keep the first `count` heads, of a list of so many places.
    pub(super) fn close(&mut self, count: usize, places: usize) {
        self.heads.truncate(count);
        self.heads.push(places);
    }

    /// The places of a block.
    pub(super) fn range(&self, block: usize) -> Range<usize> {
        self.heads[block]..self.heads[block + 1]
    }

    /// The places of all blocks, best first.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        self.heads.windows(2).map(|ends| ends[0]..ends[1])
    }
}
