//! Scores of the linear model.

use crate::dispatch::{Job, dispatch};
use crate::matrix::{Compressed, Dense, Feature, Index, Matrix};
use crate::simd::Machine;
use crate::sums::dot_lanes;
use crate::threads::ThreadTeam;

/// Rows that one thread takes at a time. A row's score does not depend on it.
const ROWS: usize = 256;

/// Fill out[i] with the dot product of row i and the weights: for dense rows the sum in lanes, for
/// sparse ones the sum from 0.0 in stored order.
pub fn scores<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    weights: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) {
    team.run(out.chunks_mut(ROWS).enumerate(), |(part, out)| {
        let first = *part * ROWS;
        match features {
            Matrix::Dense(x) => dispatch(DenseRows {
                x,
                first,
                weights,
                out,
            }),
            Matrix::Sparse(x) => sparse_rows(x, first, weights, out),
        }
    });
}

struct DenseRows<'a, 'o, F> {
    x: Dense<'a, F>,
    first: usize,
    weights: &'a [f64],
    out: &'o mut [f64],
}

impl<F: Feature> Job for DenseRows<'_, '_, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        for (row, out) in (self.first..).zip(self.out) {
            *out = dot_lanes(machine, self.x.line(row), self.weights);
        }
    }
}

fn sparse_rows<I: Index, F: Feature>(
    x: Compressed<'_, I, F>,
    first: usize,
    weights: &[f64],
    out: &mut [f64],
) {
    for (row, out) in (first..).zip(out) {
        let (indices, data) = x.line(row);
        *out = indices.iter().zip(data).fold(0.0, |total, (i, value)| {
            total + value.widen() * weights[i.position()]
        });
    }
}
