//! Scores of the linear model.

use crate::dispatch::{Job, dispatch};
use crate::error::{Error, check_length};
use crate::matrix::{Compressed, Dense, Feature, Index, Matrix};
use crate::simd::Machine;
use crate::sums::dot_lanes;
use crate::threads::ThreadTeam;

/// Rows that one thread takes at a time. A row's score does not depend on it.
const ROWS: usize = 256;

/// Fill out[i] with the dot product of row i and the weights.
///
/// # Errors
/// When sizes do not fit.
pub fn scores<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    weights: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    match features {
        Matrix::Dense(x) => dense(x, weights, out, team),
        Matrix::Sparse(x) => csr(x, weights, out, team),
    }
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

/// Dense rows: the sum in lanes of x[i, r] * weights[r].
fn dense<F: Feature>(
    x: Dense<'_, F>,
    weights: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    check_length("weights", weights.len(), x.length())?;
    check_length("out", out.len(), x.lines())?;
    team.run(out.chunks_mut(ROWS).enumerate(), |(part, out)| {
        let first = *part * ROWS;
        dispatch(DenseRows {
            x,
            first,
            weights,
            out,
        });
    });
    Ok(())
}

/// Sparse rows: the sum, from 0.0 and in stored order, of data * weights[index].
fn csr<I: Index, F: Feature>(
    x: Compressed<'_, I, F>,
    weights: &[f64],
    out: &mut [f64],
    team: &ThreadTeam,
) -> Result<(), Error> {
    check_length("weights", weights.len(), x.length())?;
    check_length("out", out.len(), x.lines())?;
    team.run(out.chunks_mut(ROWS).enumerate(), |(part, out)| {
        for (row, out) in (*part * ROWS..).zip(out.iter_mut()) {
            let (indices, data) = x.line(row);
            *out = indices.iter().zip(data).fold(0.0, |total, (i, value)| {
                total + value.widen() * weights[i.position()]
            });
        }
    });
    Ok(())
}
