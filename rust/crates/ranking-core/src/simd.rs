//! SIMD registers: four doubles ([`Lanes`]) or eight singles ([`Wide`]) on a [`Machine`].
//!
//! Every operation is one IEEE operation per lane, so all machines return the same bits. The
//! operations are explicit because the compiler does not reliably find four lanes in scalar code:
//! it sees the pairs in `Lanes::fold` and makes two vectors of two.

use std::ops::{Add, AddAssign, Div, Mul, Sub};

use crate::constants::{LANES, WIDE};
use crate::matrix::Feature;

/// A register of singles in memory. Rows of parameters are padded to a whole number of them.
pub(crate) type Eight = [f32; WIDE];
type Four = [f64; LANES];

/// An instruction set, as proof that this processor has it.
pub trait Machine: Copy + Send + Sync {
    /// Four doubles.
    type Doubles: Copy;
    /// Eight singles.
    type Singles: Copy;

    /// Load four doubles.
    fn load(self, values: [f64; LANES]) -> Self::Doubles;
    /// Load four singles and widen them.
    fn load_widened(self, values: [f32; LANES]) -> Self::Doubles;
    /// Store four doubles.
    fn store(self, a: Self::Doubles) -> [f64; LANES];
    /// a + b
    fn add(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// a - b
    fn sub(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// a * b
    fn mul(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// a / b
    fn div(self, a: Self::Doubles, b: Self::Doubles) -> Self::Doubles;
    /// Of `[x, y]`: x where a < b, else y.
    fn if_less(self, a: Self::Doubles, b: Self::Doubles, xy: [Self::Doubles; 2]) -> Self::Doubles;
    /// Of `[x, y]`: x where a is NaN, else y.
    fn if_nan(self, a: Self::Doubles, xy: [Self::Doubles; 2]) -> Self::Doubles;
    /// Add the low bits of t to the exponent of p.
    fn raise(self, p: Self::Doubles, t: Self::Doubles) -> Self::Doubles;
    /// A bit for each value with |value| <= limit, the first one lowest.
    fn within(self, values: &[f64; WIDE], limit: f64) -> u32;

    /// Load eight singles.
    fn load_wide(self, values: [f32; WIDE]) -> Self::Singles;
    /// Store eight singles.
    fn store_wide(self, a: Self::Singles) -> [f32; WIDE];
    /// a + b
    fn add_wide(self, a: Self::Singles, b: Self::Singles) -> Self::Singles;
    /// a - b
    fn sub_wide(self, a: Self::Singles, b: Self::Singles) -> Self::Singles;
    /// a * b
    fn mul_wide(self, a: Self::Singles, b: Self::Singles) -> Self::Singles;
    /// a / b
    fn div_wide(self, a: Self::Singles, b: Self::Singles) -> Self::Singles;
    /// The square root of each.
    fn sqrt_wide(self, a: Self::Singles) -> Self::Singles;
    /// |a|
    fn abs_wide(self, a: Self::Singles) -> Self::Singles;
    /// The soft threshold: |a| - cut with the sign of a where that is positive, else 0.
    fn soft_wide(self, a: Self::Singles, cut: Self::Singles) -> Self::Singles;
    /// A bit for each value with |value| <= limit.
    fn within_wide(self, values: &[f32; WIDE], limit: f32) -> u32;

    /// A bit for each integer that is at most a limit.
    fn at_most(self, values: [u32; WIDE], limit: u32) -> u32;
    /// A bit for each integer that equals `key`.
    fn equal(self, values: &[u32; WIDE], key: u32) -> u32;
    /// Prefetch the cache line of an item; do nothing if there is no such item.
    fn prefetch<T>(self, items: &[T], at: usize);
}

/// The baseline: what the compiler makes of plain arrays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

#[inline(always)]
fn zip<T: Copy, const N: usize>(a: [T; N], b: [T; N], f: impl Fn(T, T) -> T) -> [T; N] {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// A bit for each item for which a condition holds, the first one lowest.
#[inline(always)]
fn bits<T: Copy>(items: &[T; WIDE], holds: impl Fn(T) -> bool) -> u32 {
    let numbered = items.iter().zip(0..);
    numbered.fold(0, |bits, (&item, at)| bits | u32::from(holds(item)) << at)
}

/// Methods that are single expressions.
macro_rules! methods {
    ($(fn $name:ident($self:ident $(, $argument:ident: $type:ty)*) -> $output:ty = $body:expr;)*) => {
        $(
            #[inline(always)]
            fn $name($self $(, $argument: $type)*) -> $output {
                $body
            }
        )*
    };
}

impl Machine for Portable {
    type Doubles = Four;
    type Singles = Eight;

    methods! {
        fn load(self, values: Four) -> Four = values;
        fn load_widened(self, values: [f32; LANES]) -> Four = values.map(f64::from);
        fn store(self, a: Four) -> Four = a;
        fn add(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a + b);
        fn sub(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a - b);
        fn mul(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a * b);
        fn div(self, a: Four, b: Four) -> Four = zip(a, b, |a, b| a / b);
        fn if_less(self, a: Four, b: Four, xy: [Four; 2]) -> Four =
            std::array::from_fn(|i| if a[i] < b[i] { xy[0][i] } else { xy[1][i] });
        fn if_nan(self, a: Four, xy: [Four; 2]) -> Four =
            std::array::from_fn(|i| if a[i].is_nan() { xy[0][i] } else { xy[1][i] });
        fn raise(self, p: Four, t: Four) -> Four =
            zip(p, t, |p, t| f64::from_bits(p.to_bits().wrapping_add(t.to_bits() << 52)));
        fn within(self, values: &[f64; WIDE], limit: f64) -> u32 =
            bits(values, |value| value.abs() <= limit);

        fn load_wide(self, values: Eight) -> Eight = values;
        fn store_wide(self, a: Eight) -> Eight = a;
        fn add_wide(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a + b);
        fn sub_wide(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a - b);
        fn mul_wide(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a * b);
        fn div_wide(self, a: Eight, b: Eight) -> Eight = zip(a, b, |a, b| a / b);
        fn sqrt_wide(self, a: Eight) -> Eight = a.map(f32::sqrt);
        fn abs_wide(self, a: Eight) -> Eight = a.map(f32::abs);
        fn soft_wide(self, a: Eight, cut: Eight) -> Eight = zip(a, cut, |a, cut| {
            let shrunk = a.abs() - cut;
            if shrunk > 0.0 { shrunk.copysign(a) } else { 0.0 }
        });
        fn within_wide(self, values: &Eight, limit: f32) -> u32 =
            bits(values, |value| value.abs() <= limit);

        fn at_most(self, values: [u32; WIDE], limit: u32) -> u32 = bits(&values, |x| x <= limit);
        fn equal(self, values: &[u32; WIDE], key: u32) -> u32 = bits(values, |x| x == key);
    }

    #[inline(always)]
    fn prefetch<T>(self, _items: &[T], _at: usize) {}
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::_MM_HINT_T0;

    use pulp::x86::V3;
    use pulp::{cast, f32x4, f32x8, f64x4, m32x8};

    use super::{Eight, Four, Machine};
    use crate::constants::{LANES, WIDE};

    #[inline(always)]
    fn mask(machine: V3, holds: m32x8) -> u32 {
        machine.avx._mm256_movemask_ps(cast(holds)).cast_unsigned()
    }

    impl Machine for V3 {
        type Doubles = f64x4;
        type Singles = f32x8;

        methods! {
            fn load(self, values: Four) -> f64x4 = cast(values);
            fn load_widened(self, values: [f32; LANES]) -> f64x4 =
                self.convert_f32x4_to_f64x4(cast::<_, f32x4>(values));
            fn store(self, a: f64x4) -> Four = cast(a);
            fn add(self, a: f64x4, b: f64x4) -> f64x4 = self.add_f64x4(a, b);
            fn sub(self, a: f64x4, b: f64x4) -> f64x4 = self.sub_f64x4(a, b);
            fn mul(self, a: f64x4, b: f64x4) -> f64x4 = self.mul_f64x4(a, b);
            fn div(self, a: f64x4, b: f64x4) -> f64x4 = self.div_f64x4(a, b);
            fn if_less(self, a: f64x4, b: f64x4, xy: [f64x4; 2]) -> f64x4 =
                self.select_f64x4(self.cmp_lt_f64x4(a, b), xy[0], xy[1]);
            fn if_nan(self, a: f64x4, xy: [f64x4; 2]) -> f64x4 =
                self.select_f64x4(self.is_nan_f64x4(a), xy[0], xy[1]);
            fn raise(self, p: f64x4, t: f64x4) -> f64x4 =
                cast(self.wrapping_add_u64x4(cast(p), self.shl_const_u64x4::<52>(cast(t))));

            fn load_wide(self, values: Eight) -> f32x8 = cast(values);
            fn store_wide(self, a: f32x8) -> Eight = cast(a);
            fn add_wide(self, a: f32x8, b: f32x8) -> f32x8 = self.add_f32x8(a, b);
            fn sub_wide(self, a: f32x8, b: f32x8) -> f32x8 = self.sub_f32x8(a, b);
            fn mul_wide(self, a: f32x8, b: f32x8) -> f32x8 = self.mul_f32x8(a, b);
            fn div_wide(self, a: f32x8, b: f32x8) -> f32x8 = self.div_f32x8(a, b);
            fn sqrt_wide(self, a: f32x8) -> f32x8 = self.sqrt_f32x8(a);
            fn abs_wide(self, a: f32x8) -> f32x8 = self.abs_f32x8(a);
            fn within_wide(self, values: &Eight, limit: f32) -> u32 =
                mask(self, self.cmp_le_f32x8(self.abs_f32x8(cast(*values)), self.splat_f32x8(limit)));

            fn at_most(self, values: [u32; WIDE], limit: u32) -> u32 =
                mask(self, self.cmp_le_u32x8(cast(values), self.splat_u32x8(limit)));
            fn equal(self, values: &[u32; WIDE], key: u32) -> u32 =
                mask(self, self.cmp_eq_u32x8(cast(*values), self.splat_u32x8(key)));
        }

        #[inline(always)]
        fn within(self, values: &[f64; WIDE], limit: f64) -> u32 {
            let half = |values: Four| {
                let small =
                    self.cmp_le_f64x4(self.abs_f64x4(cast(values)), self.splat_f64x4(limit));
                self.avx._mm256_movemask_pd(cast(small)).cast_unsigned()
            };
            let [a, b, c, d, e, f, g, h] = *values;
            half([a, b, c, d]) | half([e, f, g, h]) << LANES
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
        fn prefetch<T>(self, items: &[T], at: usize) {
            let place = items.as_ptr().wrapping_add(at);
            self.sse._mm_prefetch::<_MM_HINT_T0>(place.cast());
        }
    }
}

/// Define a register with its machine, and the operators that all registers have.
macro_rules! register {
    (
        $(#[$doc:meta])* $name:ident: $register:ident = [$element:ty; $size:ident],
        $load:ident, $store:ident, $($trait:ident::$method:ident => $instruction:ident),*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name<M: Machine> {
            machine: M,
            register: M::$register,
        }

        impl<M: Machine> $name<M> {
            #[inline(always)]
            pub(crate) fn new(machine: M, values: [$element; $size]) -> Self {
                let register = machine.$load(values);
                Self { machine, register }
            }

            #[inline(always)]
            pub(crate) fn splat(machine: M, value: $element) -> Self {
                Self::new(machine, [value; $size])
            }

            #[inline(always)]
            pub(crate) fn array(self) -> [$element; $size] {
                self.machine.$store(self.register)
            }

            #[inline(always)]
            fn with(self, register: M::$register) -> Self {
                Self { register, ..self }
            }
        }

        $(
            impl<M: Machine> $trait for $name<M> {
                type Output = Self;
                #[inline(always)]
                fn $method(self, other: Self) -> Self {
                    self.with(self.machine.$instruction(self.register, other.register))
                }
            }
        )*

        impl<M: Machine> AddAssign for $name<M> {
            #[inline(always)]
            fn add_assign(&mut self, other: Self) {
                *self = *self + other;
            }
        }
    };
}

register! {
    /// Four doubles on a machine.
    Lanes: Doubles = [f64; LANES], load, store,
    Add::add => add, Sub::sub => sub, Mul::mul => mul, Div::div => div
}

register! {
    /// Eight singles on a machine.
    Wide: Singles = [f32; WIDE], load_wide, store_wide,
    Add::add => add_wide, Sub::sub => sub_wide, Mul::mul => mul_wide, Div::div => div_wide
}

impl<M: Machine> Lanes<M> {
    #[inline(always)]
    pub(crate) fn widen<F: Feature>(machine: M, values: [F; LANES]) -> Self {
        let register = F::load(machine, values);
        Self { machine, register }
    }

    /// The same number in all lanes, on the machine of these ones.
    #[inline(always)]
    pub(crate) fn all(self, value: f64) -> Self {
        Self::splat(self.machine, value)
    }

    /// `yes` where these lanes are less than `other`, else `no`.
    #[inline(always)]
    pub(crate) fn if_less(self, other: Self, yes: Self, no: Self) -> Self {
        let xy = [yes.register, no.register];
        self.with(self.machine.if_less(self.register, other.register, xy))
    }

    /// `yes` where these lanes are NaN, else `no`.
    #[inline(always)]
    pub(crate) fn if_nan(self, yes: Self, no: Self) -> Self {
        let xy = [yes.register, no.register];
        self.with(self.machine.if_nan(self.register, xy))
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
}

impl<M: Machine> Wide<M> {
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

    /// Add the partial sums, in the contract's order.
    #[inline(always)]
    pub(crate) fn fold(self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.array();
        let [a, b, c, d] = [a + e, b + f, c + g, d + h];
        (a + c) + (b + d)
    }
}

/// The sum of a[i] * b[i] in eight partial sums; both have the same length.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatch::{Job, dispatch};
    use crate::random::random_bits;

    /// The bits of every operation on some registers.
    struct Operations([[u32; WIDE]; 2]);

    impl Job for Operations {
        type Output = Vec<u64>;

        #[inline(always)]
        fn run<M: Machine>(self, machine: M) -> Vec<u64> {
            let [x, y] = self.0.map(|bits| bits.map(f32::from_bits));
            let (a, b) = (Wide::new(machine, x), Wide::new(machine, y));
            let wide = [a + b, a - b, a * b, a / b, a.sqrt(), a.abs(), a.soft(b)];
            let mut out: Vec<_> = wide
                .iter()
                .flat_map(|wide| wide.array().map(|x| u64::from(x.to_bits())))
                .collect();
            out.push(u64::from(dot_wide(machine, &[x; 5], &[y; 5]).to_bits()));
            let [p, q] = [x, y].map(|x| [x[0], x[1], x[2], x[3]]);
            let (c, d) = (Lanes::widen(machine, p), Lanes::widen(machine, q));
            let less = c.if_less(d, c, d);
            let lanes = [c + d, c - d, c * d, c / d, less, c.if_nan(d, c), c.raise(d)];
            out.extend(
                lanes
                    .iter()
                    .flat_map(|lanes| lanes.array().map(f64::to_bits)),
            );
            out.push(c.fold().to_bits());
            let [keys, _] = self.0;
            let masks = [
                machine.within_wide(&x, y[0]),
                machine.within(&x.map(f64::from), f64::from(y[0])),
                machine.at_most(keys, keys[3]),
                machine.equal(&keys, keys[3]),
            ];
            out.extend(masks.map(u64::from));
            out
        }
    }

    #[test]
    fn all_machines_return_the_same_bits() {
        let number = |k: u64| {
            // No NaN, whose sign no machine promises.
            let bits = random_bits(1, k).to_le_bytes();
            let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
            if f32::from_bits(bits).is_nan() {
                0
            } else {
                bits
            }
        };
        for k in (0..16_000).step_by(2 * WIDE) {
            let values = [0, 1]
                .map(|half| std::array::from_fn(|lane| number(k + (half * WIDE + lane) as u64)));
            let (best, portable) = (
                dispatch(Operations(values)),
                Operations(values).run(Portable),
            );
            let is_nan = |&bits: &u64| f64::from_bits(bits).is_nan();
            let wide_nan =
                |bits: u64| u32::try_from(bits).is_ok_and(|bits| f32::from_bits(bits).is_nan());
            for (best, portable) in best.iter().zip(&portable) {
                let both_nan =
                    (is_nan(best) && is_nan(portable)) || (wide_nan(*best) && wide_nan(*portable));
                assert!(best == portable || both_nan, "{best:x} {portable:x}");
            }
        }
    }
}
