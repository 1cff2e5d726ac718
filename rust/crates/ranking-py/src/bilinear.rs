//! The bilinear loops: W in training as a class, tuples and scores.

use numpy::{
    PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2, PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use ranking_core::bilinear as loops;
use ranking_core::bilinear::{Clock, Form, PassivePlan, Penalty, Plan, Ranks, Store, Tuples};
use ranking_core::draws;

use crate::arguments::{
    Csr, Indices, Lists, NewValues, Values, compressed, crew, failure, invalid, lines, match_lists,
    n_rows, slice, slice_mut, with_compressed, with_precision,
};
use crate::native::{self, Call};

/// W in either precision.
enum Either {
    Single(Store<f32>),
    Double(Store<f64>),
}

/// Run `$body` with `$store` bound to the store of whichever precision it has.
macro_rules! with_store {
    ($either:expr, |$store:ident| $body:expr) => {
        match $either {
            Either::Single($store) => $body,
            Either::Double($store) => $body,
        }
    };
}

/// W while it is trained.
#[pyclass(module = "ranking_rust._core")]
pub(crate) struct BilinearStore(Either);

#[pymethods]
impl BilinearStore {
    fn margins(
        &self,
        py: Python<'_>,
        queries: Csr<'_>,
        documents: Csr<'_>,
        tuples: PyReadonlyArray2<'_, i64>,
        rank_weights: PyReadonlyArray1<'_, f64>,
        n_documents: usize,
        transposed: bool,
        clock: PyReadonlyArray1<'_, f64>,
        mut margins: PyReadwriteArray1<'_, f64>,
        mut weights: PyReadwriteArray1<'_, f64>,
        mut negatives: PyReadwriteArray1<'_, i64>,
        threads: usize,
    ) -> PyResult<()> {
        let (queries, documents) = (lines(&queries)?, lines(&documents)?);
        let width = tuples.shape()[1];
        let ids = slice("tuples", &tuples)?;
        let tuples =
            Tuples::new(&*queries, &*documents, ids, width, transposed).map_err(invalid)?;
        let rank_weights = slice("rank_weights", &rank_weights)?;
        let ranks = Ranks::new(rank_weights, n_documents).map_err(invalid)?;
        let clock = read_clock(slice("clock", &clock)?)?;
        let margins = slice_mut("margins", &mut margins)?;
        let weights = slice_mut("weights", &mut weights)?;
        let negatives = slice_mut("negatives", &mut negatives)?;
        let crew = crew(threads)?;
        with_store!(&self.0, |store| py.detach(|| {
            store.margins(&tuples, &ranks, &clock, margins, weights, negatives, &crew)
        }))
        .map_err(failure)
    }

    fn update(
        &mut self,
        py: Python<'_>,
        queries: Csr<'_>,
        documents: Csr<'_>,
        tuples: PyReadonlyArray2<'_, i64>,
        negatives: PyReadonlyArray1<'_, i64>,
        slopes: PyReadonlyArray1<'_, f64>,
        rates: PyReadonlyArray1<'_, f64>,
        every: f64,
        l1: f64,
        l2: f64,
        grow: bool,
        transposed: bool,
        mut clock: PyReadwriteArray1<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let (queries, documents) = (lines(&queries)?, lines(&documents)?);
        let width = tuples.shape()[1];
        let ids = slice("tuples", &tuples)?;
        let tuples =
            Tuples::new(&*queries, &*documents, ids, width, transposed).map_err(invalid)?;
        let negatives = slice("negatives", &negatives)?;
        let (slopes, rates) = (slice("slopes", &slopes)?, slice("rates", &rates)?);
        let penalty = Penalty::new(every, l1, l2).map_err(invalid)?;
        let crew = crew(threads)?;
        let out = slice_mut("clock", &mut clock)?;
        let mut clock = read_clock(out)?;
        let result = with_store!(&mut self.0, |store| py.detach(|| {
            let clock = &mut clock;
            store.update(
                &tuples, negatives, slopes, rates, &penalty, grow, clock, &crew,
            )
        }));
        out.copy_from_slice(&<[f64; 4]>::from(clock));
        result.map_err(failure)
    }

    fn steps(
        &mut self,
        py: Python<'_>,
        queries: Csr<'_>,
        documents: Csr<'_>,
        tuples: PyReadonlyArray2<'_, i64>,
        rates: PyReadonlyArray1<'_, f64>,
        form: i64,
        slope: Call,
        rank_weights: PyReadonlyArray1<'_, f64>,
        n_documents: usize,
        every: f64,
        l1: f64,
        l2: f64,
        grow: bool,
        transposed: bool,
        batch: usize,
        hogwild: bool,
        mut clock: PyReadwriteArray1<'_, f64>,
        mut margins: PyReadwriteArray1<'_, f64>,
        mut weights: PyReadwriteArray1<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let (queries, documents) = (lines(&queries)?, lines(&documents)?);
        let width = tuples.shape()[1];
        let ids = slice("tuples", &tuples)?;
        let tuples =
            Tuples::new(&*queries, &*documents, ids, width, transposed).map_err(invalid)?;
        let rank_weights = slice("rank_weights", &rank_weights)?;
        let plan = Plan {
            rates: slice("rates", &rates)?,
            form: native::form(form, slope)?,
            ranks: Ranks::new(rank_weights, n_documents).map_err(invalid)?,
            penalty: Penalty::new(every, l1, l2).map_err(invalid)?,
            grow,
            batch,
            hogwild,
        };
        let margins = slice_mut("margins", &mut margins)?;
        let weights = slice_mut("weights", &mut weights)?;
        let crew = crew(threads)?;
        let out = slice_mut("clock", &mut clock)?;
        let mut clock = read_clock(out)?;
        let result = with_store!(&mut self.0, |store| py
            .detach(|| store.steps(&tuples, &plan, &mut clock, margins, weights, &crew)));
        out.copy_from_slice(&<[f64; 4]>::from(clock));
        result.map_err(failure)
    }

    fn passive(
        &mut self,
        py: Python<'_>,
        queries: Csr<'_>,
        documents: Csr<'_>,
        tuples: PyReadonlyArray2<'_, i64>,
        form: i64,
        aggressiveness: f64,
        rank_weights: PyReadonlyArray1<'_, f64>,
        n_documents: PyReadonlyArray1<'_, i64>,
        grow: bool,
        transposed: bool,
        mut clock: PyReadwriteArray1<'_, f64>,
        mut margins: PyReadwriteArray1<'_, f64>,
        mut weights: PyReadwriteArray1<'_, f64>,
        mut rates: PyReadwriteArray1<'_, f64>,
    ) -> PyResult<()> {
        let (queries, documents) = (lines(&queries)?, lines(&documents)?);
        let width = tuples.shape()[1];
        let ids = slice("tuples", &tuples)?;
        let tuples =
            Tuples::new(&*queries, &*documents, ids, width, transposed).map_err(invalid)?;
        let plan = PassivePlan {
            form: Form::try_from(form).map_err(invalid)?,
            aggressiveness,
            rank_weights: slice("rank_weights", &rank_weights)?,
            n_documents: slice("n_documents", &n_documents)?,
            grow,
        };
        let margins = slice_mut("margins", &mut margins)?;
        let weights = slice_mut("weights", &mut weights)?;
        let rates = slice_mut("rates", &mut rates)?;
        let out = slice_mut("clock", &mut clock)?;
        let mut clock = read_clock(out)?;
        let result = with_store!(&mut self.0, |store| py.detach(|| {
            store.passive(&tuples, &plan, &mut clock, margins, weights, rates)
        }));
        out.copy_from_slice(&<[f64; 4]>::from(clock));
        result.map_err(failure)
    }

    fn counts(
        &self,
        py: Python<'_>,
        clock: PyReadonlyArray1<'_, f64>,
        mut out: PyReadwriteArray1<'_, i64>,
    ) -> PyResult<()> {
        let clock = read_clock(slice("clock", &clock)?)?;
        let out = slice_mut("out", &mut out)?;
        with_store!(&self.0, |store| py.detach(|| store.counts(&clock, out))).map_err(failure)
    }

    fn export(
        &self,
        py: Python<'_>,
        clock: PyReadonlyArray1<'_, f64>,
        indptr: PyReadonlyArray1<'_, i64>,
        mut indices: PyReadwriteArray1<'_, i32>,
        mut values: NewValues<'_>,
        current: bool,
    ) -> PyResult<()> {
        let clock = read_clock(slice("clock", &clock)?)?;
        let indptr = slice("indptr", &indptr)?;
        let indices = slice_mut("indices", &mut indices)?;
        match (&self.0, &mut values) {
            (Either::Single(store), NewValues::Single(values)) => {
                let values = slice_mut("values", values)?;
                py.detach(|| store.export(&clock, indptr, indices, values, current))
            }
            (Either::Double(store), NewValues::Double(values)) => {
                let values = slice_mut("values", values)?;
                py.detach(|| store.export(&clock, indptr, indices, values, current))
            }
            _ => return Err(PyTypeError::new_err("values must have the dtype of W.")),
        }
        .map_err(failure)
    }

    fn state(
        &self,
        mut row_state: PyReadwriteArray2<'_, f64>,
        mut group_state: PyReadwriteArray2<'_, f64>,
    ) -> PyResult<()> {
        let row_state = slice_mut("row_state", &mut row_state)?;
        let group_state = slice_mut("group_state", &mut group_state)?;
        with_store!(&self.0, |store| store.state(row_state, group_state)).map_err(failure)
    }

    fn memory(&self) -> usize {
        with_store!(&self.0, |store| store.memory())
    }
}

fn read_clock(clock: &[f64]) -> PyResult<Clock> {
    match <[f64; 4]>::try_from(clock) {
        Ok(clock) => Ok(Clock::from(clock)),
        Err(_) => Err(PyValueError::new_err("clock must have 4 elements.")),
    }
}

#[pyfunction]
pub(crate) fn bilinear(
    py: Python<'_>,
    n_columns: usize,
    indptr: PyReadonlyArray1<'_, i64>,
    indices: PyReadonlyArray1<'_, i32>,
    values: Values<'_>,
    row_state: PyReadonlyArray2<'_, f64>,
    groups: PyReadonlyArray1<'_, i64>,
    group_weights: PyReadonlyArray1<'_, f64>,
    group_state: PyReadonlyArray2<'_, f64>,
) -> PyResult<BilinearStore> {
    let indptr = slice("indptr", &indptr)?;
    let indices = slice("indices", &indices)?;
    let row_state = slice("row_state", &row_state)?;
    let groups = slice("groups", &groups)?;
    let group_weights = slice("group_weights", &group_weights)?;
    let group_state = slice("group_state", &group_state)?;
    macro_rules! store {
        ($values:expr) => {{
            let values = slice("values", $values)?;
            py.detach(|| {
                Store::new(
                    n_columns,
                    indptr,
                    indices,
                    values,
                    row_state,
                    groups,
                    group_weights,
                    group_state,
                )
            })
            .map_err(failure)?
        }};
    }
    Ok(BilinearStore(match &values {
        Values::Single(values) => Either::Single(store!(values)),
        Values::Double(values) => Either::Double(store!(values)),
    }))
}

#[pyfunction]
pub(crate) fn draw_tuples(
    py: Python<'_>,
    seed: u64,
    first: u64,
    lists: Lists<'_>,
    positives: usize,
    mut out: PyReadwriteArray2<'_, i64>,
) -> PyResult<()> {
    let lists = match_lists(&lists)?;
    let width = out.shape()[1];
    let out = slice_mut("out", &mut out)?;
    py.detach(|| draws::draw_tuples(seed, first, &lists, positives, width, out))
        .map_err(invalid)
}

#[pyfunction]
pub(crate) fn bilinear_scores(
    py: Python<'_>,
    queries: Csr<'_>,
    weights: Csr<'_>,
    documents: Csr<'_>,
    n_columns: usize,
    mut out: PyReadwriteArray2<'_, f64>,
    threads: usize,
) -> PyResult<()> {
    let (n_queries, n_rows) = (n_rows(&queries), n_rows(&weights));
    let (queries, weights) = (&*lines(&queries)?, &*lines(&weights)?);
    let out = slice_mut("out", &mut out)?;
    let crew = crew(threads)?;
    with_compressed!(&documents.0, &documents.1, &documents.2, |p, i, x| {
        let documents = compressed(p, i, x, n_columns)?;
        py.detach(|| {
            loops::bilinear_scores(queries, n_queries, weights, n_rows, documents, out, &crew)
        })
        .map_err(failure)
    })
}
