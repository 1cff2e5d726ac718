//! Threshold, norm and gain of a summed row.

use crate::matrix::Stored;
use crate::simd::{Eight, Machine, Wide};

/// Threshold and limit of a half-step.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    threshold: f32,
    /// It still limits if it is so small that it is 0 as a single.
    limit: Option<f32>,
}

impl Rule {
    /// A limit of 0 is none.
    #[must_use]
    pub fn new(threshold: f64, limit: f64) -> Self {
        Self {
            threshold: f32::narrow(threshold),
            limit: (limit > 0.0).then(|| f32::narrow(limit)),
        }
    }

    /// Fill `soft` with the thresholded omega; return what it is to be scaled by.
    #[inline(always)]
    pub(super) fn shrink<M: Machine>(self, machine: M, omega: &[Eight], soft: &mut [Eight]) -> f32 {
        let cut = Wide::splat(machine, self.threshold);
        let mut squares = Wide::splat(machine, 0.0);
        for (soft, omega) in soft.iter_mut().zip(omega) {
            let shrunk = Wide::new(machine, *omega).soft(cut);
            *soft = shrunk.array();
            squares += shrunk * shrunk;
        }
        let square = squares.fold();
        match self.limit {
            Some(limit) if square > 0.0 => limit / square.sqrt(),
            // Times 1 is no change: there is one loop for all rows.
            _ => 1.0,
        }
    }
}

/// The sums of a gain.
pub(super) struct Gain<M: Machine> {
    products: Wide<M>,
    sizes: Wide<M>,
}

impl<M: Machine> Gain<M> {
    #[inline(always)]
    pub(super) fn new(machine: M) -> Self {
        let zero = Wide::splat(machine, 0.0);
        Self {
            products: zero,
            sizes: zero,
        }
    }

    #[inline(always)]
    pub(super) fn add(&mut self, row: Wide<M>, omega: Wide<M>) {
        self.products += row * omega;
        self.sizes += row.abs();
    }

    #[inline(always)]
    pub(super) fn total(self, rule: Rule) -> f64 {
        f64::from(self.products.fold()) - f64::from(rule.threshold) * f64::from(self.sizes.fold())
    }
}
