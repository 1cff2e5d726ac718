//! Columns of item-item weights.

use pyo3::prelude::*;
use ranking_core::item_item as core;
use ranking_core::with_sparse;

use crate::arguments::{Array, ArrayMut, Csr, Either, Threads, argument, family, with_either};

argument! {
    ItemRule { l1: f64, l2: f64, nonnegative: bool, tolerance: f64, sweeps: i64 }
}

argument! {
    Candidates<'py> {
        indptr: Either<Array<'py, i32>, Array<'py, i64>>,
        indices: Either<Array<'py, i32>, Array<'py, i64>>,
        data: ArrayMut<'py, f64>,
    } => (Pattern<'a>, &'a mut [f64]) = (pattern(indptr, indices)?, data)
}

/// The pointers and indices of candidates.
type Pattern<'a> = Either<(&'a [i32], &'a [i32]), (&'a [i64], &'a [i64])>;

fn pattern<'a>(
    indptr: Either<&'a [i32], &'a [i64]>,
    indices: Either<&'a [i32], &'a [i64]>,
) -> PyResult<Pattern<'a>> {
    match (indptr, indices) {
        (Either::One(indptr), Either::One(indices)) => Ok(Either::One((indptr, indices))),
        (Either::Other(indptr), Either::Other(indices)) => Ok(Either::Other((indptr, indices))),
        _ => Err(pyo3::exceptions::PyTypeError::new_err(
            "indptr and indices have two types",
        )),
    }
}

family! {
    item_item;

    fn item_columns(
        gram: Csr<'_>,
        diagonal: Array<'_, f64>,
        candidates: Candidates<'_>,
        rule: ItemRule,
        losses: ArrayMut<'_, f64>,
        sweeps: ArrayMut<'_, i64>,
        threads: Threads,
    ) {
        let (pattern, weights) = candidates;
        let columns = core::Columns { weights, losses, sweeps };
        with_sparse!(gram, |matrix| {
            let gram = core::Gram { matrix, diagonal };
            with_either!(pattern, |lines| {
                core::item_columns(gram, lines.0, lines.1, rule, columns, &threads);
            });
        });
    }
}
