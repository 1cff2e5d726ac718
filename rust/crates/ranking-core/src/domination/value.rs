//! The loss itself.

use std::ops::Range;

use super::extremes;
use super::layout::ListLayout;
use crate::constants::LANES;
use crate::dispatch::{Job, dispatch};
use crate::exp;
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;

/// Add exp(m - c) of each margin to `z`, in order.
#[inline(always)]
fn add_exponentials<M: Machine>(machine: M, mut z: f64, margins: &[f64], c: f64) -> f64 {
    let (chunks, rest) = margins.as_chunks::<LANES>();
    for chunk in chunks {
        for e in exp::full(Lanes::new(machine, *chunk) - Lanes::splat(machine, c)).array() {
            z += e;
        }
    }
    for m in rest {
        z += exp::one(m - c);
    }
    z
}

/// Loss of one list, with a reference `c` that rises with the layers.
#[inline(always)]
fn list_value<M: Machine>(machine: M, lists: &ListLayout<'_>, q: usize, margins: &[f64]) -> f64 {
    let layers = lists.layers(q);
    let (mut value, mut c, mut z) = (0.0, 0.0, 0.0);
    for layer in layers.clone() {
        let rows = lists.rows(layer);
        let here = &margins[rows.clone()];
        if layer > layers.start {
            let below = f64::ln(z) + c;
            for (m, w) in here.iter().zip(&lists.omega[rows]) {
                let u = below - m;
                value += if u > 0.0 {
                    w * (u + exp::one(-u).ln_1p())
                } else {
                    w * exp::one(u).ln_1p()
                };
            }
        }
        if layer + 1 < layers.end {
            let (_, top) = extremes(machine, here);
            if layer == layers.start {
                c = top;
            } else if top > c {
                z *= exp::one(c - top);
                c = top;
            }
            z = add_exponentials(machine, z, here, c);
        }
    }
    value
}

struct Block<'a> {
    lists: &'a ListLayout<'a>,
    range: Range<usize>,
    margins: &'a [f64],
}

impl Job for Block<'_> {
    type Output = f64;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> f64 {
        let mut total = 0.0;
        for q in self.range {
            total += list_value(machine, self.lists, q, self.margins);
        }
        total
    }
}

/// Return the loss at these margins: sums of the lists of a block, then of the blocks, in order.
#[must_use]
pub fn value(lists: &ListLayout<'_>, margins: &[f64], team: &ThreadTeam) -> f64 {
    let mut sums: Vec<_> = lists.blocks().map(|range| (range, 0.0)).collect();
    team.run(sums.iter_mut(), |(range, sum)| {
        let range = range.clone();
        *sum = dispatch(Block {
            lists,
            range,
            margins,
        });
    });
    sums.iter().fold(0.0, |total, (_, sum)| total + sum)
}
