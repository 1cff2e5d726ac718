//! A part of W: rows that one thread reads or changes, and their groups.

use std::collections::TryReserveError;
use std::ops::Range;

use crate::bilinear::groups::{Group, Layout, Settled};
use crate::bilinear::lengthen;
use crate::bilinear::lens::{Clock, Lens};
use crate::bilinear::objects::Vector;
use crate::bilinear::row::{Change, Found, Row};
use crate::bilinear::stored::Stored;

/// What was found of W where a left and a right vector meet, row by row.
#[derive(Debug, Default)]
pub(super) struct Block<T> {
    values: Vec<T>,
    slots: Vec<u32>,
    stored: Vec<T>,
}

impl<T: Stored> Block<T> {
    /// Make room for so many rows.
    pub(super) fn start(&mut self, rows: usize, right: &Vector) -> Result<(), TryReserveError> {
        let length = right.values().len().saturating_mul(rows);
        lengthen(&mut self.values, length, T::default())?;
        lengthen(&mut self.slots, length, 0)?;
        lengthen(&mut self.stored, right.values().len(), T::default())
    }

    pub(super) fn found(&mut self, row: usize, right: &Vector) -> Found<'_, T> {
        self.both(row, right).0
    }

    fn both(&mut self, row: usize, right: &Vector) -> (Found<'_, T>, &mut [T]) {
        let length = right.values().len();
        let found = Found {
            values: &mut self.values[row * length..][..length],
            slots: &mut self.slots[row * length..][..right.at().len()],
        };
        (found, &mut self.stored[..length])
    }
}

/// Something from which rows of W can be read.
pub(super) trait Reader<T>: Sync {
    /// The sum in lanes of a row's weights times a vector.
    fn read(&self, row: u32, right: &Vector, clock: &Clock, found: Found<'_, T>) -> f64;
}

/// The rows of a range of places, to read; the groups are all there or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct View<'a, T> {
    pub(super) first: usize,
    pub(super) rows: &'a [Row<T>],
    pub(super) first_group: usize,
    pub(super) groups: &'a [Group],
    pub(super) layout: &'a Layout,
}

impl<T: Stored> View<'_, T> {
    /// The lens of the row at a place.
    pub(super) fn lens(&self, place: usize, clock: &Clock) -> Lens {
        match self.layout.group(place) {
            Some(group) => self.groups[group - self.first_group].lens(clock),
            None => self.rows[place - self.first].origin.lens(clock),
        }
    }

    /// The sum of (left right')**2 over entries that are there. With `known`, the block holds what
    /// reading found of each row of `left`, and still does.
    pub(super) fn squares(
        &self,
        left: &Vector,
        right: &Vector,
        clock: &Clock,
        block: &mut Block<T>,
        known: bool,
    ) -> f64 {
        let mut total = 0.0;
        for (number, (row, a)) in left.entries().enumerate() {
            let number = if known { number } else { 0 };
            if !known {
                self.read(row, right, clock, block.found(number, right));
            }
            let lens = self.lens(self.layout.place(row), clock);
            let mut in_row = 0.0;
            for ((_, b), v) in right.entries().zip(&*block.found(number, right).values) {
                if v.widen().abs() > lens.s {
                    in_row += b * b;
                }
            }
            total += a * a * in_row;
        }
        total
    }
}

impl<T: Stored> Reader<T> for View<'_, T> {
    fn read(&self, row: u32, right: &Vector, clock: &Clock, found: Found<'_, T>) -> f64 {
        let place = self.layout.place(row);
        let lens = self.lens(place, clock);
        self.rows[place - self.first].read(lens, right, found)
    }
}

/// A step, as far as W is concerned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub(super) left: &'a Vector,
    pub(super) right: &'a Vector,
    /// Rate times slope.
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

    /// The same, for a shorter time.
    pub(super) fn whole(&mut self) -> Part<'_, T> {
        Part {
            first: self.first,
            rows: self.rows,
            first_group: self.first_group,
            groups: self.groups,
            layout: self.layout,
        }
    }

    /// A part of W without rows.
    pub(super) fn nothing(&self) -> Self {
        Self {
            first: self.first,
            rows: &mut [],
            first_group: self.first_group,
            groups: &mut [],
            layout: self.layout,
        }
    }

    pub(super) fn places(&self) -> Range<usize> {
        self.first..self.first + self.rows.len()
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

    /// Store the weights of a row as they are now; has a stored number changed?
    fn renew(&mut self, place: usize, clock: &Clock) -> bool {
        let row = &mut self.rows[place - self.first];
        let changed = row.renew(row.origin.lens(clock));
        (row.origin.scale, row.origin.threshold) = (clock.scale, clock.threshold);
        changed
    }

    /// Bring a group up to date; has a stored number changed?
    fn settle(&mut self, group: usize, clock: &Clock) -> bool {
        let settled = self.groups[group - self.first_group].settle(clock);
        if settled == Settled::Same {
            return false;
        }
        for place in self.layout.places(group) {
            let row = &mut self.rows[place - self.first];
            match settled {
                Settled::Scaled(factor) => row.scale(factor),
                _ => row.clear(),
            }
        }
        true
    }

    /// The sum of a settled group's squares, by rows and then columns, one by one.
    fn square(&self, group: usize) -> Result<f64, TryReserveError> {
        let (mut total, mut entries) = (0.0, Vec::new());
        let k = self.groups[group - self.first_group].scale;
        for place in self.layout.places(group) {
            self.rows[place - self.first].sorted(&mut entries, |v| v != 0.0)?;
            for (_, v) in &entries {
                let w = k * v.widen();
                total += w * w;
            }
        }
        Ok(total)
    }

    /// Take factor * left right' from the rows that are here. With `known`, the block holds what
    /// reading found of each row of `left`.
    pub(super) fn add(
        &mut self,
        step: Step<'_>,
        clock: &Clock,
        block: &mut Block<T>,
        known: bool,
    ) -> Result<(), TryReserveError> {
        let mut known = known;
        for (number, (row, a)) in step.left.entries().enumerate() {
            let place = self.layout.place(row);
            if self.places().contains(&place) {
                let number = if known { number } else { 0 };
                known = self.add_row(place, a, step, clock, block, known, number)?;
            }
        }
        Ok(())
    }

    /// Do it for one row. Returns whether what is known of the next rows still holds.
    pub(super) fn add_row(
        &mut self,
        place: usize,
        a: f64,
        step: Step<'_>,
        clock: &Clock,
        block: &mut Block<T>,
        known: bool,
        number: usize,
    ) -> Result<bool, TryReserveError> {
        let group = self.layout.group(place);
        let (mut row_known, mut rest_known) = (known, known);
        let lens = if let Some(group) = group {
            // The group may have more of the rows that are known.
            rest_known &= !self.settle(group, clock);
            row_known = rest_known;
            self.groups[group - self.first_group].settled_lens()
        } else {
            let window = clock.window();
            if self.rows[place - self.first].origin.window != window {
                row_known &= !self.renew(place, clock);
                self.rows[place - self.first].origin.window = window;
            }
            self.rows[place - self.first].origin.lens(clock)
        };
        let (found, stored) = block.both(number, step.right);
        let change = self.rows[place - self.first].write(Change {
            lens,
            right: step.right,
            factor: step.factor * a,
            grow: step.grow,
            squares: group.is_some(),
            known: row_known,
            found,
            stored,
            n_columns: self.layout.n_columns,
        })?;
        if let Some(group) = group
            && self.groups[group - self.first_group].count_change(change)
        {
            let square = self.square(group)?;
            let group = &mut self.groups[group - self.first_group];
            (group.square, group.largest) = (square, square);
        }
        Ok(rest_known)
    }

    /// Give back the room of entries that have died. That changes no weight, so when it is done
    /// is not part of the contract.
    pub(super) fn purge(&mut self, clock: &Clock) {
        for place in self.places() {
            let lens = self.view().lens(place, clock);
            self.rows[place - self.first].purge(lens);
        }
    }

    /// Renew all rows, because the running scale starts anew.
    pub(super) fn restart(&mut self, clock: &Clock) {
        for place in self.places() {
            self.renew(place, clock);
            let origin = &mut self.rows[place - self.first].origin;
            (origin.scale, origin.threshold) = (1.0, 0.0);
        }
    }
}
