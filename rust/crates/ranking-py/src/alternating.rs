//! Half-steps of the alternating solver.

use pyo3::prelude::*;
use ranking_core::alternating as core;
use ranking_core::alternating::Rule;
use ranking_core::with_sparse;

use crate::arguments::{Array, ArrayMut, Csr, Table, Threads, argument, family};

argument! {
    SquaredRule { observed: f64, unobserved: f64, steps: usize }
}

family! {
    alternating;

    fn half_step(
        matrix: Csr<'_>,
        embeddings: Table<'_, f32>,
        threshold: f64,
        limit: f64,
        out: ArrayMut<'_, f32>,
        gains: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        let (rule, width) = (Rule::new(threshold, limit), embeddings.width);
        with_sparse!(matrix, |matrix| {
            core::half_step(matrix, embeddings.data, width, rule, out, gains, &threads);
        });
    }

    fn squared_half_step(
        matrix: Csr<'_>,
        embeddings: Table<'_, f32>,
        gram: Array<'_, f32>,
        rule: SquaredRule,
        ridges: Array<'_, f32>,
        out: ArrayMut<'_, f32>,
        gains: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        let (width, embeddings) = (embeddings.width, embeddings.data);
        let others = core::Others { embeddings, gram, width };
        with_sparse!(matrix, |matrix| {
            core::squared_half_step(matrix, others, rule, ridges, out, gains, &threads);
        });
    }
}
