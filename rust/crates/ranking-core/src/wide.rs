//! Eight singles side by side.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::contract::WIDE;
use crate::lanes::{Machine, Portable};

/// What a register holds. A vector is padded to a whole number of them.
pub(crate) type Eight = [f32; WIDE];

/// What an instruction set does with eight singles; one IEEE operation each.
pub trait Singles: Copy + Send + Sync {
    /// Eight singles.
    type Wide: Copy;

    /// Put eight singles into a register.
    fn put_wide(self, values: [f32; WIDE]) -> Self::Wide;
    /// Put one single into all eight places.
    fn splat_wide(self, value: f32) -> Self::Wide;
    /// Get the eight singles.
    fn get_wide(self, a: Self::Wide) -> [f32; WIDE];
    /// a + b
    fn add_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a - b
    fn sub_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a * b
    fn mul_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a / b
    fn div_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The square root of each.
    fn sqrt_wide(self, a: Self::Wide) -> Self::Wide;
    /// |a|
    fn abs_wide(self, a: Self::Wide) -> Self::Wide;
    /// |a| - cut with the sign of a where that is above 0, else 0.
    fn soft_wide(self, a: Self::Wide, cut: Self::Wide) -> Self::Wide;

    /// Ask for the line of memory that has an item; if there is no such item, nothing happens.
    fn ask<T>(self, items: &[T], at: usize);
    /// A bit for each that is not below a limit, the first one lowest.
    fn at_least_wide(self, a: Self::Wide, limit: f32) -> u32;
    /// A bit for each of eight integers that is not above a limit, the first one lowest.
    fn at_most(self, a: [u32; WIDE], limit: u32) -> u32;
}

#[inline(always)]
fn zip(a: [f32; WIDE], b: [f32; WIDE], f: impl Fn(f32, f32) -> f32) -> [f32; WIDE] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

impl Singles for Portable {
    type Wide = [f32; WIDE];

    #[inline(always)]
    fn put_wide(self, values: [f32; WIDE]) -> Self::Wide {
        values
    }

    #[inline(always)]
    fn splat_wide(self, value: f32) -> Self::Wide {
        [value; WIDE]
    }

    #[inline(always)]
    fn get_wide(self, a: Self::Wide) -> [f32; WIDE] {
        a
    }

    #[inline(always)]
    fn add_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
        zip(a, b, |a, b| a + b)
    }

    #[inline(always)]
    fn sub_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
        zip(a, b, |a, b| a - b)
    }

    #[inline(always)]
    fn mul_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
        zip(a, b, |a, b| a * b)
    }

    #[inline(always)]
    fn div_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide {
        zip(a, b, |a, b| a / b)
    }

    #[inline(always)]
    fn sqrt_wide(self, a: Self::Wide) -> Self::Wide {
        a.map(f32::sqrt)
    }

    #[inline(always)]
    fn abs_wide(self, a: Self::Wide) -> Self::Wide {
        a.map(f32::abs)
    }

    #[inline(always)]
    fn soft_wide(self, a: Self::Wide, cut: Self::Wide) -> Self::Wide {
        zip(a, cut, |a, cut| {
            let shrunk = a.abs() - cut;
            if shrunk > 0.0 {
                shrunk.copysign(a)
            } else {
                0.0
            }
        })
    }

    #[inline(always)]
    fn ask<T>(self, _items: &[T], _at: usize) {}

    #[inline(always)]
    fn at_least_wide(self, a: Self::Wide, limit: f32) -> u32 {
        let numbered = a.iter().zip(0..);
        numbered.fold(0, |bits, (&a, at)| bits | u32::from(a >= limit) << at)
    }

    #[inline(always)]
    fn at_most(self, a: [u32; WIDE], limit: u32) -> u32 {
        let numbered = a.iter().zip(0..);
        numbered.fold(0, |bits, (&a, at)| bits | u32::from(a <= limit) << at)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::_MM_HINT_T0;

    use pulp::x86::V3;
    use pulp::{cast, f32x8};

    use super::Singles;
    use crate::contract::WIDE;

    impl Singles for V3 {
        type Wide = f32x8;

        #[inline(always)]
        fn put_wide(self, values: [f32; WIDE]) -> f32x8 {
            cast(values)
        }

        #[inline(always)]
        fn splat_wide(self, value: f32) -> f32x8 {
            self.splat_f32x8(value)
        }

        #[inline(always)]
        fn get_wide(self, a: f32x8) -> [f32; WIDE] {
            cast(a)
        }

        #[inline(always)]
        fn add_wide(self, a: f32x8, b: f32x8) -> f32x8 {
            self.add_f32x8(a, b)
        }

        #[inline(always)]
        fn sub_wide(self, a: f32x8, b: f32x8) -> f32x8 {
            self.sub_f32x8(a, b)
        }

        #[inline(always)]
        fn mul_wide(self, a: f32x8, b: f32x8) -> f32x8 {
            self.mul_f32x8(a, b)
        }

        #[inline(always)]
        fn div_wide(self, a: f32x8, b: f32x8) -> f32x8 {
            self.div_f32x8(a, b)
        }

        #[inline(always)]
        fn sqrt_wide(self, a: f32x8) -> f32x8 {
            self.sqrt_f32x8(a)
        }

        #[inline(always)]
        fn abs_wide(self, a: f32x8) -> f32x8 {
            self.abs_f32x8(a)
        }

        #[inline(always)]
        fn soft_wide(self, a: f32x8, cut: f32x8) -> f32x8 {
            let zero = self.splat_f32x8(0.0);
            let shrunk = self.sub_f32x8(self.abs_f32x8(a), cut);
            let sign = self.and_f32x8(a, self.splat_f32x8(-0.0));
            let above = self.cmp_gt_f32x8(shrunk, zero);
            self.select_f32x8(above, self.or_f32x8(shrunk, sign), zero)
        }

        #[inline(always)]
        fn ask<T>(self, items: &[T], at: usize) {
            let place = items.as_ptr().wrapping_add(at);
            self.sse._mm_prefetch::<_MM_HINT_T0>(place.cast());
        }

        #[inline(always)]
        fn at_least_wide(self, a: f32x8, limit: f32) -> u32 {
            let holds = self.cmp_le_f32x8(self.splat_f32x8(limit), a);
            self.avx._mm256_movemask_ps(cast(holds)).cast_unsigned()
        }

        #[inline(always)]
        fn at_most(self, a: [u32; WIDE], limit: u32) -> u32 {
            let holds = self.cmp_le_u32x8(cast(a), self.splat_u32x8(limit));
            self.avx._mm256_movemask_ps(cast(holds)).cast_unsigned()
        }
    }
}

/// Eight singles on a machine.
#[derive(Clone, Copy)]
pub(crate) struct Wide<M: Machine> {
    machine: M,
    register: M::Wide,
}

impl<M: Machine> Wide<M> {
    #[inline(always)]
    pub(crate) fn new(machine: M, values: [f32; WIDE]) -> Self {
        let register = machine.put_wide(values);
        Self { machine, register }
    }

    #[inline(always)]
    pub(crate) fn splat(machine: M, value: f32) -> Self {
        let register = machine.splat_wide(value);
        Self { machine, register }
    }

    #[inline(always)]
    pub(crate) fn array(self) -> [f32; WIDE] {
        self.machine.get_wide(self.register)
    }

    #[inline(always)]
    pub(crate) fn sqrt(self) -> Self {
        self.with(self.machine.sqrt_wide(self.register))
    }

    #[inline(always)]
    pub(crate) fn abs(self) -> Self {
        self.with(self.machine.abs_wide(self.register))
    }

    /// The soft threshold of each.
    #[inline(always)]
    pub(crate) fn soft(self, cut: Self) -> Self {
        self.with(self.machine.soft_wide(self.register, cut.register))
    }

    /// A bit for each that is not below a limit, the first one lowest.
    #[inline(always)]
    pub(crate) fn at_least(self, limit: f32) -> u32 {
        self.machine.at_least_wide(self.register, limit)
    }

    /// Add the partial sums, in the contract's order.
    #[inline(always)]
    pub(crate) fn fold(self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.array();
        let [a, b, c, d] = [a + e, b + f, c + g, d + h];
        (a + c) + (b + d)
    }

    #[inline(always)]
    fn with(self, register: M::Wide) -> Self {
        Self { register, ..self }
    }
}

impl<M: Machine> Add for Wide<M> {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.with(self.machine.add_wide(self.register, other.register))
    }
}

impl<M: Machine> Sub for Wide<M> {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.with(self.machine.sub_wide(self.register, other.register))
    }
}

impl<M: Machine> Mul for Wide<M> {
    type Output = Self;
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.with(self.machine.mul_wide(self.register, other.register))
    }
}

impl<M: Machine> Div for Wide<M> {
    type Output = Self;
    #[inline(always)]
    fn div(self, other: Self) -> Self {
        self.with(self.machine.div_wide(self.register, other.register))
    }
}

impl<M: Machine> AddAssign for Wide<M> {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// The sum of a[i] * b[i] in eight partial sums; both are of one length.
#[inline(always)]
pub(crate) fn dot_wide<M: Machine>(machine: M, a: &[Eight], b: &[Eight]) -> f32 {
    let mut sum = Wide::splat(machine, 0.0);
    // Four at a time: the loop itself would take as long as its sums.
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    for (a, b) in a.iter().zip(b) {
        for (a, b) in a.iter().zip(b) {
            sum += Wide::new(machine, *a) * Wide::new(machine, *b);
        }
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        sum += Wide::new(machine, *a) * Wide::new(machine, *b);
    }
    sum.fold()
}
