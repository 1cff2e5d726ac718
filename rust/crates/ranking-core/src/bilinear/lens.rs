//! What a stored number is worth now, and how that changes with the clock.

use crate::contract::{RENEW, SMALLEST_SCALE};
use crate::invalid::Invalid;
use crate::lanes::{Lanes, Machine};

/// Steps taken, running scale A and threshold B, rates since the last boundary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clock {
    /// Steps taken; a whole number.
    pub step: f64,
    /// A.
    pub scale: f64,
    /// B.
    pub threshold: f64,
    /// The sum of the rates since the last boundary.
    pub rates: f64,
}

impl Clock {
    /// The window of the current step.
    pub(super) fn window(&self) -> f64 {
        (self.step / RENEW).floor()
    }

    /// Does a window end here, in which entries may have died?
    pub(super) fn ends_window(&self, penalty: &Penalty) -> bool {
        penalty.l1 > 0.0 && self.step % RENEW == 0.0
    }

    /// End a step; is a running scale that has become too small to be started anew?
    #[must_use]
    pub(super) fn tick(&mut self, rate: f64, penalty: &Penalty) -> bool {
        self.rates += rate;
        if self.step % penalty.every != 0.0 {
            return false;
        }
        let due = std::mem::replace(&mut self.rates, 0.0);
        self.threshold += (penalty.l1 * due) / self.scale;
        self.scale /= 1.0 + penalty.l2 * due;
        self.scale < SMALLEST_SCALE
    }

    /// Start A and B anew; every row must have been renewed.
    pub(super) fn restart(&mut self) {
        (self.scale, self.threshold) = (1.0, 0.0);
    }
}

impl From<[f64; 4]> for Clock {
    fn from([step, scale, threshold, rates]: [f64; 4]) -> Self {
        Self {
            step,
            scale,
            threshold,
            rates,
        }
    }
}

impl From<Clock> for [f64; 4] {
    fn from(clock: Clock) -> Self {
        [clock.step, clock.scale, clock.threshold, clock.rates]
    }
}

/// By how much, and how often, W is shrunk.
#[derive(Clone, Copy, Debug)]
pub struct Penalty {
    pub(super) every: f64,
    pub(super) l1: f64,
    pub(super) l2: f64,
}

impl Penalty {
    /// Shrink after every so many steps. With groups, l1 is the strength of their penalty.
    ///
    /// # Errors
    /// When `every` is below 1.
    pub fn new(every: f64, l1: f64, l2: f64) -> Result<Self, Invalid> {
        if every >= 1.0 {
            return Ok(Self { every, l1, l2 });
        }
        Err(Invalid::new(format!(
            "every is {every}; it must be at least 1."
        )))
    }

    pub(super) fn is_none(&self) -> bool {
        self.l1 == 0.0 && self.l2 == 0.0
    }
}

/// The clock at which a row was last renewed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) scale: f64,
    pub(super) threshold: f64,
    pub(super) window: f64,
}

impl Origin {
    pub(super) fn lens(&self, clock: &Clock) -> Lens {
        Lens {
            k: clock.scale / self.scale,
            s: (clock.threshold - self.threshold) * self.scale,
        }
    }
}

/// An entry stored as v is sign(v) k max(|v| - s, 0).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Lens {
    pub(super) k: f64,
    pub(super) s: f64,
}

impl Lens {
    /// Does it show entries as they are stored?
    pub(super) fn is_plain(self) -> bool {
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

    /// The weights of four entries. Taking s from v, or adding it, is exactly symmetric.
    #[inline(always)]
    pub(super) fn weights<M: Machine>(self, v: Lanes<M>) -> Lanes<M> {
        let (s, zero) = (v.all(self.s), v.all(0.0));
        let below = v.if_less(v.all(-self.s), v + s, zero);
        v.all(self.k) * s.if_less(v, v - s, below)
    }

    /// How four weights are stored.
    #[inline(always)]
    pub(super) fn entries<M: Machine>(self, w: Lanes<M>) -> Lanes<M> {
        let (s, zero) = (w.all(self.s), w.all(0.0));
        // A division by 1 changes nothing, and takes most of the time.
        let v = if self.k == 1.0 { w } else { w / w.all(self.k) };
        // What is neither, a zero or a NaN, stays.
        let below = w.if_less(zero, v - s, w);
        zero.if_less(w, v + s, below)
    }

    /// `yes` for those of four entries that are not zero, else `no`.
    #[inline(always)]
    pub(super) fn if_there<M: Machine>(self, v: Lanes<M>, yes: Lanes<M>, no: Lanes<M>) -> Lanes<M> {
        let below = v.if_less(v.all(-self.s), yes, no);
        v.all(self.s).if_less(v, yes, below)
    }
}
