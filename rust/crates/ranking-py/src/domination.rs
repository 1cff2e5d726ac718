//! The domination loss.

use pyo3::prelude::*;
use ranking_core::domination as core;

use crate::arguments::{Array, ArrayMut, Columns, Threads, argument, family, with_matrix};

argument! {
    ListLayout<'py> {
        list_ptr: Array<'py, i64>,
        layer_ptr: Array<'py, i64>,
        layer_size: Array<'py, i64>,
        block_ptr: Array<'py, i64>,
        omega: Array<'py, f64>,
    }
}

argument! {
    CoordinateState<'py> {
        margins: ArrayMut<'py, f64>,
        weights: ArrayMut<'py, f64>,
        radius: ArrayMut<'py, f64>,
        bounds: Array<'py, f64>,
    }
}

argument! { EntryPenalty { l1: f64, l2: f64 } }

family! {
    domination;

    fn domination_sweep(
        features: Columns<'_>,
        layout: ListLayout<'_>,
        state: CoordinateState<'_>,
        columns: Array<'_, i64>,
        penalty: EntryPenalty,
        newton: bool,
        threads: Threads,
    ) {
        with_matrix!(features, |x| {
            core::sweep(x, &layout, state, columns, penalty, newton, &threads);
        });
    }
}
