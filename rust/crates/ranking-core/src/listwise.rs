//! Listwise losses of sampled lists: one positive against n negatives, given by their margins.
//!
//! This is the only place that knows the formula of such a loss. A loss of a third party is a pair
//! of C functions behind [`NativeList`].

use std::fmt::Debug;

use crate::constants::LANES;
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::exp;
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;

/// Lists that one thread takes at a time.
const PIECE: usize = 64;

/// Value and slopes of one list's loss; pure, and called from any thread.
pub trait NativeList: Debug + Sync {
    /// The loss.
    fn value(&self, scores: &[f64], grades: &[f64]) -> f64;
    /// Its derivative by each score.
    fn slopes(&self, scores: &[f64], grades: &[f64], out: &mut [f64]);
}

/// Which listwise loss.
#[derive(Clone, Copy, Debug)]
pub enum ListwiseLoss<'a> {
    /// weight * log(1 + sum of exp(margin - z))
    Domination {
        /// Weight of the positive.
        weight: f64,
        /// Margin of the positive to the negatives.
        margin: f64,
    },
    /// Functions of a third party.
    Native(&'a dyn NativeList),
}

/// Numbers that a loss needs while it computes a list of so many negatives.
pub(crate) fn scratch(negatives: usize) -> Vec<f64> {
    filled(2 * (negatives + 1) + LANES, 0.0)
}

impl ListwiseLoss<'_> {
    /// Fill the slopes of the scores of the positive and the negatives; return the loss, which is
    /// NaN if a slope is not finite.
    #[inline(always)]
    pub(crate) fn list<M: Machine>(
        self,
        machine: M,
        margins: &[f64],
        slopes: &mut [f64],
        scratch: &mut [f64],
    ) -> f64 {
        match self {
            Self::Domination { weight, margin } => {
                domination(machine, [weight, margin], margins, slopes, scratch)
            }
            Self::Native(functions) => native(functions, margins, slopes, scratch),
        }
    }
}

#[inline(always)]
fn domination<M: Machine>(
    machine: M,
    [weight, margin]: [f64; 2],
    margins: &[f64],
    slopes: &mut [f64],
    scratch: &mut [f64],
) -> f64 {
    let (whole, rest) = margins.as_chunks::<LANES>();
    let (shares, last_shares) = scratch.split_at_mut(whole.len() * LANES);
    let required = Lanes::splat(machine, margin);
    // Behind the last negatives there is at least one 0, which becomes exp(0 - top).
    let mut last = [0.0; LANES];
    for (u, z) in last.iter_mut().zip(rest) {
        *u = margin - z;
    }
    let mut tops = Lanes::splat(machine, 0.0);
    for z in whole {
        let u = required - Lanes::new(machine, *z);
        tops = tops.if_less(u, u, tops);
    }
    let u = Lanes::new(machine, last);
    tops = tops.if_less(u, u, tops);
    let largest = |top, x| if x > top { x } else { top };
    let top = tops.array().into_iter().fold(0.0, largest);
    let (shift, mut sums) = (Lanes::splat(machine, top), Lanes::splat(machine, 0.0));
    for (z, share) in whole.iter().zip(shares.as_chunks_mut::<LANES>().0) {
        let e = exp::full((required - Lanes::new(machine, *z)) - shift);
        *share = e.array();
        sums += e;
    }
    last = exp::full(Lanes::new(machine, last) - shift).array();
    let own = last[LANES - 1];
    last[rest.len()..].fill(0.0);
    last_shares[..LANES].copy_from_slice(&last);
    sums += Lanes::new(machine, last);
    let below = sums.fold();
    let total = own + below;
    let r = weight / total;
    slopes[0] = -(r * below);
    for (slope, e) in slopes[1..].iter_mut().zip(&*scratch) {
        *slope = r * e;
    }
    if !total.is_finite() {
        return f64::NAN;
    }
    weight
        * if top == 0.0 {
            below.ln_1p()
        } else {
            top + total.ln()
        }
}

fn native(
    functions: &dyn NativeList,
    margins: &[f64],
    slopes: &mut [f64],
    scratch: &mut [f64],
) -> f64 {
    let (scores, grades) = scratch.split_at_mut(slopes.len());
    let grades = &mut grades[..slopes.len()];
    grades.fill(0.0);
    (scores[0], grades[0]) = (0.0, 1.0);
    for (score, z) in scores[1..].iter_mut().zip(margins) {
        *score = -z;
    }
    slopes.fill(0.0);
    let value = functions.value(scores, grades);
    functions.slopes(scores, grades, slopes);
    let mut total = 0.0;
    for slope in &slopes[1..] {
        total += slope;
    }
    slopes[0] = -total;
    if slopes.iter().all(|slope| slope.is_finite()) {
        value
    } else {
        f64::NAN
    }
}

/// Loss and slopes of each list.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct ListSlopes<'a> {
    pub losses: &'a mut [f64],
    pub slopes: &'a mut [f64],
}

struct Piece<'a> {
    loss: ListwiseLoss<'a>,
    negatives: usize,
    margins: &'a [f64],
    out: ListSlopes<'a>,
}

impl Job for Piece<'_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let mut scratch = scratch(self.negatives);
        let lists = self.margins.chunks_exact(self.negatives);
        let slopes = self.out.slopes.chunks_exact_mut(self.negatives + 1);
        for ((margins, slopes), loss) in lists.zip(slopes).zip(self.out.losses) {
            *loss = self.loss.list(machine, margins, slopes, &mut scratch);
        }
    }
}

/// Fill losses and slopes of lists with the same number of negatives.
pub fn listwise_slopes(
    loss: ListwiseLoss<'_>,
    margins: &[f64],
    negatives: usize,
    out: ListSlopes<'_>,
    team: &ThreadTeam,
) {
    let lists = margins.chunks(PIECE * negatives);
    let slopes = out.slopes.chunks_mut(PIECE * (negatives + 1));
    let pieces = lists.zip(slopes.zip(out.losses.chunks_mut(PIECE)));
    let pieces = pieces.map(|(margins, (slopes, losses))| {
        Some(Piece {
            loss,
            negatives,
            margins,
            out: ListSlopes { losses, slopes },
        })
    });
    team.run(pieces, |piece| {
        if let Some(piece) = piece.take() {
            dispatch(piece);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_one_negative_is_the_logistic_loss() {
        let (mut losses, mut slopes) = ([0.0; 2], [0.0; 4]);
        let out = ListSlopes {
            losses: &mut losses,
            slopes: &mut slopes,
        };
        let loss = ListwiseLoss::Domination {
            weight: 1.0,
            margin: 0.0,
        };
        listwise_slopes(loss, &[0.5, -2.0], 1, out, &ThreadTeam::single());
        for (loss, z) in losses.iter().zip([0.5_f64, -2.0]) {
            assert!((loss - (-z).exp().ln_1p()).abs() < 1e-15);
        }
        assert!((slopes[1] - 1.0 / (1.0 + 0.5_f64.exp())).abs() < 1e-15);
        assert_eq!(slopes[0], -slopes[1]);
    }
}
