//! Groups of rows that share a penalty, and the places of their rows.

use std::ops::Range;

use crate::bilinear::shrinkage::{Pending, ShrinkageState};
use crate::constants::{MIN_SCALE, RESUM};
use crate::error::filled;
use crate::matrix::{Index, short};

/// A group's scale (w = scale * v), its sum of squares, the largest since that was summed, and the
/// running threshold at which these were right.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) scale: f64,
    pub(super) square: f64,
    pub(super) largest: f64,
    pub(super) since: f64,
    pub(super) weight: f64,
}

/// What the rows of a group must do after pending shrinkage was applied to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Applied {
    /// Nothing.
    Same,
    /// Set all entries to zero.
    Cleared,
    /// Multiply all entries.
    Scaled(f64),
}

impl Group {
    /// The share of the norm that pending shrinkage leaves.
    fn fraction(&self, state: &ShrinkageState) -> f64 {
        let norm = self.square.sqrt();
        let loss = self.weight * (state.threshold - self.since);
        if norm > loss {
            (norm - loss) / norm
        } else {
            0.0
        }
    }

    pub(super) fn pending(&self, state: &ShrinkageState) -> Pending {
        Pending {
            k: self.scale * self.fraction(state),
            s: 0.0,
        }
    }

    /// What is left to apply to stored entries once `apply` was called: the scale.
    pub(super) fn applied(&self) -> Pending {
        Pending {
            k: self.scale,
            s: 0.0,
        }
    }

    /// Apply the pending shrinkage to scale and norm.
    #[must_use]
    pub(super) fn apply(&mut self, state: &ShrinkageState) -> Applied {
        if self.since == state.threshold {
            return Applied::Same;
        }
        let f = self.fraction(state);
        self.since = state.threshold;
        if f == 0.0 {
            (self.scale, self.square, self.largest) = (1.0, 0.0, 0.0);
            return Applied::Cleared;
        }
        self.scale *= f;
        self.square *= f * f;
        self.largest *= f * f;
        if self.scale < MIN_SCALE {
            return Applied::Scaled(std::mem::replace(&mut self.scale, 1.0));
        }
        Applied::Same
    }

    /// Update the square by the change of its entries; return whether it must be summed again.
    #[must_use]
    pub(super) fn count_change(&mut self, change: f64) -> bool {
        self.square += change;
        // By comparison: f64::max treats NaN differently from the reference.
        self.largest = if self.largest > self.square {
            self.largest
        } else {
            self.square
        };
        self.square < self.largest * RESUM
    }
}

/// The place of each row: rows of a group are neighbours.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) n_columns: usize,
    /// The place of a row; empty if every row is at its own number.
    places: Vec<u32>,
    /// The group at a place; empty if there are none.
    owners: Vec<u32>,
    /// Group g has the places starts[g]..starts[g + 1].
    starts: Vec<usize>,
}

impl Layout {
    pub(super) fn new(n_columns: usize, groups: &[i64], n_groups: usize) -> Self {
        let mut layout = Self {
            n_columns,
            places: filled(groups.len(), 0),
            owners: filled(groups.len(), 0),
            starts: filled(n_groups.saturating_add(1), 0),
        };
        // A counting sort, which keeps the order of a group's rows.
        for group in groups {
            layout.starts[group.position() + 1] += 1;
        }
        for group in 0..n_groups {
            layout.starts[group + 1] += layout.starts[group];
        }
        let mut next = filled(n_groups, 0);
        next.copy_from_slice(&layout.starts[..n_groups]);
        for (row, group) in groups.iter().enumerate() {
            let place = next[group.position()];
            next[group.position()] += 1;
            layout.places[row] = short(place);
            layout.owners[place] = short(group.position());
        }
        layout
    }

    #[inline]
    pub(super) fn place(&self, row: u32) -> usize {
        if self.places.is_empty() {
            row as usize
        } else {
            self.places[row as usize] as usize
        }
    }

    /// The group at a place, if there are groups.
    #[inline]
    pub(super) fn group(&self, place: usize) -> Option<usize> {
        self.owners.get(place).map(|&group| group as usize)
    }

    pub(super) fn places(&self, group: usize) -> Range<usize> {
        self.starts[group]..self.starts[group + 1]
    }
}
