//! The half-steps of the alternating solver.

use numpy::{
    PyArray1, PyArrayMethods, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1,
    PyReadwriteArray2, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ranking_core::Crew;
use ranking_core::alternating as loops;
use ranking_core::alternating::{Made, Rule, Sparse};

use crate::arguments::{
    Csr, Indices, Values, compressed, crew, failure, invalid, slice, slice_mut, with_compressed,
    with_precision,
};

#[pyfunction]
pub(crate) fn half_step(
    py: Python<'_>,
    matrix: Csr<'_>,
    vectors: PyReadonlyArray2<'_, f32>,
    threshold: f64,
    limit: f64,
    mut out: PyReadwriteArray2<'_, f32>,
    mut gains: PyReadwriteArray1<'_, f64>,
    threads: usize,
) -> PyResult<()> {
    let (columns, width) = (vectors.shape()[0], vectors.shape()[1]);
    if out.shape()[1] != width {
        return Err(PyValueError::new_err(
            "vectors and out must have one width.",
        ));
    }
    let vectors = slice("vectors", &vectors)?;
    let out = slice_mut("out", &mut out)?;
    let gains = slice_mut("gains", &mut gains)?;
    let rule = Rule::new(threshold, limit);
    let crew = crew(threads)?;
    with_compressed!(&matrix.0, &matrix.1, &matrix.2, |indptr, indices, data| {
        let matrix = compressed(indptr, indices, data, columns)?;
        py.detach(|| loops::half_step(matrix, vectors, width, rule, out, gains, &crew))
            .map_err(failure)
    })
}

/// indptr, indices and values of vectors.
type Arrays<'py> = (
    Bound<'py, PyArray1<i64>>,
    Bound<'py, PyArray1<i32>>,
    Bound<'py, PyArray1<f32>>,
);

#[pyfunction]
pub(crate) fn half_step_sparse<'py>(
    py: Python<'py>,
    matrix: Csr<'py>,
    vectors: (
        PyReadonlyArray1<'py, i64>,
        PyReadonlyArray1<'py, i32>,
        PyReadonlyArray1<'py, f32>,
    ),
    width: usize,
    threshold: f64,
    limit: f64,
    mut gains: PyReadwriteArray1<'py, f64>,
    threads: usize,
) -> PyResult<Arrays<'py>> {
    let columns = vectors.0.len().saturating_sub(1);
    let vectors = Sparse::new(
        slice("pointers", &vectors.0)?,
        slice("dimensions", &vectors.1)?,
        slice("values", &vectors.2)?,
        width,
    )
    .map_err(invalid)?;
    let gains = slice_mut("gains", &mut gains)?;
    let indptr = PyArray1::zeros(py, gains.len() + 1, false);
    let mut pointers = indptr.readwrite();
    let pointers = slice_mut("indptr", &mut pointers)?;
    let rule = Rule::new(threshold, limit);
    let crew = crew(threads)?;
    let made = with_compressed!(&matrix.0, &matrix.1, &matrix.2, |indptr, indices, data| {
        let matrix = compressed(indptr, indices, data, columns)?;
        py.detach(|| loops::half_step_sparse(matrix, vectors, rule, pointers, gains, &crew))
            .map_err(failure)
    })?;
    // NumPy's memory, not Rust's: it asks for large pages, without which rows are fetched slowly.
    let dimensions = PyArray1::zeros(py, made.count(), false);
    let values = PyArray1::zeros(py, made.count(), false);
    join(py, made, &dimensions, &values, &crew)?;
    Ok((indptr.clone(), dimensions, values))
}

fn join(
    py: Python<'_>,
    made: Made,
    dimensions: &Bound<'_, PyArray1<i32>>,
    values: &Bound<'_, PyArray1<f32>>,
    crew: &Crew,
) -> PyResult<()> {
    let (mut dimensions, mut values) = (dimensions.readwrite(), values.readwrite());
    let dimensions = slice_mut("dimensions", &mut dimensions)?;
    let values = slice_mut("values", &mut values)?;
    py.detach(|| made.join(dimensions, values, crew))
        .map_err(invalid)
}
