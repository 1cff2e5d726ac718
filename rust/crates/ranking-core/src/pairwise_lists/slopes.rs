//! Value and slopes.

use std::ops::Range;

use super::list::{List, Row};
use super::windows::window_slopes;
use super::{Curve, NativeCurve};
use crate::constants::{LANES, PRODUCTS};
use crate::dispatch::{Job, dispatch};
use crate::domination::ListLayout;
use crate::exp;
use crate::pairwise::PairwiseSlope;
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;

/// exp(-|z|), and 1 plus it.
#[inline(always)]
pub(super) fn sigmoids<M: Machine>(z: Lanes<M>) -> (Lanes<M>, Lanes<M>) {
    let e = exp::full(z.if_less(z.all(0.0), z, z.all(0.0) - z));
    (e, e.all(1.0) + e)
}

/// The loss of one row and the rows below it, and its slope; theirs are added to `pull`.
#[inline(always)]
fn logistic_row<M: Machine>(machine: M, list: &mut List, top: Row) -> (f64, f64) {
    let List { low, pull, .. } = list;
    let (zero, one) = (Lanes::splat(machine, 0.0), Lanes::splat(machine, 1.0));
    let (mut v, mut sum) = (0.0, zero);
    for (low, pull) in low.chunks(PRODUCTS).zip(pull.chunks_mut(PRODUCTS)) {
        let (mut linear, mut factors) = (zero, one);
        let low = low.as_chunks::<LANES>().0.iter();
        for (low, pull) in low.zip(pull.as_chunks_mut::<LANES>().0) {
            let z = Lanes::splat(machine, top.m) - Lanes::new(machine, *low);
            let (e, plus) = sigmoids(z);
            let s = z.if_less(zero, one, e) / plus;
            linear += z.if_less(zero, zero - z, zero);
            factors = factors * plus;
            sum += s;
            *pull = (Lanes::new(machine, *pull) + z.all(top.w) * s).array();
        }
        let [a, b, c, d] = factors.array();
        v += linear.fold() + f64::ln((a * c) * (b * d));
    }
    (v, -sum.fold())
}

fn native_row(curve: NativeCurve, list: &mut List, n: usize, top: Row) -> (f64, f64) {
    let (mut v, mut total) = (0.0, 0.0);
    for (low, pull) in list.low.iter().zip(&mut list.pull).take(n) {
        let z = top.m - low;
        v += curve.value.slope(z);
        let s = curve.slope.slope(z);
        total += s;
        *pull -= top.w * s;
    }
    (v, total)
}

/// The slopes of a list by all pairs; return its loss.
#[inline(always)]
fn pair_slopes<M: Machine>(
    machine: M,
    list: &mut List,
    native: Option<NativeCurve>,
    out: &mut [f64],
) -> f64 {
    let mut value = 0.0;
    for tops in list.groups() {
        let n = tops.start;
        list.load_low(n);
        for at in tops {
            let top = list.rows[at];
            let (v, slope) = match native {
                None => logistic_row(machine, list, top),
                Some(curve) => native_row(curve, list, n, top),
            };
            value += top.w * v;
            out[at] += top.w * slope;
        }
        for (out, pull) in out.iter_mut().zip(&list.pull[..n]) {
            *out += pull;
        }
    }
    value
}

/// The slopes of a block of lists.
struct Block<'a, 'o> {
    lists: &'a ListLayout<'a>,
    range: Range<usize>,
    margins: &'a [f64],
    curve: Curve,
    out: &'o mut [f64],
}

impl Job for Block<'_, '_> {
    type Output = f64;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> f64 {
        let (mut list, mut total, mut rest) = (List::default(), 0.0, self.out);
        for q in self.range {
            list.load(self.lists, q, self.margins);
            let (out, after) = rest.split_at_mut(list.rows.len());
            out.fill(0.0);
            total += match self.curve {
                Curve::Windows(window) => window_slopes(&mut list, window, out),
                Curve::Logistic => pair_slopes(machine, &mut list, None, out),
                Curve::Native(curve) => pair_slopes(machine, &mut list, Some(curve), out),
            };
            rest = after;
        }
        total
    }
}

/// Fill `out` with the slope of the loss by each margin; return the loss.
pub fn slopes(
    lists: &ListLayout<'_>,
    margins: &[f64],
    curve: Curve,
    out: &mut [f64],
    team: &ThreadTeam,
) -> f64 {
    let (mut blocks, mut rest) = (Vec::new(), out);
    for range in lists.blocks() {
        let (own, after) = rest.split_at_mut(lists.rows_of(range.clone()).len());
        blocks.push((range, own, 0.0));
        rest = after;
    }
    team.run(blocks.iter_mut(), |(range, out, value)| {
        let range = range.clone();
        *value = dispatch(Block {
            lists,
            range,
            margins,
            curve,
            out,
        });
    });
    blocks.iter().fold(0.0, |total, (.., value)| total + value)
}
