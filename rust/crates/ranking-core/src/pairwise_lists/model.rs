//! Coordinate descent on a quadratic model.

use crate::dispatch::{Job, dispatch};
use crate::domination::EntryPenalty;
use crate::simd::Machine;

/// gradient'd + d'gram d / 2 of a change d of the weights, and a penalty of the weights.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct QuadraticModel<'a> {
    pub gram: &'a [f64],
    pub gradient: &'a mut [f64],
    pub weights: &'a mut [f64],
    pub penalty: EntryPenalty,
}

impl QuadraticModel<'_> {
    /// Minimise along weight `r`; return a lower bound of the decrease.
    #[inline(always)]
    fn step(&mut self, r: usize) -> f64 {
        let n = self.weights.len();
        let (row, l1) = (&self.gram[r * n..(r + 1) * n], self.penalty.l1);
        let (h, w) = (row[r], self.weights[r]);
        let c = h + self.penalty.l2;
        if c.is_nan() || c <= 0.0 {
            return 0.0;
        }
        let pull = h * w - self.gradient[r];
        let target = if pull > l1 {
            (pull - l1) / c
        } else if pull < -l1 {
            (pull + l1) / c
        } else {
            0.0
        };
        let step = target - w;
        if step == 0.0 {
            return 0.0;
        }
        self.weights[r] = target;
        for (gradient, row) in self.gradient.iter_mut().zip(row) {
            *gradient += step * row;
        }
        0.5 * c * (step * step)
    }
}

struct Descent<'a> {
    model: QuadraticModel<'a>,
    sweeps: usize,
    tolerance: f64,
}

impl Job for Descent<'_> {
    type Output = usize;
    #[inline(always)]
    fn run<M: Machine>(mut self, _: M) -> usize {
        let mut total = 0.0;
        for sweep in 0..self.sweeps {
            let mut change = 0.0;
            for r in 0..self.model.weights.len() {
                change += self.model.step(r);
            }
            total += change;
            // Not `<=`: a NaN ends it as well.
            let goes_on = change > self.tolerance * total;
            if !goes_on {
                return sweep + 1;
            }
        }
        self.sweeps
    }
}

/// Minimise the model plus penalty; the gradient becomes that at the new weights. Return the
/// number of sweeps.
#[must_use]
pub fn descend(model: QuadraticModel<'_>, sweeps: usize, tolerance: f64) -> usize {
    dispatch(Descent {
        model,
        sweeps,
        tolerance,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_has_no_slope() {
        let gram = [2.0, 1.0, 1.0, 3.0];
        let (mut gradient, mut weights) = ([1.0, -2.0], [0.0; 2]);
        let model = QuadraticModel {
            gram: &gram,
            gradient: &mut gradient,
            weights: &mut weights,
            penalty: EntryPenalty { l1: 0.0, l2: 0.0 },
        };
        assert!(descend(model, 100, 1e-30) < 100);
        assert!(gradient.iter().all(|slope| slope.abs() < 1e-12));
        assert!((weights[0] + 1.0).abs() < 1e-12 && (weights[1] - 1.0).abs() < 1e-12);
    }
}
