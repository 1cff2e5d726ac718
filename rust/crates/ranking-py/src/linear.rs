//! Scores of the linear model.

use pyo3::prelude::*;

use crate::arguments::{Array, ArrayMut, Rows, Threads, family, with_matrix};

family! {
    linear;

    fn linear_scores(
        features: Rows<'_>,
        weights: Array<'_, f64>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        with_matrix!(features, |x| ranking_core::linear::scores(x, weights, out, &threads));
    }
}
