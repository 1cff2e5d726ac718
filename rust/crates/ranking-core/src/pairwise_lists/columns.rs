//! Products and sums of columns of features.

use crate::constants::BLOCK;
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::matrix::{Dense, Feature, Index, Matrix};
use crate::simd::Machine;
use crate::sums::dot_lanes;
use crate::threads::ThreadTeam;

/// The products of all selected columns with a block of values.
struct Products<'a, 'o, F> {
    x: Dense<'a, F>,
    columns: &'a [i64],
    start: usize,
    values: &'a [f64],
    out: &'o mut [f64],
}

impl<F: Feature> Job for Products<'_, '_, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        for (column, out) in self.columns.iter().zip(self.out) {
            let column = &self.x.line(column.position())[self.start..];
            *out = dot_lanes(machine, &column[..self.values.len()], self.values);
        }
    }
}

/// Fill out[c] with the product of column columns[c] and the values.
pub fn products<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    columns: &[i64],
    values: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) {
    match features {
        Matrix::Dense(x) => {
            let blocks = values.len().div_ceil(BLOCK);
            let mut sums = filled(blocks * columns.len(), 0.0);
            let parts = sums.chunks_mut(columns.len().max(1));
            team.run(values.chunks(BLOCK).zip(parts).enumerate(), |part| {
                let (block, (values, out)) = part;
                let start = *block * BLOCK;
                dispatch(Products {
                    x,
                    columns,
                    start,
                    values,
                    out,
                });
            });
            out.fill(0.0);
            for block in sums.chunks(columns.len().max(1)) {
                for (out, sum) in out.iter_mut().zip(block) {
                    *out += sum;
                }
            }
        }
        Matrix::Sparse(x) => {
            team.run(columns.iter().zip(out), |(column, out)| {
                let (rows, data) = x.line(column.position());
                let each = rows.iter().zip(data);
                **out = each.fold(0.0, |total, (row, x)| {
                    total + x.widen() * values[row.position()]
                });
            });
        }
    }
}

/// The sum of all selected columns times their weights, for a block of rows.
struct Combine<'a, 'o, F> {
    x: Dense<'a, F>,
    columns: &'a [i64],
    weights: &'a [f64],
    start: usize,
    out: &'o mut [f64],
}

impl<F: Feature> Job for Combine<'_, '_, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, _: M) {
        for (column, &weight) in self.columns.iter().zip(self.weights) {
            if weight == 0.0 {
                continue;
            }
            let column = &self.x.line(column.position())[self.start..];
            for (out, x) in self.out.iter_mut().zip(column) {
                *out += weight * x.widen();
            }
        }
    }
}

/// Add each column times its weight to `out`.
pub fn combination<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    columns: &[i64],
    weights: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) {
    match features {
        Matrix::Dense(x) => {
            team.run(out.chunks_mut(BLOCK).enumerate(), |(block, out)| {
                let start = *block * BLOCK;
                dispatch(Combine {
                    x,
                    columns,
                    weights,
                    start,
                    out,
                });
            });
        }
        Matrix::Sparse(x) => {
            for (column, &weight) in columns.iter().zip(weights) {
                if weight == 0.0 {
                    continue;
                }
                let (rows, data) = x.line(column.position());
                for (row, x) in rows.iter().zip(data) {
                    out[row.position()] += weight * x.widen();
                }
            }
        }
    }
}
