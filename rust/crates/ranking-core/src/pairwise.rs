//! Pairwise losses: the only place that knows the formula of a loss of a margin.
//!
//! Loops are generic over [`PairwiseSlope`]; `with_slope!` is the one dispatch from a form to its
//! type. A loss of a third party is a C function behind the same trait.

use std::ffi::c_void;

use crate::exp;

/// The derivative of a pairwise loss.
///
/// Single precision needs no formula of its own: for the built-in losses the double, rounded, has
/// the bits of the computation in singles.
pub trait PairwiseSlope: Copy + Send + Sync {
    /// The derivative at a margin.
    fn slope(self, margin: f64) -> f64;
}

/// max(1 - z, 0)
#[derive(Clone, Copy, Debug)]
pub struct Hinge;

/// max(1 - z, 0)**2
#[derive(Clone, Copy, Debug)]
pub struct SquaredHinge;

/// log(1 + exp(-z))
#[derive(Clone, Copy, Debug)]
pub struct Logistic;

/// A C function of a margin, and the address of the context that it is called with.
#[derive(Clone, Copy, Debug)]
pub struct NativeSlope {
    function: extern "C" fn(f64, *const c_void) -> f64,
    /// A number, because threads share it; only the function knows what it points to.
    context: usize,
}

impl PairwiseSlope for Hinge {
    #[inline(always)]
    fn slope(self, margin: f64) -> f64 {
        if margin < 1.0 { -1.0 } else { 0.0 }
    }
}

impl PairwiseSlope for SquaredHinge {
    #[inline(always)]
    fn slope(self, margin: f64) -> f64 {
        if margin < 1.0 {
            -2.0 * (1.0 - margin)
        } else {
            0.0
        }
    }
}

impl PairwiseSlope for Logistic {
    #[inline(always)]
    fn slope(self, margin: f64) -> f64 {
        -1.0 / (1.0 + exp::one(margin))
    }
}

impl NativeSlope {
    /// Take a function that is pure and may be called from any thread with this context.
    pub fn new(function: extern "C" fn(f64, *const c_void) -> f64, context: usize) -> Self {
        Self { function, context }
    }
}

impl PairwiseSlope for NativeSlope {
    #[inline(always)]
    fn slope(self, margin: f64) -> f64 {
        (self.function)(margin, self.context as *const c_void)
    }
}

/// Which pairwise loss.
#[derive(Clone, Copy, Debug)]
pub enum PairwiseForm {
    /// The hinge.
    Hinge,
    /// The squared hinge.
    SquaredHinge,
    /// The logistic loss.
    Logistic,
    /// A function of a third party.
    Native(NativeSlope),
}

/// Run `$body` with `$slope` bound to the [`PairwiseSlope`] of a form.
macro_rules! with_slope {
    ($form:expr, |$slope:ident| $body:expr) => {
        match $form {
            $crate::pairwise::PairwiseForm::Hinge => {
                let $slope = $crate::pairwise::Hinge;
                $body
            }
            $crate::pairwise::PairwiseForm::SquaredHinge => {
                let $slope = $crate::pairwise::SquaredHinge;
                $body
            }
            $crate::pairwise::PairwiseForm::Logistic => {
                let $slope = $crate::pairwise::Logistic;
                $body
            }
            $crate::pairwise::PairwiseForm::Native($slope) => $body,
        }
    };
}

pub(crate) use with_slope;

impl From<i64> for PairwiseForm {
    /// Take the number of a built-in loss.
    fn from(form: i64) -> Self {
        match form {
            0 => Self::Hinge,
            1 => Self::SquaredHinge,
            2 => Self::Logistic,
            _ => panic!("unknown pairwise form {form}"),
        }
    }
}

/// L(rank), and the number of documents that are ranked.
#[derive(Clone, Copy, Debug)]
pub struct RankWeights<'a, T> {
    /// At least one; ranks beyond the end have the last value.
    pub weights: &'a [T],
    /// Number of documents that are ranked.
    pub n_documents: usize,
}

impl<T: Copy> RankWeights<'_, T> {
    /// The weight if trial `trial`, from 1, violates the margin.
    pub(crate) fn weight(&self, trial: usize) -> T {
        let rank = self.n_documents.saturating_sub(1) / trial;
        self.weights[rank.min(self.weights.len() - 1)]
    }
}

/// Where margins and violation weights of steps are written.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct StepResults<'a, T> {
    pub margins: &'a mut [T],
    pub weights: &'a mut [T],
}

/// The step size of a passive-aggressive update: the tau of least
/// tau**2 n / 2 + C * loss(margin + tau n).
#[derive(Clone, Copy, Debug)]
pub struct PassiveAggressive {
    is_squared: bool,
}

impl From<i64> for PassiveAggressive {
    fn from(form: i64) -> Self {
        match PairwiseForm::from(form) {
            PairwiseForm::Hinge => Self { is_squared: false },
            PairwiseForm::SquaredHinge => Self { is_squared: true },
            _ => panic!("the loss must be the hinge or its square"),
        }
    }
}

impl PassiveAggressive {
    pub(crate) fn step_size(self, margin: f64, n: f64, c: f64) -> f64 {
        if n == 0.0 {
            return 0.0;
        }
        let (slack, limit) = if self.is_squared {
            (1.0 / (2.0 * c), f64::INFINITY)
        } else {
            (0.0, c)
        };
        let size = (1.0 - margin) / (n + slack);
        if size < limit { size } else { limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
    fn doubles_rounded_have_the_bits_of_single_precision() {
        for k in 0..10_000_u64 {
            // Every exponent, with random digits.
            let bits = crate::random::random_bits(1, k) as u32;
            let margin = f32::from_bits(bits);
            let single = if margin < 1.0 {
                -2.0 * (1.0 - margin)
            } else {
                0.0
            };
            let rounded = SquaredHinge.slope(f64::from(margin)) as f32;
            assert_eq!(rounded.to_bits(), single.to_bits());
        }
    }
}
