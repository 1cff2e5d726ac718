//! Random numbers, sums and the exponential.

use pyo3::prelude::*;
use ranking_core::random as core;

use crate::arguments::{Array, ArrayMut, Threads, family};

family! {
    random;

    fn random_bits(seed: u64, first: u64, out: ArrayMut<'_, u64>) {
        core::fill(seed, first, out, |bits| bits);
    }

    fn random_uniform(seed: u64, first: u64, out: ArrayMut<'_, f64>) {
        core::fill(seed, first, out, core::uniform);
    }

    fn random_below(seed: u64, first: u64, bound: u32, out: ArrayMut<'_, i64>) {
        core::fill(seed, first, out, |bits| i64::from(core::below(bits, bound)));
    }

    fn exp(x: Array<'_, f64>, out: ArrayMut<'_, f64>) {
        ranking_core::exp::exp(x, out);
    }

    fn dot(a: Array<'_, f64>, b: Array<'_, f64>) -> f64 {
        ranking_core::sums::dot(a, b)
    }

    fn block_sum(a: Array<'_, f64>, threads: Threads) -> f64 {
        ranking_core::sums::block_sum(a, &threads)
    }
}
