//! Rows of U or V that one thread changes and projects.

use crate::dispatch::Job;
use crate::factored::search::{Change, Found};
use crate::lanes::Machine;
use crate::wide::{Eight, Wide, dot_wide};

/// Consecutive rows, and all that belongs to them.
pub(super) struct Table<'a> {
    pub(super) rows: &'a mut [Eight],
    /// Adagrad's sums of squares; empty without it.
    pub(super) squares: &'a mut [Eight],
    /// Empty if there are none.
    pub(super) biases: &'a mut [f32],
    pub(super) bias_squares: &'a mut [f32],
    /// Was a row changed in this block? All false between blocks.
    pub(super) is_changed: &'a mut [bool],
    /// The number of the first row.
    pub(super) first: usize,
    /// Registers of a row.
    pub(super) chunks: usize,
}

fn cut<T>(slice: &mut [T], at: usize) -> (&mut [T], &mut [T]) {
    slice.split_at_mut(at.min(slice.len()))
}

impl Table<'_> {
    /// Cut it before a row.
    fn cut(self, row: usize) -> (Self, Self) {
        let (first, chunks) = (self.first, self.chunks);
        let at = row.saturating_sub(first).min(self.is_changed.len());
        let rows = cut(self.rows, at * chunks);
        let squares = cut(self.squares, at * chunks);
        let biases = cut(self.biases, at);
        let bias_squares = cut(self.bias_squares, at);
        let is_changed = cut(self.is_changed, at);
        let earlier = Self {
            rows: rows.0,
            squares: squares.0,
            biases: biases.0,
            bias_squares: bias_squares.0,
            is_changed: is_changed.0,
            first,
            chunks,
        };
        let later = Self {
            rows: rows.1,
            squares: squares.1,
            biases: biases.1,
            bias_squares: bias_squares.1,
            is_changed: is_changed.1,
            first: first + at,
            chunks,
        };
        (earlier, later)
    }

    /// Cut it before each of some rows.
    pub(super) fn cut_all(self, cuts: &[usize]) -> Vec<Self> {
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let mut rest = self;
        for &row in cuts {
            let (part, later) = rest.cut(row);
            parts.push(part);
            rest = later;
        }
        parts.push(rest);
        parts
    }

    /// Subtract a multiple of x from a row, and from its bias.
    #[inline(always)]
    fn change<M: Machine, const ADAGRAD: bool>(
        &mut self,
        machine: M,
        at: usize,
        factor: f32,
        x: &[Eight],
        rate: f32,
    ) {
        let places = at * self.chunks..(at + 1) * self.chunks;
        let row = &mut self.rows[places.clone()];
        let wide_factor = Wide::splat(machine, factor);
        if ADAGRAD {
            let wide_rate = Wide::splat(machine, rate);
            let squares = &mut self.squares[places];
            for ((p, square), x) in row.iter_mut().zip(squares).zip(x) {
                let y = wide_factor * Wide::new(machine, *x);
                let sum = Wide::new(machine, *square) + y * y;
                *square = sum.array();
                *p = (Wide::new(machine, *p) - (wide_rate * y) / sum.sqrt()).array();
            }
        } else {
            for (p, x) in row.iter_mut().zip(x) {
                let y = wide_factor * Wide::new(machine, *x);
                *p = (Wide::new(machine, *p) - y).array();
            }
        }
        if self.biases.is_empty() {
            return;
        }
        if ADAGRAD {
            self.bias_squares[at] += factor * factor;
            self.biases[at] -= (rate * factor) / self.bias_squares[at].sqrt();
        } else {
            self.biases[at] -= factor;
        }
    }
}

/// What is done to every row that was changed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Projection {
    /// The factor of the penalty.
    pub(super) shrink: Option<f32>,
    /// The largest norm, if there is one.
    pub(super) max_norm: Option<f32>,
}

impl Projection {
    pub(super) fn is_nothing(&self) -> bool {
        self.shrink.is_none() && self.max_norm.is_none()
    }

    #[inline(always)]
    fn project<M: Machine>(&self, machine: M, row: &mut [Eight]) {
        if let Some(factor) = self.shrink {
            scale(machine, row, factor);
        }
        if let Some(max_norm) = self.max_norm {
            let square = dot_wide(machine, row, row);
            if square > max_norm * max_norm {
                scale(machine, row, max_norm / square.sqrt());
            }
        }
    }
}

#[inline(always)]
fn scale<M: Machine>(machine: M, row: &mut [Eight], factor: f32) {
    let factor = Wide::splat(machine, factor);
    for x in row {
        *x = (Wide::new(machine, *x) * factor).array();
    }
}

/// The changes of a block that fall to one thread.
pub(super) struct Take<'a> {
    pub(super) table: Table<'a>,
    /// Rows that were changed; empty between blocks.
    pub(super) changed: &'a mut Vec<usize>,
    /// Of V and not of U?
    pub(super) documents: bool,
    /// Who takes them.
    pub(super) taker: usize,
    pub(super) adagrad: bool,
    pub(super) projection: Projection,
}

/// Take what falls to one thread.
pub(super) struct Taking<'a, 't>(pub(super) &'a mut Take<'t>, pub(super) &'a [Found]);

impl Job for Taking<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Self(take, found) = self;
        if take.adagrad {
            take.take::<M, true>(machine, found);
        } else {
            take.take::<M, false>(machine, found);
        }
        take.project(machine);
    }
}

impl Take<'_> {
    fn changes<'f>(&self, found: &'f Found) -> &'f [Change] {
        if self.documents {
            &found.of_documents[self.taker]
        } else {
            &found.of_queries[self.taker]
        }
    }

    #[inline(always)]
    fn take<M: Machine, const ADAGRAD: bool>(&mut self, machine: M, found: &[Found]) {
        let chunks = self.table.chunks;
        let marks = !self.projection.is_nothing();
        for found in found {
            let vectors = found.vectors(!self.documents, chunks);
            for change in self.changes(found) {
                let (row, step) = (change.row as usize, change.step as usize);
                let at = row - self.table.first;
                let x = &vectors[2 * step * chunks..][..chunks];
                let rate = if ADAGRAD { found.rates[step] } else { 0.0 };
                self.table
                    .change::<M, ADAGRAD>(machine, at, change.factor, x, rate);
                if marks && !self.table.is_changed[at] {
                    self.table.is_changed[at] = true;
                    self.changed.push(at);
                }
            }
        }
    }

    #[inline(always)]
    fn project<M: Machine>(&mut self, machine: M) {
        let chunks = self.table.chunks;
        for at in self.changed.drain(..) {
            self.table.is_changed[at] = false;
            let row = &mut self.table.rows[at * chunks..][..chunks];
            self.projection.project(machine, row);
        }
    }
}
