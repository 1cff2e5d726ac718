//! Half-steps of the alternating solver.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use ranking_core::Error;
use ranking_core::alternating as core;
use ranking_core::alternating::Rule;

use crate::arguments::{
    Argument, Array, ArrayMut, Csr, Table, TableMut, Threads, argument, family, python_error,
    with_sparse,
};

/// indptr, indices and values of sparse embeddings.
type SparseArrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<f32>>,
);

/// The arrays of sparse embeddings.
pub(crate) struct Slices<'a>(&'a [i64], &'a [i32], &'a [f32]);

argument! {
    SparseEmbeddings<'py> { indptr: Array<'py, i64>, indices: Array<'py, i32>, data: Array<'py, f32> }
    => Slices<'a> = Ok(Slices(indptr, indices, data))
}

family! {
    alternating, also half_step_sparse;

    fn half_step(
        matrix: Csr<'_>,
        embeddings: Table<'_, f32>,
        threshold: f64,
        limit: f64,
        out: TableMut<'_, f32>,
        gains: ArrayMut<'_, f64>,
        threads: Threads,
    ) -> () {
        let width = embeddings.width;
        if out.width != width {
            return Err(Error::Argument("embeddings and out must have one width".into()));
        }
        let n_columns = embeddings.data.len() / width.max(1);
        let rule = Rule::new(threshold, limit);
        with_sparse!(matrix, n_columns, |matrix| {
            core::half_step(matrix, embeddings.data, width, rule, out.data, gains, &threads)
        })
    }
}

/// It allocates its result while attached to the interpreter, and so is no function of the macro.
#[pyfunction]
pub(crate) fn half_step_sparse<'py>(
    py: Python<'py>,
    mut matrix: Csr<'py>,
    mut embeddings: SparseEmbeddings<'py>,
    width: usize,
    threshold: f64,
    limit: f64,
    mut gains: ArrayMut<'py, f64>,
    mut threads: Threads,
) -> PyResult<SparseArrays<'py>> {
    let (matrix, gains, team) = (matrix.borrow()?, gains.borrow()?, threads.borrow()?);
    let Slices(indptr, indices, data) = embeddings.borrow()?;
    let n_columns = indptr.len().saturating_sub(1);
    let embeddings = core::Sparse::new(indptr, indices, data, width).map_err(python_error)?;
    let out_indptr = PyArray1::zeros(py, gains.len() + 1, false);
    let mut pointers = out_indptr.readwrite();
    let pointers = pointers.as_slice_mut()?;
    let rule = Rule::new(threshold, limit);
    let rows = py
        .detach(|| {
            with_sparse!(matrix, n_columns, |matrix| {
                core::half_step_sparse(matrix, embeddings, rule, pointers, gains, &team)
            })
        })
        .map_err(python_error)?;
    // NumPy's memory, not Rust's: it uses huge pages, without which rows load slowly.
    let out_indices = PyArray1::zeros(py, rows.count(), false);
    let out_data = PyArray1::zeros(py, rows.count(), false);
    {
        let (mut indices, mut data) = (out_indices.readwrite(), out_data.readwrite());
        let (indices, data) = (indices.as_slice_mut()?, data.as_slice_mut()?);
        py.detach(|| rows.join(indices, data, &team))
            .map_err(python_error)?;
    }
    Ok((out_indptr.clone(), out_indices, out_data))
}
