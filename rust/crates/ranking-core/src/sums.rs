//! Sums in lanes: the same bits for any instruction set.

use crate::constants::LANES;
use crate::matrix::Feature;
use crate::simd::{Lanes, Machine};

/// Sum of a[i] * b[i] in lanes; the longer slice is cut.
#[inline(always)]
pub(crate) fn dot_lanes<M: Machine, F: Feature>(machine: M, a: &[F], b: &[f64]) -> f64 {
    let (a, a_rest) = a.as_chunks::<LANES>();
    let (b, b_rest) = b.as_chunks::<LANES>();
    let mut sum = Lanes::splat(machine, 0.0);
    for (a, b) in a.iter().zip(b) {
        sum += Lanes::widen(machine, *a) * Lanes::new(machine, *b);
    }
    let mut last = [0.0; LANES];
    for ((last, a), b) in last.iter_mut().zip(a_rest).zip(b_rest) {
        *last = a.widen() * b;
    }
    (sum + Lanes::new(machine, last)).fold()
}
