//! The factored loops: vectors, scores and steps.

use numpy::{
    PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ranking_core::bilinear::{Form, Stored};
use ranking_core::factored as loops;
use ranking_core::factored::{Factors, Objects, Plan};

use crate::arguments::{
    Csr, Indices, Values, compressed, crew, failure, invalid, slice, slice_mut, with_compressed,
    with_precision,
};

/// U, V and the biases, or their sums of squares.
type Arrays<'py> = (
    PyReadwriteArray2<'py, f32>,
    PyReadwriteArray2<'py, f32>,
    PyReadwriteArray1<'py, f32>,
);

fn factors<'a>(arrays: &'a mut Arrays<'_>) -> PyResult<Factors<'a>> {
    let (u, v, biases) = arrays;
    let width = u.shape()[1];
    if v.shape()[1] != width {
        return Err(PyValueError::new_err("U and V must have one width."));
    }
    let (u, v) = (slice_mut("U", u)?, slice_mut("V", v)?);
    Factors::new(u, v, slice_mut("biases", biases)?, width).map_err(invalid)
}

/// Objects by their features, or by none if there is no matrix.
fn objects<'a>(csr: Option<&'a Csr<'_>>, n_features: usize) -> PyResult<Objects<'a>> {
    let Some((indptr, indices, data)) = csr else {
        return Ok(Objects::Own(n_features));
    };
    with_compressed!(indptr, indices, data, |p, i, x| Ok(Objects::from(
        compressed(p, i, x, n_features)?
    )))
}

#[pyfunction]
pub(crate) fn factored_vectors(
    py: Python<'_>,
    features: Csr<'_>,
    matrix: PyReadonlyArray2<'_, f32>,
    mut out: PyReadwriteArray2<'_, f32>,
    threads: usize,
) -> PyResult<()> {
    let (n_features, width) = (matrix.shape()[0], matrix.shape()[1]);
    let objects = objects(Some(&features), n_features)?;
    let matrix = slice("matrix", &matrix)?;
    let out = slice_mut("out", &mut out)?;
    let crew = crew(threads)?;
    py.detach(|| loops::factored_vectors(&objects, matrix, width, out, &crew))
        .map_err(invalid)
}

#[pyfunction]
pub(crate) fn factored_scores(
    py: Python<'_>,
    queries: PyReadonlyArray2<'_, f32>,
    documents: PyReadonlyArray2<'_, f32>,
    biases: PyReadonlyArray1<'_, f32>,
    mut out: PyReadwriteArray2<'_, f32>,
    threads: usize,
) -> PyResult<()> {
    let (n_documents, width) = (documents.shape()[0], documents.shape()[1]);
    let queries = slice("queries", &queries)?;
    let documents = slice("documents", &documents)?;
    let biases = slice("biases", &biases)?;
    let out = slice_mut("out", &mut out)?;
    let crew = crew(threads)?;
    py.detach(|| loops::factored_scores(queries, documents, width, biases, n_documents, out, &crew))
        .map_err(failure)
}

#[pyfunction]
pub(crate) fn factored_steps(
    py: Python<'_>,
    queries: Option<Csr<'_>>,
    documents: Option<Csr<'_>>,
    tuples: PyReadonlyArray2<'_, i64>,
    rates: PyReadonlyArray1<'_, f32>,
    form: i64,
    rank_weights: PyReadonlyArray1<'_, f32>,
    n_documents: usize,
    mut factors: Arrays<'_>,
    mut squares: Arrays<'_>,
    max_norm: f64,
    l2: f64,
    block: usize,
    mut margins: PyReadwriteArray1<'_, f32>,
    mut weights: PyReadwriteArray1<'_, f32>,
    threads: usize,
) -> PyResult<()> {
    let queries = objects(queries.as_ref(), factors.0.shape()[0])?;
    let documents = objects(documents.as_ref(), factors.1.shape()[0])?;
    let plan = Plan {
        tuples: slice("tuples", &tuples)?,
        numbers: tuples.shape()[1],
        rates: slice("rates", &rates)?,
        form: Form::try_from(form).map_err(invalid)?,
        rank_weights: slice("rank_weights", &rank_weights)?,
        n_documents,
        max_norm: f32::narrow(max_norm),
        l2: f32::narrow(l2),
        block,
    };
    let mut factors = self::factors(&mut factors)?;
    let mut squares = self::factors(&mut squares)?;
    let margins = slice_mut("margins", &mut margins)?;
    let weights = slice_mut("weights", &mut weights)?;
    let crew = crew(threads)?;
    py.detach(|| {
        let (factors, squares) = (&mut factors, &mut squares);
        loops::factored_steps(
            &queries, &documents, &plan, factors, squares, margins, weights, &crew,
        )
    })
    .map_err(failure)
}
