//! Lazy shrinkage: what a stored number is worth now. The contract has the derivation.

use crate::constants::{MIN_SCALE, REBASE_WINDOW};
use crate::simd::{Lanes, Machine};

/// The state of the lazy shrinkage of W.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShrinkageState {
    /// Number of steps so far; a whole number.
    pub step: f64,
    /// Running scale A.
    pub scale: f64,
    /// Running threshold B.
    pub threshold: f64,
    /// Sum of the learning rates since the last application of the penalty.
    pub learning_rates: f64,
}

impl ShrinkageState {
    /// The window of the current step.
    pub(super) fn window(&self) -> f64 {
        (self.step / REBASE_WINDOW).floor()
    }

    /// Does a window end here, in which entries may have shrunk to zero?
    pub(super) fn ends_window(&self, rule: &UpdateRule) -> bool {
        rule.l1 > 0.0 && self.step % REBASE_WINDOW == 0.0
    }

    /// End a step; return whether the running scale is too small and must be reset.
    #[must_use]
    pub(super) fn end_step(&mut self, learning_rate: f64, rule: &UpdateRule) -> bool {
        self.learning_rates += learning_rate;
        if self.step % rule.prox_interval != 0.0 {
            return false;
        }
        let due = std::mem::replace(&mut self.learning_rates, 0.0);
        self.threshold += (rule.l1 * due) / self.scale;
        self.scale /= 1.0 + rule.l2 * due;
        self.scale < MIN_SCALE
    }

    /// Reset A and B; every row must have been rebased.
    pub(super) fn reset(&mut self) {
        (self.scale, self.threshold) = (1.0, 0.0);
    }
}

impl From<&[f64]> for ShrinkageState {
    fn from(numbers: &[f64]) -> Self {
        Self {
            step: numbers[0],
            scale: numbers[1],
            threshold: numbers[2],
            learning_rates: numbers[3],
        }
    }
}

impl From<ShrinkageState> for [f64; 4] {
    fn from(state: ShrinkageState) -> Self {
        [
            state.step,
            state.scale,
            state.threshold,
            state.learning_rates,
        ]
    }
}

/// The penalty of W, and which entries may change.
#[derive(Clone, Copy, Debug)]
pub struct UpdateRule {
    /// Steps between two applications of the penalty, at least 1.
    pub prox_interval: f64,
    /// With groups, the strength of the group penalty.
    pub l1: f64,
    /// The strength of l2.
    pub l2: f64,
    /// Whether entries that are zero may change.
    pub grow: bool,
}

/// A and B at which a row was last rebased, and the window in which that was.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) scale: f64,
    pub(super) threshold: f64,
    pub(super) window: f64,
}

impl Origin {
    pub(super) fn pending(&self, state: &ShrinkageState) -> Pending {
        Pending {
            k: state.scale / self.scale,
            s: (state.threshold - self.threshold) * self.scale,
        }
    }
}

/// Shrinkage that is not yet applied to stored entries: v has the weight
/// sign(v) k max(|v| - s, 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pending {
    pub(super) k: f64,
    pub(super) s: f64,
}

impl Pending {
    /// Are the stored numbers the weights?
    pub(super) fn is_none(self) -> bool {
        self.k == 1.0 && self.s == 0.0
    }

    /// The weight of an entry.
    #[inline(always)]
    pub(super) fn weight(self, v: f64) -> f64 {
        let left = v.abs() - self.s;
        if left > 0.0 {
            (self.k * left).copysign(v)
        } else {
            0.0
        }
    }

    /// The weights of four entries. Subtracting s from v, or adding it, is exactly symmetric.
    #[inline(always)]
    pub(super) fn weights<M: Machine>(self, v: Lanes<M>) -> Lanes<M> {
        let (s, zero) = (v.all(self.s), v.all(0.0));
        let below = v.if_less(v.all(-self.s), v + s, zero);
        v.all(self.k) * s.if_less(v, v - s, below)
    }

    /// The stored numbers of four weights.
    #[inline(always)]
    pub(super) fn entries<M: Machine>(self, w: Lanes<M>) -> Lanes<M> {
        let (s, zero) = (w.all(self.s), w.all(0.0));
        // A division by 1 changes nothing, and takes most of the time.
        let v = if self.k == 1.0 { w } else { w / w.all(self.k) };
        // What is neither, a zero or a NaN, stays.
        let below = w.if_less(zero, v - s, w);
        zero.if_less(w, v + s, below)
    }

    /// `yes` for those of four entries whose weight is not zero, else `no`.
    #[inline(always)]
    pub(super) fn if_nonzero<M: Machine>(
        self,
        v: Lanes<M>,
        yes: Lanes<M>,
        no: Lanes<M>,
    ) -> Lanes<M> {
        let below = v.if_less(v.all(-self.s), yes, no);
        v.all(self.s).if_less(v, yes, below)
    }
}
