//! Slopes of a wide-range list: its margins span too much for one reference.

use std::ops::Range;

use super::layout::ListLayout;
use super::{Pair, extremes, moments};
use crate::exp;
use crate::matrix::Feature;
use crate::simd::Machine;

/// Gradient and curvature of list `q`, with a reference per layer: right for any margins.
///
/// `margins` and `x` hold the rows from `first` on.
#[inline(always)]
pub(super) fn wide_range_slopes<M: Machine, F: Feature>(
    machine: M,
    lists: &ListLayout<'_>,
    q: usize,
    first: usize,
    margins: &[f64],
    x: &[F],
) -> Pair {
    let layers = lists.layers(q);
    let (mut g, mut h) = (0.0, 0.0);
    let (mut c, mut z, mut m, mut n) = (0.0, 0.0, 0.0, 0.0);
    for layer in layers.clone() {
        let rows = lists.rows(layer);
        let here: Range<usize> = rows.start - first..rows.end - first;
        let (margins, x) = (&margins[here.clone()], &x[here]);
        if layer > layers.start {
            let (mean, variance) = moments(z, m, n);
            let omega = &lists.omega[rows];
            for ((margin, x), w) in margins.iter().zip(x).zip(omega) {
                let p = z / (z + exp::one(margin - c));
                let d = x.widen() - mean;
                let s = w * p;
                g -= s * d;
                h += s * (variance + (1.0 - p) * (d * d));
            }
        }
        if layer + 1 < layers.end {
            let (_, top) = extremes(machine, margins);
            if layer == layers.start {
                c = top;
            } else if top > c {
                let scale = exp::one(c - top);
                z *= scale;
                m *= scale;
                n *= scale;
                c = top;
            }
            for (margin, x) in margins.iter().zip(x) {
                let e = exp::one(margin - c);
                let x = x.widen();
                let u = e * x;
                z += e;
                m += u;
                n += u * x;
            }
        }
    }
    (g, h)
}
