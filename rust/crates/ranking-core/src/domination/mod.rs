//! The domination loss: a row dominates all rows of lower layers of its list.

mod dense;
pub(crate) mod layout;
mod sparse;
mod step;
mod wide_range;

pub use layout::*;
pub use step::*;

use crate::constants::{LANES, ROUNDING};
use crate::exp;
use crate::matrix::{Feature, Index, Matrix};
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;
use step::CoordinateDescent;

/// Take one coordinate descent step along each of the columns, in order.
pub fn sweep<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    lists: &ListLayout<'_>,
    state: CoordinateState<'_>,
    columns: &[i64],
    penalty: EntryPenalty,
    newton: bool,
    team: &ThreadTeam,
) {
    let margins = state.margins;
    let descent = CoordinateDescent {
        weights: state.weights,
        radius: state.radius,
        bounds: state.bounds,
        columns,
        penalty,
        newton,
    };
    match features {
        Matrix::Dense(x) => dense::sweep(x, lists, margins, descent, team),
        Matrix::Sparse(x) => sparse::sweep(x, lists, margins, descent),
    }
}

/// Gradient and curvature.
type Pair = (f64, f64);

/// Mean and variance (raised by its own rounding) of a feature over the rows below, from the sums
/// of their exponentials e, of e x and of e x x.
#[inline(always)]
fn moments(z: f64, m: f64, n: f64) -> Pair {
    let mean = m / z;
    let square = n / z;
    let variance = square - mean * mean;
    let variance = if variance < 0.0 { 0.0 } else { variance };
    (mean, variance + ROUNDING * square)
}

/// The larger; `a` if they do not compare.
#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if b > a { b } else { a }
}

/// The smaller; `a` if they do not compare.
#[inline(always)]
fn smaller(a: f64, b: f64) -> f64 {
    if b < a { b } else { a }
}

/// The smallest and the largest of some values; NaN if one is.
#[inline(always)]
fn extremes<M: Machine, F: Feature>(machine: M, values: &[F]) -> Pair {
    let mut low = Lanes::splat(machine, f64::INFINITY);
    let mut high = Lanes::splat(machine, f64::NEG_INFINITY);
    let (chunks, rest) = values.as_chunks::<LANES>();
    // The rest is padded with its first value, which changes no extreme.
    let padded = rest.first().map(|first| {
        let mut padded = [*first; LANES];
        padded[..rest.len()].copy_from_slice(rest);
        padded
    });
    for chunk in chunks.iter().chain(&padded) {
        let x = Lanes::widen(machine, *chunk);
        low = x.if_nan(x, x.if_less(low, x, low));
        high = x.if_nan(x, high.if_less(x, x, high));
    }
    let fold = |lanes: [f64; LANES], beats: fn(f64, f64) -> f64| {
        let nan = lanes.into_iter().find(|lane| lane.is_nan());
        nan.unwrap_or_else(|| beats(beats(lanes[0], lanes[1]), beats(lanes[2], lanes[3])))
    };
    (fold(low.array(), smaller), fold(high.array(), larger))
}

/// Fill `e` with exp(m - top).
#[inline(always)]
fn exponentials<M: Machine>(machine: M, margins: &[f64], top: f64, e: &mut [f64]) {
    let (from, from_rest) = margins.as_chunks::<LANES>();
    let (to, to_rest) = e.as_chunks_mut::<LANES>();
    for (m, e) in from.iter().zip(to) {
        *e = exp::full(Lanes::new(machine, *m) - Lanes::splat(machine, top)).array();
    }
    for (m, e) in from_rest.iter().zip(to_rest) {
        *e = exp::one(m - top);
    }
}

/// Sum in order.
#[inline(always)]
fn sum(values: &[f64]) -> f64 {
    // Not `Iterator::sum`, which starts from -0.0.
    values.iter().fold(0.0, |total, value| total + value)
}
