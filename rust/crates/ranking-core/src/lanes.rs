//! Four doubles side by side, and the numbers that features and indices are stored as.

use std::ops::{Add, AddAssign, Mul, Sub};

use crate::contract::LANES;

/// Four doubles; every operation is one IEEE operation per lane.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(crate) struct Lanes(pub(crate) [f64; LANES]);

impl Lanes {
    pub(crate) const ZERO: Self = Self([0.0; LANES]);

    #[inline(always)]
    pub(crate) fn splat(value: f64) -> Self {
        Self([value; LANES])
    }

    #[inline(always)]
    pub(crate) fn widen<F: Feature>(values: [F; LANES]) -> Self {
        Self(values.map(F::widen))
    }

    #[inline(always)]
    pub(crate) fn map(self, f: impl Fn(f64) -> f64) -> Self {
        Self(self.0.map(f))
    }

    #[inline(always)]
    pub(crate) fn zip(self, other: Self, f: impl Fn(f64, f64) -> f64) -> Self {
        let (a, b) = (self.0, other.0);
        Self([f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])])
    }

    /// Add the partial sums, in the contract's order.
    #[inline(always)]
    pub(crate) fn fold(self) -> f64 {
        (self.0[0] + self.0[2]) + (self.0[1] + self.0[3])
    }
}

impl Add for Lanes {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
}

impl Sub for Lanes {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
}

impl Mul for Lanes {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
}

impl AddAssign for Lanes {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A number that features are stored as.
pub trait Feature: Copy + Send + Sync {
    /// Widen it to a double, which is exact.
    fn widen(self) -> f64;
}

impl Feature for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }
}

impl Feature for f64 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }
}

/// A number that the indices of sparse features are stored as.
pub trait Index: Copy + Send + Sync {
    /// Return it as a position; a negative number becomes one that no slice has.
    fn position(self) -> usize;
}

impl Index for i32 {
    #[inline(always)]
    fn position(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}

impl Index for i64 {
    #[inline(always)]
    fn position(self) -> usize {
        usize::try_from(self).unwrap_or(usize::MAX)
    }
}
