//! The numbers that W is kept as.

use crate::lanes::{EIGHT, Feature, Machine};

/// A number that weights are kept as.
pub trait Stored: Feature + PartialEq + Default {
    /// The nearest of a double.
    fn narrow(value: f64) -> Self;

    /// The largest that is not above a double: |v| <= s as doubles if |v| <= `at_most(s)`.
    fn at_most(value: f64) -> Self;

    /// A bit for each value of which |value| <= limit.
    #[doc(hidden)]
    fn within<M: Machine>(machine: M, values: &[Self; EIGHT], limit: Self) -> u32;

    /// Is |value| <= limit?
    #[doc(hidden)]
    fn is_within(self, limit: Self) -> bool;
}

impl Stored for f32 {
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
    fn narrow(value: f64) -> Self {
        value as Self
    }

    #[inline(always)]
    fn at_most(value: f64) -> Self {
        let near = Self::narrow(value);
        if near.widen() > value {
            near.next_down()
        } else {
            near
        }
    }

    #[inline(always)]
    fn within<M: Machine>(machine: M, values: &[Self; EIGHT], limit: Self) -> u32 {
        machine.within_singles(values, limit)
    }

    #[inline(always)]
    fn is_within(self, limit: Self) -> bool {
        self.abs() <= limit
    }
}

impl Stored for f64 {
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn at_most(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn within<M: Machine>(machine: M, values: &[Self; EIGHT], limit: Self) -> u32 {
        machine.within(values, limit)
    }

    #[inline(always)]
    fn is_within(self, limit: Self) -> bool {
        self.abs() <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_floor_is_the_largest_below() {
        for value in [0.0, 0.1, 1.0, 1.0 + 1e-9, 1.0 - 1e-9, 1e300, 1e-300] {
            let floor = f32::at_most(value);
            assert!(floor.widen() <= value && floor.next_up().widen() > value);
        }
    }
}
