//! Half-steps of the alternating solver.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use ranking_core::alternating as core;
use ranking_core::alternating::Rule;
use ranking_core::with_sparse;

use crate::arguments::{
    Argument, Array, ArrayMut, Csr, Table, Threads, argument, detached, family,
};

/// indptr, indices and values of sparse embeddings.
type SparseArrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<f32>>,
);

argument! {
    Sparse<'py> { indptr: Array<'py, i64>, indices: Array<'py, i32>, data: Array<'py, f32> }
}

argument! {
    SquaredRule { observed: f64, unobserved: f64, steps: usize }
}

family! {
    alternating, also half_step_sparse;

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

/// It allocates its result while attached to the interpreter, and so is no function of the macro.
#[pyfunction]
pub(crate) fn half_step_sparse<'py>(
    py: Python<'py>,
    mut matrix: Csr<'py>,
    mut embeddings: Sparse<'py>,
    width: usize,
    threshold: f64,
    limit: f64,
    mut gains: ArrayMut<'py, f64>,
    mut threads: Threads,
) -> PyResult<SparseArrays<'py>> {
    let (matrix, gains, team) = (matrix.borrow()?, gains.borrow()?, threads.borrow()?);
    let embeddings = embeddings.borrow()?;
    let out_indptr = PyArray1::zeros(py, gains.len() + 1, false);
    let mut pointers = out_indptr.readwrite();
    let pointers = pointers.as_slice_mut()?;
    let rule = Rule::new(threshold, limit);
    let rows = detached(py, || {
        with_sparse!(matrix, |matrix| {
            core::half_step_sparse(matrix, embeddings, width, rule, pointers, gains, &team)
        })
    })?;
    // NumPy's memory, not Rust's: it uses huge pages, without which rows load slowly.
    let out_indices = PyArray1::zeros(py, rows.count(), false);
    let out_data = PyArray1::zeros(py, rows.count(), false);
    {
        let (mut indices, mut data) = (out_indices.readwrite(), out_data.readwrite());
        let (indices, data) = (indices.as_slice_mut()?, data.as_slice_mut()?);
        detached(py, || rows.join(indices, data, &team))?;
    }
    Ok((out_indptr.clone(), out_indices, out_data))
}
