//! Pairwise losses over judged lists.

use pyo3::prelude::*;
use ranking_core::pairwise_lists as core;

use crate::arguments::{Array, ArrayMut, Columns, Threads, argument, family, with_matrix};
use crate::domination::{EntryPenalty, ListLayout};
use crate::native::{NativeCall, slope};

argument! {
    PairCurve {
        form: i64,
        lower: f64,
        upper: f64,
        bend: f64,
        value: NativeCall,
        slope: NativeCall,
    } => core::Curve = curve(form, core::Window { lower, upper, bend }, [value, slope])
}

/// The loss of a `PairwiseForm`.
fn curve(form: i64, window: core::Window, calls: [(usize, usize); 2]) -> core::Curve {
    match form {
        0 | 1 => core::Curve::Windows(window),
        2 => core::Curve::Logistic,
        _ => core::Curve::Native(core::NativeCurve {
            value: slope(calls[0]),
            slope: slope(calls[1]),
            bend: window.bend,
        }),
    }
}

family! {
    pairwise_lists;

    fn pairwise_slopes(
        layout: ListLayout<'_>,
        margins: Array<'_, f64>,
        curve: PairCurve,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) -> f64 {
        core::slopes(&layout, margins, curve, out, &threads)
    }

    fn pairwise_gram(
        features: Columns<'_>,
        layout: ListLayout<'_>,
        margins: Array<'_, f64>,
        curve: PairCurve,
        columns: Array<'_, i64>,
        lists: Array<'_, i64>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        with_matrix!(features, |x| core::gram(x, &layout, margins, curve, columns, lists, out, &threads));
    }

    fn column_products(
        features: Columns<'_>,
        columns: Array<'_, i64>,
        values: Array<'_, f64>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        with_matrix!(features, |x| core::products(x, columns, values, out, &threads));
    }

    fn column_combination(
        features: Columns<'_>,
        columns: Array<'_, i64>,
        weights: Array<'_, f64>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        with_matrix!(features, |x| core::combination(x, columns, weights, out, &threads));
    }

    fn quadratic_descent(
        gram: Array<'_, f64>,
        gradient: ArrayMut<'_, f64>,
        weights: ArrayMut<'_, f64>,
        penalty: EntryPenalty,
        sweeps: usize,
        tolerance: f64,
    ) -> usize {
        let model = core::QuadraticModel { gram, gradient, weights, penalty };
        core::descend(model, sweeps, tolerance)
    }
}
