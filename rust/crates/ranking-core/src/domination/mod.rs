//! The domination loss: a row dominates all rows of lower layers of its list.

mod bounds;
mod dense;
mod far;
mod lists;
mod sparse;
mod step;
mod value;

pub use bounds::{bounds_csc, bounds_dense};
pub use dense::{slopes_dense, sweep_dense};
pub use lists::{Lists, Padding};
pub use sparse::{slopes_csc, sweep_csc};
pub use step::Descent;
pub use value::value;

use crate::contract::{LANES, ROUNDING};
use crate::exp;
use crate::lanes::{Feature, Lanes};

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

/// The largest of some values, or NaN if one is.
#[inline(always)]
fn largest<F: Feature>(values: &[F]) -> f64 {
    extreme(values, f64::NEG_INFINITY, |value, top| value > top)
}

/// The smallest of some values, or NaN if one is.
#[inline(always)]
fn smallest<F: Feature>(values: &[F]) -> f64 {
    extreme(values, f64::INFINITY, |value, low| value < low)
}

#[inline(always)]
fn extreme<F: Feature>(values: &[F], start: f64, beats: impl Fn(f64, f64) -> bool) -> f64 {
    let pick = |best: f64, value: f64| {
        if beats(value, best) || value.is_nan() {
            value
        } else {
            best
        }
    };
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut best = Lanes::splat(start);
    for chunk in chunks {
        best = best.zip(Lanes::widen(*chunk), pick);
    }
    let best = best.0.into_iter().fold(start, pick);
    rest.iter().map(|x| x.widen()).fold(best, pick)
}

/// Fill `e` with exp(m - top).
#[inline(always)]
fn exponentials(margins: &[f64], top: f64, e: &mut [f64]) {
    let (from, from_rest) = margins.as_chunks::<LANES>();
    let (to, to_rest) = e.as_chunks_mut::<LANES>();
    for (m, e) in from.iter().zip(to) {
        *e = exp::full(Lanes(*m) - Lanes::splat(top)).0;
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
