//! The contract's exponential: it vectorises, saturates instead of overflowing, and has the same
//! bits everywhere.

use crate::constants::LANES;
use crate::dispatch::{Job, dispatch};
use crate::simd::{Lanes, Machine, Portable};

const LOG2E: f64 = f64::from_bits(0x3FF7_1547_652B_82FE);
const LN2_HIGH: f64 = f64::from_bits(0x3FE6_2E42_FEE0_0000);
const LN2_LOW: f64 = f64::from_bits(0x3DEA_39EF_3579_3C76);
/// 1.5 * 2**52: adding it rounds to the nearest integer.
const MAGIC: f64 = 6_755_399_441_055_744.0;
const LIMIT: f64 = 708.0;
pub(crate) const SHORT_LIMIT: f64 = 0.03125;
pub(crate) const CORE_LIMIT: f64 = 0.34;
/// The minimax polynomial Q of exp(r) = 1 + r + r**2 Q(r).
const Q: [f64; 10] = [
    f64::from_bits(0x3FE0_0000_0000_0001),
    f64::from_bits(0x3FC5_5555_5555_5558),
    f64::from_bits(0x3FA5_5555_5555_3D55),
    f64::from_bits(0x3F81_1111_1110_F7F5),
    f64::from_bits(0x3F56_C16C_1789_11B7),
    f64::from_bits(0x3F2A_01A0_1B01_2E65),
    f64::from_bits(0x3EFA_019B_8F8D_9659),
    f64::from_bits(0x3EC7_1DDF_6A10_03A6),
    f64::from_bits(0x3E92_8919_D70C_EB38),
    f64::from_bits(0x3E5A_F634_E6A9_EB34),
];

/// a * x + b, in two roundings.
#[inline(always)]
fn line<M: Machine>(x: Lanes<M>, a: f64, b: f64) -> Lanes<M> {
    x * x.all(a) + x.all(b)
}

/// exp for |t| <= `SHORT_LIMIT`.
#[inline(always)]
fn short<M: Machine>(t: Lanes<M>) -> Lanes<M> {
    let t2 = t * t;
    let t4 = t2 * t2;
    let low = (t.all(1.0) + t) + line(t, 1.0 / 6.0, 0.5) * t2;
    let high = line(t, 1.0 / 120.0, 1.0 / 24.0) + line(t, 1.0 / 5040.0, 1.0 / 720.0) * t2;
    low + high * t4
}

/// exp for |r| <= 0.3467.
#[inline(always)]
fn core<M: Machine>(r: Lanes<M>) -> Lanes<M> {
    let r2 = r * r;
    let r4 = r2 * r2;
    let r8 = r4 * r4;
    let low = (r.all(1.0) + r) + line(r, Q[1], Q[0]) * r2;
    let mid = line(r, Q[3], Q[2]) + line(r, Q[5], Q[4]) * r2;
    let high = line(r, Q[7], Q[6]) + line(r, Q[9], Q[8]) * r2;
    (low + mid * r4) + high * r8
}

/// exp for any x, saturating; a NaN stays one.
#[inline(always)]
pub(crate) fn full<M: Machine>(x: Lanes<M>) -> Lanes<M> {
    // By comparison: f64::max and f64::clamp treat NaN differently from the reference.
    let x = x.if_less(x.all(-LIMIT), x.all(-LIMIT), x);
    let x = x.all(LIMIT).if_less(x, x.all(LIMIT), x);
    let t = line(x, LOG2E, MAGIC);
    let k = t - t.all(MAGIC);
    let r = (x - k * k.all(LN2_HIGH)) - k * k.all(LN2_LOW);
    core(r).raise(t)
}

/// One of the three as a type, because a function that is passed as a value may not be inlined.
pub(crate) trait Exp {
    fn exp<M: Machine>(t: Lanes<M>) -> Lanes<M>;
}

macro_rules! exponentials {
    ($($name:ident => $function:ident),*) => {
        $(
            pub(crate) struct $name;

            impl Exp for $name {
                #[inline(always)]
                fn exp<M: Machine>(t: Lanes<M>) -> Lanes<M> {
                    $function(t)
                }
            }
        )*
    };
}

exponentials!(Short => short, Core => core, Full => full);

/// exp of one number; the optimiser drops the other lanes.
#[inline(always)]
pub(crate) fn one(x: f64) -> f64 {
    full(Lanes::splat(Portable, x)).array()[0]
}

struct Fill<'a> {
    x: &'a [f64],
    out: &'a mut [f64],
}

impl Job for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let (x, x_rest) = self.x.as_chunks::<LANES>();
        let (out, out_rest) = self.out.as_chunks_mut::<LANES>();
        for (x, out) in x.iter().zip(out) {
            *out = full(Lanes::new(machine, *x)).array();
        }
        for (x, out) in x_rest.iter().zip(out_rest) {
            *out = one(*x);
        }
    }
}

/// Fill `out` with the exponential of `x`, element by element.
pub fn exp(x: &[f64], out: &mut [f64]) {
    dispatch(Fill { x, out });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_machines_return_the_same_bits() {
        let x: Vec<_> = (-8003..8003).map(|step| f64::from(step) * 0.1).collect();
        let (mut best, mut portable) = (vec![0.0; x.len()], vec![0.0; x.len()]);
        exp(&x, &mut best);
        let out = &mut portable;
        Fill { x: &x, out }.run(Portable);
        assert_eq!(best, portable);
    }
}
