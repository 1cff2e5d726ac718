//! Sums in lanes and sums of blocks: the same bits for any instruction set and number of threads.

use crate::constants::{BLOCK, LANES};
use crate::dispatch::{Job, dispatch};
use crate::matrix::Feature;
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;

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

/// Sum in lanes.
#[inline(always)]
fn sum_lanes<M: Machine>(machine: M, values: &[f64]) -> f64 {
    let (chunks, rest) = values.as_chunks::<LANES>();
    let mut sum = Lanes::splat(machine, 0.0);
    for chunk in chunks {
        sum += Lanes::new(machine, *chunk);
    }
    let mut last = [0.0; LANES];
    last[..rest.len()].copy_from_slice(rest);
    (sum + Lanes::new(machine, last)).fold()
}

struct Dot<'a>(&'a [f64], &'a [f64]);

impl Job for Dot<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> f64 {
        dot_lanes(machine, self.0, self.1)
    }
}

/// The sum in lanes of a[i] * b[i].
#[must_use]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    dispatch(Dot(a, b))
}

struct Sum<'a>(&'a [f64]);

impl Job for Sum<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> f64 {
        sum_lanes(machine, self.0)
    }
}

/// The sum of the blocks' sums in lanes, added in order.
#[must_use]
pub fn block_sum(values: &[f64], team: &ThreadTeam) -> f64 {
    let mut blocks: Vec<_> = values.chunks(BLOCK).map(|block| (block, 0.0)).collect();
    team.run(blocks.iter_mut(), |(block, sum)| {
        *sum = dispatch(Sum(block));
    });
    // Not `sum()`, which starts from -0.0.
    blocks.iter().fold(0.0, |total, (_, sum)| total + sum)
}
