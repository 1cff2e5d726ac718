//! A part of W: rows that one thread reads or changes, and their groups.

use std::ops::Range;

use crate::bilinear::features::SparseVector;
use crate::bilinear::groups::{Applied, Group, Layout};
use crate::bilinear::row::{Change, Row, RowEntries};
use crate::bilinear::shrinkage::{Pending, ShrinkageState};
use crate::error::lengthen;
use crate::matrix::Stored;

/// The entries of W in the rows of a left and the columns of a right vector, row by row.
#[derive(Debug, Default)]
pub(super) struct Block<T> {
    values: Vec<T>,
    slots: Vec<u32>,
    stored: Vec<T>,
}

impl<T: Stored> Block<T> {
    /// Allocate a number of rows.
    pub(super) fn start(&mut self, rows: usize, right: &SparseVector) {
        let length = right.values().len().saturating_mul(rows);
        lengthen(&mut self.values, length, T::default());
        lengthen(&mut self.slots, length, 0);
        lengthen(&mut self.stored, right.values().len(), T::default());
    }

    pub(super) fn entries(&mut self, row: usize, right: &SparseVector) -> RowEntries<'_, T> {
        self.split(row, right).0
    }

    fn split(&mut self, row: usize, right: &SparseVector) -> (RowEntries<'_, T>, &mut [T]) {
        let length = right.values().len();
        let entries = RowEntries {
            values: &mut self.values[row * length..][..length],
            slots: &mut self.slots[row * length..][..right.columns().len()],
        };
        (entries, &mut self.stored[..length])
    }
}

/// The rows of a range of places, to read; either all groups are there or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a, T> {
    pub(super) first: usize,
    pub(super) rows: &'a [Row<T>],
    pub(super) first_group: usize,
    pub(super) groups: &'a [Group],
    pub(super) layout: &'a Layout,
}

impl<T: Stored> View<'_, T> {
    /// The pending shrinkage of the row at a place.
    pub(super) fn pending(&self, place: usize, state: &ShrinkageState) -> Pending {
        match self.layout.group(place) {
            Some(group) => self.groups[group - self.first_group].pending(state),
            None => self.rows[place - self.first].origin.pending(state),
        }
    }

    /// The sum in lanes of a row's weights times a vector; the entries are filled.
    pub(super) fn read(
        &self,
        row: u32,
        right: &SparseVector,
        state: &ShrinkageState,
        entries: RowEntries<'_, T>,
    ) -> f64 {
        let place = self.layout.place(row);
        let pending = self.pending(place, state);
        self.rows[place - self.first].read(pending, right, entries)
    }

    /// The sum of (left right')**2 over entries that are not zero. With `known`, the block holds
    /// the current entries of each row of `left`.
    pub(super) fn squares(
        &self,
        left: &SparseVector,
        right: &SparseVector,
        state: &ShrinkageState,
        block: &mut Block<T>,
        known: bool,
    ) -> f64 {
        let mut total = 0.0;
        for (number, (row, a)) in left.entries().enumerate() {
            let number = if known { number } else { 0 };
            if !known {
                self.read(row, right, state, block.entries(number, right));
            }
            let pending = self.pending(self.layout.place(row), state);
            let mut in_row = 0.0;
            for ((_, b), v) in right.entries().zip(&*block.entries(number, right).values) {
                if v.widen().abs() > pending.s {
                    in_row += b * b;
                }
            }
            total += a * a * in_row;
        }
        total
    }
}

/// A step: subtract factor * left right' from W.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) left: &'a SparseVector,
    pub(super) right: &'a SparseVector,
    /// Learning rate times slope.
    pub(super) factor: f64,
    pub(super) grow: bool,
}

/// The rows of a range of places, to change; whole groups.
#[derive(Debug)]
pub(super) struct Part<'a, T> {
    pub(super) first: usize,
    pub(super) rows: &'a mut [Row<T>],
    pub(super) first_group: usize,
    pub(super) groups: &'a mut [Group],
    pub(super) layout: &'a Layout,
}

impl<T: Stored> Part<'_, T> {
    pub(super) fn view(&self) -> View<'_, T> {
        View {
            first: self.first,
            rows: self.rows,
            first_group: self.first_group,
            groups: self.groups,
            layout: self.layout,
        }
    }

    /// The same part, borrowed for a shorter time.
    pub(super) fn reborrow(&mut self) -> Part<'_, T> {
        Part {
            first: self.first,
            rows: self.rows,
            first_group: self.first_group,
            groups: self.groups,
            layout: self.layout,
        }
    }

    pub(super) fn places(&self) -> Range<usize> {
        self.first..self.first + self.rows.len()
    }

    fn row(&mut self, place: usize) -> &mut Row<T> {
        &mut self.rows[place - self.first]
    }

    fn group(&mut self, group: usize) -> &mut Group {
        &mut self.groups[group - self.first_group]
    }

    /// Cut after `rows` rows, which end a group.
    pub(super) fn cut(self, rows: usize) -> (Self, Self) {
        let place = self.first + rows;
        let first_group = self.layout.group(place).unwrap_or_else(|| {
            // At the end, or without groups.
            self.first_group + self.groups.len()
        });
        let (rows, other_rows) = self.rows.split_at_mut(rows);
        let (groups, other_groups) = self.groups.split_at_mut(first_group - self.first_group);
        let head = Self {
            rows,
            groups,
            ..self
        };
        let tail = Self {
            first: place,
            rows: other_rows,
            first_group,
            groups: other_groups,
            layout: head.layout,
        };
        (head, tail)
    }

    /// Rebase a row; return whether a stored number has changed.
    fn rebase(&mut self, place: usize, state: &ShrinkageState) -> bool {
        let row = self.row(place);
        let changed = row.rebase(row.origin.pending(state));
        (row.origin.scale, row.origin.threshold) = (state.scale, state.threshold);
        changed
    }

    /// Apply the pending shrinkage of a group; return whether a stored number has changed.
    fn apply(&mut self, group: usize, state: &ShrinkageState) -> bool {
        let applied = self.group(group).apply(state);
        if applied == Applied::Same {
            return false;
        }
        for place in self.layout.places(group) {
            match applied {
                Applied::Scaled(factor) => self.row(place).scale(factor),
                _ => self.row(place).clear(),
            }
        }
        true
    }

    /// The sum of the squares of a group without pending shrinkage, by row and then column, one by
    /// one.
    fn square(&mut self, group: usize) -> f64 {
        let (mut total, mut entries) = (0.0, Vec::new());
        let k = self.group(group).scale;
        for place in self.layout.places(group) {
            self.row(place).sorted(&mut entries, |v| v != 0.0);
            for (_, v) in &entries {
                let w = k * v.widen();
                total += w * w;
            }
        }
        total
    }

    /// Take a step in the rows of this part. With `known`, the block holds the current entries of
    /// each row of `left`.
    pub(super) fn add(
        &mut self,
        step: Step<'_>,
        state: &ShrinkageState,
        block: &mut Block<T>,
        mut known: bool,
    ) {
        for (number, (row, a)) in step.left.entries().enumerate() {
            let place = self.layout.place(row);
            if self.places().contains(&place) {
                let number = known.then_some(number);
                known = self.add_row(place, a, step, state, block, number);
            }
        }
    }

    /// Take a step in one row, whose current entries are those of row `known` of the block.
    /// Return whether what is known of the next rows still holds.
    fn add_row(
        &mut self,
        place: usize,
        a: f64,
        step: Step<'_>,
        state: &ShrinkageState,
        block: &mut Block<T>,
        known: Option<usize>,
    ) -> bool {
        let group = self.layout.group(place);
        let (mut row_known, mut rest_known) = (known.is_some(), known.is_some());
        let pending = if let Some(group) = group {
            // The group may have more of the rows that are known.
            rest_known &= !self.apply(group, state);
            row_known = rest_known;
            self.group(group).applied()
        } else {
            let window = state.window();
            if self.row(place).origin.window != window {
                row_known &= !self.rebase(place, state);
                self.row(place).origin.window = window;
            }
            self.row(place).origin.pending(state)
        };
        let (entries, stored) = block.split(known.unwrap_or(0), step.right);
        let n_columns = self.layout.n_columns;
        let change = self.row(place).write(Change {
            pending,
            right: step.right,
            factor: step.factor * a,
            grow: step.grow,
            squares: group.is_some(),
            known: row_known,
            entries,
            stored,
            n_columns,
        });
        if let Some(group) = group
            && self.group(group).count_change(change)
        {
            let square = self.square(group);
            let group = self.group(group);
            (group.square, group.largest) = (square, square);
        }
        rest_known
    }

    /// Release the memory of entries that have shrunk to zero. That changes no weight, so the
    /// contract does not say when.
    pub(super) fn purge(&mut self, state: &ShrinkageState) {
        for place in self.places() {
            let pending = self.view().pending(place, state);
            self.row(place).purge(pending);
        }
    }

    /// Rebase all rows, because the running scale is reset.
    pub(super) fn rebase_all(&mut self, state: &ShrinkageState) {
        for place in self.places() {
            self.rebase(place, state);
            let origin = &mut self.row(place).origin;
            (origin.scale, origin.threshold) = (1.0, 0.0);
        }
    }
}
