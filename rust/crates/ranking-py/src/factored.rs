//! The factored loops: vectors, scores and steps.

use numpy::{
    PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2, PyUntypedArrayMethods,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ranking_core::bilinear::Stored;
use ranking_core::factored as loops;
use ranking_core::factored::{
    Barred, Factors, Objects, Plan, Shrinking, Sides, Source, Steps, Trials,
};

use crate::arguments::{
    Csr, Indices, Lists, Values, compressed, crew, failure, invalid, match_lists, slice, slice_mut,
    with_compressed, with_precision,
};
use crate::native::{self, Call};

/// U, V, S and the biases, or their sums of squares.
type Arrays<'py> = (
    PyReadwriteArray2<'py, f32>,
    PyReadwriteArray2<'py, f32>,
    PyReadwriteArray2<'py, f32>,
    PyReadwriteArray1<'py, f32>,
);

/// The features of queries and documents, and the contexts of queries.
type ThreeSides<'py> = (Option<Csr<'py>>, Option<Csr<'py>>, Option<Csr<'py>>);

/// Seed, first step and lists.
type Draws<'py> = (u64, u64, Lists<'py>);

fn factors<'a>(arrays: &'a mut Arrays<'_>) -> PyResult<Factors<'a>> {
    let (u, v, s, biases) = arrays;
    let width = u.shape()[1];
    if v.shape()[1] != width || s.shape()[1] != width {
        return Err(PyValueError::new_err("U, V and S must have one width."));
    }
    let (u, v, s) = (slice_mut("U", u)?, slice_mut("V", v)?, slice_mut("S", s)?);
    Factors::new(u, v, s, slice_mut("biases", biases)?, width).map_err(invalid)
}

fn sides<'a>(three: &'a ThreeSides<'_>, arrays: &Arrays<'_>) -> PyResult<Sides<'a>> {
    let (queries, documents, contexts) = three;
    let (u_rows, v_rows) = (arrays.0.shape()[0], arrays.1.shape()[0]);
    let contexts = contexts.as_ref();
    Ok(Sides {
        queries: objects(queries.as_ref(), u_rows)?,
        documents: objects(documents.as_ref(), v_rows)?,
        contexts: contexts.map(|csr| objects(Some(csr), v_rows)).transpose()?,
    })
}

fn source<'a>(tuples: &'a [i64], draws: Option<&'a Draws<'_>>) -> PyResult<Source<'a>> {
    let Some((seed, first, lists)) = draws else {
        return Ok(Source::Given(tuples));
    };
    Ok(Source::Drawn {
        seed: *seed,
        first: *first,
        lists: match_lists(lists)?,
    })
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
pub(crate) fn factored_top(
    py: Python<'_>,
    queries: PyReadonlyArray2<'_, f32>,
    documents: PyReadonlyArray2<'_, f32>,
    biases: PyReadonlyArray1<'_, f32>,
    barred_ptr: PyReadonlyArray1<'_, i64>,
    barred: PyReadonlyArray1<'_, i64>,
    mut found: PyReadwriteArray2<'_, i64>,
    mut scores: PyReadwriteArray2<'_, f32>,
    threads: usize,
) -> PyResult<()> {
    let (width, k) = (documents.shape()[1], found.shape()[1]);
    let queries = slice("queries", &queries)?;
    let documents = slice("documents", &documents)?;
    let biases = slice("biases", &biases)?;
    let barred = Barred {
        pointers: slice("barred_ptr", &barred_ptr)?,
        documents: slice("barred", &barred)?,
    };
    let found = slice_mut("found", &mut found)?;
    let scores = slice_mut("scores", &mut scores)?;
    let crew = crew(threads)?;
    py.detach(|| {
        loops::factored_top(
            queries, documents, width, biases, barred, k, found, scores, &crew,
        )
    })
    .map_err(failure)
}

#[pyfunction]
pub(crate) fn factored_search(
    py: Python<'_>,
    sides: ThreeSides<'_>,
    mut factors: Arrays<'_>,
    tuples: PyReadonlyArray2<'_, i64>,
    draws: Option<Draws<'_>>,
    positives: usize,
    place: usize,
    rank_weights: PyReadonlyArray1<'_, f32>,
    n_documents: usize,
    mut chosen: PyReadwriteArray2<'_, i64>,
    mut margins: PyReadwriteArray1<'_, f32>,
    mut weights: PyReadwriteArray1<'_, f32>,
    threads: usize,
) -> PyResult<()> {
    let sides = self::sides(&sides, &factors)?;
    let trials = Trials {
        source: source(slice("tuples", &tuples)?, draws.as_ref())?,
        numbers: tuples.shape()[1],
        positives,
        place,
        rank_weights: slice("rank_weights", &rank_weights)?,
        n_documents,
    };
    let factors = self::factors(&mut factors)?;
    let chosen = slice_mut("chosen", &mut chosen)?;
    let margins = slice_mut("margins", &mut margins)?;
    let weights = slice_mut("weights", &mut weights)?;
    let crew = crew(threads)?;
    py.detach(|| loops::factored_search(&sides, &factors, &trials, chosen, margins, weights, &crew))
        .map_err(failure)
}

#[pyfunction]
pub(crate) fn factored_update(
    py: Python<'_>,
    sides: ThreeSides<'_>,
    mut factors: Arrays<'_>,
    mut squares: Arrays<'_>,
    queries: PyReadonlyArray1<'_, i64>,
    step_ptr: PyReadonlyArray1<'_, i64>,
    documents: PyReadonlyArray1<'_, i64>,
    slopes: PyReadonlyArray1<'_, f32>,
    rate: f64,
    max_norm: f64,
    l2: f64,
    threads: usize,
) -> PyResult<()> {
    let sides = self::sides(&sides, &factors)?;
    let steps = Steps {
        queries: slice("queries", &queries)?,
        pointers: slice("step_ptr", &step_ptr)?,
        documents: slice("documents", &documents)?,
        slopes: slice("slopes", &slopes)?,
    };
    let mut factors = self::factors(&mut factors)?;
    let mut squares = self::factors(&mut squares)?;
    let shrinking = shrinking(max_norm, l2);
    let rate = f32::narrow(rate);
    let crew = crew(threads)?;
    py.detach(|| {
        let (factors, squares) = (&mut factors, &mut squares);
        loops::factored_update(&sides, factors, squares, &steps, rate, shrinking, &crew)
    })
    .map_err(failure)
}

fn shrinking(max_norm: f64, l2: f64) -> Shrinking {
    Shrinking {
        max_norm: f32::narrow(max_norm),
        l2: f32::narrow(l2),
    }
}

#[pyfunction]
pub(crate) fn factored_steps(
    py: Python<'_>,
    sides: ThreeSides<'_>,
    mut factors: Arrays<'_>,
    mut squares: Arrays<'_>,
    tuples: PyReadonlyArray2<'_, i64>,
    draws: Option<Draws<'_>>,
    positives: usize,
    place: usize,
    rates: PyReadonlyArray1<'_, f32>,
    form: i64,
    slope: Call,
    rank_weights: PyReadonlyArray1<'_, f32>,
    n_documents: usize,
    max_norm: f64,
    l2: f64,
    block: usize,
    // Any order will do then; the one that the contract fixes without it is one of them.
    _hogwild: bool,
    mut margins: PyReadwriteArray1<'_, f32>,
    mut weights: PyReadwriteArray1<'_, f32>,
    threads: usize,
) -> PyResult<()> {
    let sides = self::sides(&sides, &factors)?;
    let trials = Trials {
        source: source(slice("tuples", &tuples)?, draws.as_ref())?,
        numbers: tuples.shape()[1],
        positives,
        place,
        rank_weights: slice("rank_weights", &rank_weights)?,
        n_documents,
    };
    let plan = Plan {
        rates: slice("rates", &rates)?,
        form: native::form(form, slope)?,
        shrinking: shrinking(max_norm, l2),
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
            &sides, factors, squares, &trials, &plan, margins, weights, &crew,
        )
    })
    .map_err(failure)
}
