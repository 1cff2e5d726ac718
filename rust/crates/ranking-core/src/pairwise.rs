//! Pairwise losses: the only place that knows the formula of a loss of a margin.
//!
//! Loops are generic over [`PairwiseSlope`]; `with_slope!` is the one dispatch from a form to its
//! type. A loss of a third party is a C function behind the same trait.

use std::ffi::c_void;

use crate::error::Error;
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

impl TryFrom<i64> for PairwiseForm {
    type Error = Error;

    fn try_from(form: i64) -> Result<Self, Error> {
        match form {
            0 => Ok(Self::Hinge),
            1 => Ok(Self::SquaredHinge),
            2 => Ok(Self::Logistic),
            _ => Err(Error::argument(format!("unknown pairwise form {form}"))),
        }
    }
}

/// The step size of a passive-aggressive update: the tau of least
/// tau**2 n / 2 + C * loss(margin + tau n).
#[derive(Clone, Copy, Debug)]
pub struct PassiveAggressive {
    is_squared: bool,
}

impl TryFrom<i64> for PassiveAggressive {
    type Error = Error;

    fn try_from(form: i64) -> Result<Self, Error> {
        match PairwiseForm::try_from(form)? {
            PairwiseForm::Hinge => Ok(Self { is_squared: false }),
            PairwiseForm::SquaredHinge => Ok(Self { is_squared: true }),
            _ => Err(Error::argument("the loss must be the hinge or its square")),
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

    extern "C" fn shifted(margin: f64, context: *const c_void) -> f64 {
        if context.addr() == 3 {
            margin + 3.0
        } else {
            margin
        }
    }

    #[test]
    fn a_native_slope_is_called_with_its_context() {
        assert_eq!(NativeSlope::new(shifted, 3).slope(0.5), 3.5);
    }

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

    #[test]
    fn unknown_forms_are_refused() {
        assert!(PairwiseForm::try_from(3).is_err());
        assert!(PassiveAggressive::try_from(2).is_err());
    }
}
