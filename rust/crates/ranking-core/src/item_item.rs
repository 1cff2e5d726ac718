//! Columns of item-item weights: least squares with an elastic net, by coordinate descent.
//!
//! `ranking/kernels/contract/item_item.py` says what is computed, and
//! `ranking/kernels/reference/item_item.py` in which order.

use crate::error::filled;
use crate::matrix::{Compressed, Feature, Index};
use crate::threads::ThreadTeam;

/// Columns of a piece of work: they differ in cost.
const COLUMNS: usize = 16;

/// The penalty of a column, and when its descent ends.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct ItemRule {
    pub l1: f64,
    pub l2: f64,
    pub nonnegative: bool,
    pub tolerance: f64,
    pub sweeps: i64,
}

/// The Gram matrix of the items, and its diagonal.
#[derive(Clone, Copy, Debug)]
pub struct Gram<'a, I, F> {
    /// Symmetric.
    pub matrix: Compressed<'a, I, F>,
    /// Its diagonal.
    pub diagonal: &'a [f64],
}

impl<I: Index, F: Feature> Gram<'_, I, F> {
    /// Add a multiple of a row.
    #[inline]
    fn add(&self, item: usize, step: f64, slopes: &mut [f64]) {
        let (indices, data) = self.matrix.line(item);
        for (index, value) in indices.iter().zip(data) {
            slopes[index.position()] += step * value.widen();
        }
    }
}

impl ItemRule {
    /// The minimum along a candidate.
    fn best(self, pull: f64, curvature: f64) -> f64 {
        if pull > self.l1 {
            (pull - self.l1) / curvature
        } else if pull < -self.l1 && !self.nonnegative {
            (pull + self.l1) / curvature
        } else {
            0.0
        }
    }
}

/// One column: its candidates, their weights, and the dense vectors of its thread.
struct Column<'a, 's, I, F, J> {
    gram: Gram<'a, I, F>,
    rule: ItemRule,
    index: usize,
    items: &'a [J],
    weights: &'s mut [f64],
    slopes: &'s mut [f64],
    target: &'s mut [f64],
}

impl<I: Index, F: Feature, J: Index> Column<'_, '_, I, F, J> {
    /// Fill the dense vectors.
    fn start(&mut self) {
        self.target.fill(0.0);
        let (indices, data) = self.gram.matrix.line(self.index);
        for (index, value) in indices.iter().zip(data) {
            self.target[index.position()] = value.widen();
        }
        for (slope, target) in self.slopes.iter_mut().zip(&*self.target) {
            *slope = -target;
        }
        for (item, weight) in self.items.iter().zip(&*self.weights) {
            if *weight != 0.0 {
                self.gram.add(item.position(), *weight, self.slopes);
            }
        }
    }

    /// Take a step along each candidate; return the largest curvature times squared step.
    fn sweep(&mut self, active: bool) -> f64 {
        let mut largest = 0.0;
        for (item, weight) in self.items.iter().zip(&mut *self.weights) {
            let (item, old) = (item.position(), *weight);
            let own = self.gram.diagonal[item];
            let curvature = 2.0 * own + self.rule.l2;
            let usable = curvature > 0.0;
            if item == self.index || (active && old == 0.0) || !usable {
                continue;
            }
            let pull = 2.0 * (own * old - self.slopes[item]);
            let best = self.rule.best(pull, curvature);
            let step = best - old;
            if step != 0.0 {
                *weight = best;
                self.gram.add(item, step, self.slopes);
                let size = curvature * (step * step);
                if size > largest {
                    largest = size;
                }
            }
        }
        largest
    }

    /// Sweep until convergence; return the number of sweeps, negative without convergence.
    fn descend(&mut self) -> i64 {
        let least = self.rule.tolerance * self.gram.diagonal[self.index];
        let mut active = false;
        for count in 1..=self.rule.sweeps {
            let converged = self.sweep(active) <= least;
            if converged && !active {
                return count;
            }
            active = !converged;
        }
        -self.rule.sweeps
    }

    /// The squared error.
    fn loss(&self) -> f64 {
        let mut total = self.gram.diagonal[self.index];
        for (item, weight) in self.items.iter().zip(&*self.weights) {
            let item = item.position();
            total += weight * (self.slopes[item] - self.target[item]);
        }
        total
    }
}

/// Columns that are computed together.
struct Piece<'a, J> {
    first: usize,
    columns: Vec<(&'a [J], &'a mut [f64])>,
    losses: &'a mut [f64],
    sweeps: &'a mut [i64],
}

/// The weights of all columns, and what is returned of them.
#[derive(Debug)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct Columns<'a> {
    pub weights: &'a mut [f64],
    pub losses: &'a mut [f64],
    pub sweeps: &'a mut [i64],
}

/// Minimize over the weights of each column, at the places of its candidates.
pub fn item_columns<I: Index, F: Feature, J: Index>(
    gram: Gram<'_, I, F>,
    indptr: &[J],
    indices: &[J],
    rule: ItemRule,
    columns: Columns<'_>,
    team: &ThreadTeam,
) {
    let n = gram.diagonal.len();
    let (mut weights, mut places) = (columns.weights, indices);
    let shares = columns.losses.chunks_mut(COLUMNS);
    let shares = shares.zip(columns.sweeps.chunks_mut(COLUMNS)).enumerate();
    let pieces: Vec<_> = shares
        .map(|(piece, (losses, sweeps))| {
            let first = piece * COLUMNS;
            let lines = first..first + losses.len();
            let columns = lines.map(|column| {
                let count = indptr[column + 1].position() - indptr[column].position();
                let items = places.split_off(..count).unwrap_or_default();
                (items, weights.split_off_mut(..count).unwrap_or_default())
            });
            Piece {
                first,
                columns: columns.collect(),
                losses,
                sweeps,
            }
        })
        .collect();
    team.run(pieces.into_iter(), |piece| {
        let (mut slopes, mut target) = (filled(n, 0.0), filled(n, 0.0));
        let lines = piece.columns.iter_mut().zip(&mut *piece.losses);
        for (at, ((line, loss), sweeps)) in lines.zip(&mut *piece.sweeps).enumerate() {
            let mut column = Column {
                gram,
                rule,
                index: piece.first + at,
                items: line.0,
                weights: line.1,
                slopes: &mut slopes,
                target: &mut target,
            };
            column.start();
            *sweeps = column.descend();
            *loss = column.loss();
        }
    });
}
