//! Four doubles side by side, and the numbers that features and indices are stored as.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::contract::LANES;
use crate::wide::Singles;

/// An instruction set, as proof that this processor has it: what it does with four doubles.
///
/// Every operation is one IEEE operation per lane, so all machines return the same bits. They are
/// spelled out because the compiler does not find four lanes in scalar code reliably: it sees the
/// pairs in `Lanes::fold` and makes two vectors of two.
pub trait Machine: Singles {
    /// Four doubles.
    type Register: Copy;

    /// Put four doubles into a register.
    fn put(self, values: [f64; LANES]) -> Self::Register;
    /// Put four singles into a register, widened.
    fn put_singles(self, values: [f32; LANES]) -> Self::Register;
    /// Get the four doubles.
    fn get(self, a: Self::Register) -> [f64; LANES];
    /// a + b
    fn add(self, a: Self::Register, b: Self::Register) -> Self::Register;
    /// a - b
    fn sub(self, a: Self::Register, b: Self::Register) -> Self::Register;
    /// a * b
    fn mul(self, a: Self::Register, b: Self::Register) -> Self::Register;
    /// a / b
    fn div(self, a: Self::Register, b: Self::Register) -> Self::Register;
    /// `yes` where a < b, else `no`.
    fn if_less(
        self,
        a: Self::Register,
        b: Self::Register,
        yes: Self::Register,
        no: Self::Register,
    ) -> Self::Register;
    /// `yes` where a is NaN, else `no`.
    fn if_nan(self, a: Self::Register, yes: Self::Register, no: Self::Register) -> Self::Register;
    /// Add the low bits of t to the exponent of p.
    fn raise(self, p: Self::Register, t: Self::Register) -> Self::Register;

    /// A bit for each key that equals `key`, the first one lowest.
    fn equal(self, keys: &[u32; EIGHT], key: u32) -> u32;
    /// A bit for each value of which |value| <= limit.
    fn within_singles(self, values: &[f32; EIGHT], limit: f32) -> u32;
    /// A bit for each value of which |value| <= limit.
    fn within(self, values: &[f64; EIGHT], limit: f64) -> u32;
}

/// Keys, or values, that are looked at together.
pub(crate) const EIGHT: usize = 8;

/// The baseline: what the compiler makes of plain arrays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

#[inline(always)]
fn zip(a: [f64; LANES], b: [f64; LANES], f: impl Fn(f64, f64) -> f64) -> [f64; LANES] {
    [f(a[0], b[0]), f(a[1], b[1]), f(a[2], b[2]), f(a[3], b[3])]
}

impl Machine for Portable {
    type Register = [f64; LANES];

    #[inline(always)]
    fn put(self, values: [f64; LANES]) -> Self::Register {
        values
    }

    #[inline(always)]
    fn put_singles(self, values: [f32; LANES]) -> Self::Register {
        values.map(f64::from)
    }

    #[inline(always)]
    fn get(self, a: Self::Register) -> [f64; LANES] {
        a
    }

    #[inline(always)]
    fn add(self, a: Self::Register, b: Self::Register) -> Self::Register {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub(self, a: Self::Register, b: Self::Register) -> Self::Register {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul(self, a: Self::Register, b: Self::Register) -> Self::Register {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div(self, a: Self::Register, b: Self::Register) -> Self::Register {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn if_less(
        self,
        a: Self::Register,
        b: Self::Register,
        yes: Self::Register,
        no: Self::Register,
    ) -> Self::Register {
        let pick = |i: usize| if a[i] < b[i] { yes[i] } else { no[i] };
        [pick(0), pick(1), pick(2), pick(3)]
    }

    #[inline(always)]
    fn if_nan(self, a: Self::Register, yes: Self::Register, no: Self::Register) -> Self::Register {
        let pick = |i: usize| if a[i].is_nan() { yes[i] } else { no[i] };
        [pick(0), pick(1), pick(2), pick(3)]
    }

    #[inline(always)]
    fn raise(self, p: Self::Register, t: Self::Register) -> Self::Register {
        zip(p, t, |p, t| {
            f64::from_bits(p.to_bits().wrapping_add(t.to_bits() << 52))
        })
    }

    #[inline(always)]
    fn equal(self, keys: &[u32; EIGHT], key: u32) -> u32 {
        bits(keys, |&other| other == key)
    }

    #[inline(always)]
    fn within_singles(self, values: &[f32; EIGHT], limit: f32) -> u32 {
        bits(values, |value| value.abs() <= limit)
    }

    #[inline(always)]
    fn within(self, values: &[f64; EIGHT], limit: f64) -> u32 {
        bits(values, |value| value.abs() <= limit)
    }
}

/// A bit for each item for which something holds.
#[inline(always)]
fn bits<T>(items: &[T; EIGHT], holds: impl Fn(&T) -> bool) -> u32 {
    let marked = items.iter().zip(0..);
    marked.fold(0, |bits, (item, at)| bits | u32::from(holds(item)) << at)
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use pulp::x86::V3;
    use pulp::{cast, f32x4, f32x8, f64x4, u32x8};

    use super::{EIGHT, Machine};
    use crate::contract::LANES;

    impl Machine for V3 {
        type Register = f64x4;

        #[inline(always)]
        fn put(self, values: [f64; LANES]) -> f64x4 {
            cast(values)
        }

        #[inline(always)]
        fn put_singles(self, values: [f32; LANES]) -> f64x4 {
            self.convert_f32x4_to_f64x4(cast::<_, f32x4>(values))
        }

        #[inline(always)]
        fn get(self, a: f64x4) -> [f64; LANES] {
            cast(a)
        }

        #[inline(always)]
        fn add(self, a: f64x4, b: f64x4) -> f64x4 {
            self.add_f64x4(a, b)
        }

        #[inline(always)]
        fn sub(self, a: f64x4, b: f64x4) -> f64x4 {
            self.sub_f64x4(a, b)
        }

        #[inline(always)]
        fn mul(self, a: f64x4, b: f64x4) -> f64x4 {
            self.mul_f64x4(a, b)
        }

        #[inline(always)]
        fn div(self, a: f64x4, b: f64x4) -> f64x4 {
            self.div_f64x4(a, b)
        }

        #[inline(always)]
        fn if_less(self, a: f64x4, b: f64x4, yes: f64x4, no: f64x4) -> f64x4 {
            self.select_f64x4(self.cmp_lt_f64x4(a, b), yes, no)
        }

        #[inline(always)]
        fn if_nan(self, a: f64x4, yes: f64x4, no: f64x4) -> f64x4 {
            self.select_f64x4(self.is_nan_f64x4(a), yes, no)
        }

        #[inline(always)]
        fn raise(self, p: f64x4, t: f64x4) -> f64x4 {
            let exponent = self.shl_const_u64x4::<52>(cast(t));
            cast(self.wrapping_add_u64x4(cast(p), exponent))
        }

        #[inline(always)]
        fn equal(self, keys: &[u32; EIGHT], key: u32) -> u32 {
            let same = self.cmp_eq_u32x8(cast::<_, u32x8>(*keys), self.splat_u32x8(key));
            self.avx._mm256_movemask_ps(cast(same)).cast_unsigned()
        }

        #[inline(always)]
        fn within_singles(self, values: &[f32; EIGHT], limit: f32) -> u32 {
            let size = self.abs_f32x8(cast::<_, f32x8>(*values));
            let small = self.cmp_le_f32x8(size, self.splat_f32x8(limit));
            self.avx._mm256_movemask_ps(cast(small)).cast_unsigned()
        }

        #[inline(always)]
        fn within(self, values: &[f64; EIGHT], limit: f64) -> u32 {
            let half = |values: [f64; LANES]| {
                let small =
                    self.cmp_le_f64x4(self.abs_f64x4(cast(values)), self.splat_f64x4(limit));
                self.avx._mm256_movemask_pd(cast(small)).cast_unsigned()
            };
            let [a, b, c, d, e, f, g, h] = *values;
            half([a, b, c, d]) | half([e, f, g, h]) << LANES
        }
    }
}

/// Four doubles on a machine.
#[derive(Clone, Copy)]
pub(crate) struct Lanes<M: Machine> {
    machine: M,
    register: M::Register,
}

impl<M: Machine> Lanes<M> {
    #[inline(always)]
    pub(crate) fn new(machine: M, values: [f64; LANES]) -> Self {
        let register = machine.put(values);
        Self { machine, register }
    }

    #[inline(always)]
    pub(crate) fn splat(machine: M, value: f64) -> Self {
        Self::new(machine, [value; LANES])
    }

    #[inline(always)]
    pub(crate) fn widen<F: Feature>(machine: M, values: [F; LANES]) -> Self {
        let register = F::put(machine, values);
        Self { machine, register }
    }

    /// The same number in all lanes, on the machine of these ones.
    #[inline(always)]
    pub(crate) fn all(self, value: f64) -> Self {
        Self::splat(self.machine, value)
    }

    #[inline(always)]
    pub(crate) fn array(self) -> [f64; LANES] {
        self.machine.get(self.register)
    }

    /// `yes` where these lanes are less than `other`, else `no`.
    #[inline(always)]
    pub(crate) fn if_less(self, other: Self, yes: Self, no: Self) -> Self {
        self.with(
            self.machine
                .if_less(self.register, other.register, yes.register, no.register),
        )
    }

    /// `yes` where these lanes are NaN, else `no`.
    #[inline(always)]
    pub(crate) fn if_nan(self, yes: Self, no: Self) -> Self {
        self.with(
            self.machine
                .if_nan(self.register, yes.register, no.register),
        )
    }

    /// Add the low bits of `t` to the exponents.
    #[inline(always)]
    pub(crate) fn raise(self, t: Self) -> Self {
        self.with(self.machine.raise(self.register, t.register))
    }

    /// Add the partial sums, in the contract's order.
    #[inline(always)]
    pub(crate) fn fold(self) -> f64 {
        let [a, b, c, d] = self.array();
        (a + c) + (b + d)
    }

    #[inline(always)]
    fn with(self, register: M::Register) -> Self {
        Self { register, ..self }
    }
}

impl<M: Machine> Add for Lanes<M> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(self.machine.add(self.register, other.register))
    }
}

impl<M: Machine> Sub for Lanes<M> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(self.machine.sub(self.register, other.register))
    }
}

impl<M: Machine> Mul for Lanes<M> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(self.machine.mul(self.register, other.register))
    }
}

impl<M: Machine> Div for Lanes<M> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.with(self.machine.div(self.register, other.register))
    }
}

impl<M: Machine> AddAssign for Lanes<M> {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A number that features are stored as.
pub trait Feature: Copy + Send + Sync {
    /// Widen it to a double, which is exact.
    fn widen(self) -> f64;

    /// Widen four of them.
    #[doc(hidden)]
    fn put<M: Machine>(machine: M, values: [Self; LANES]) -> M::Register;
}

impl Feature for f32 {
    #[inline(always)]
    fn widen(self) -> f64 {
        f64::from(self)
    }

    #[inline(always)]
    fn put<M: Machine>(machine: M, values: [Self; LANES]) -> M::Register {
        machine.put_singles(values)
    }
}

impl Feature for f64 {
    #[inline(always)]
    fn widen(self) -> f64 {
        self
    }

    #[inline(always)]
    fn put<M: Machine>(machine: M, values: [Self; LANES]) -> M::Register {
        machine.put(values)
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
