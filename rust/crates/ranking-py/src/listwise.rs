//! Losses of sampled lists.

use pyo3::prelude::*;
use ranking_core::listwise as core;

use crate::arguments::{ArrayMut, Table, Threads, argument, family};
use crate::native::ListwiseLoss;

argument! {
    ListSlopes<'py> { losses: ArrayMut<'py, f64>, slopes: ArrayMut<'py, f64> }
}

family! {
    listwise;

    fn listwise_slopes(
        loss: ListwiseLoss,
        margins: Table<'_, f64>,
        out: ListSlopes<'_>,
        threads: Threads,
    ) {
        core::listwise_slopes(loss.form(), margins.data, margins.width, out, &threads);
    }
}
