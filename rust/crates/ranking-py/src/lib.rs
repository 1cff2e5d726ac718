//! The loops of `ranking_core` as the module `ranking_rust._core`.
//!
//! Every function borrows its arrays, checks them by putting them into the core's types, lets go
//! of the interpreter and calls the core. What does not fit raises `ValueError` or `TypeError`.

#![expect(
    clippy::needless_pass_by_value,
    reason = "PyO3 hands arguments over by value"
)]

mod alternating;
mod arguments;
mod bilinear;
mod factored;
mod native;

use pyo3::prelude::*;

#[pymodule(gil_used = false)]
mod _core {
    use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray1, PyReadwriteArray2};
    use pyo3::exceptions::PyValueError;
    use pyo3::prelude::*;
    use pyo3::types::PyDict;
    use ranking_core::domination::{self, Descent, Lists, Padding};
    use ranking_core::metrics::{self, RankedLists};
    use ranking_core::{contract as numbers, letor, rng, scores};

    use crate::arguments::{
        Indices, Matrix, NewValues, Values, by_column, by_row, compressed, crew, invalid, slice,
        slice_mut, with_compressed, with_precision,
    };

    #[pymodule_export]
    use crate::alternating::{half_step, half_step_sparse};
    #[pymodule_export]
    use crate::bilinear::{BilinearStore, bilinear, bilinear_scores, draw_tuples};
    #[pymodule_export]
    use crate::factored::{
        factored_scores, factored_search, factored_steps, factored_top, factored_update,
        factored_vectors,
    };
    #[pymodule_export]
    use crate::native::{
        native_list_slopes, native_list_values, native_maximize, native_pairs, native_penalties,
        native_prox,
    };

    #[pyfunction]
    fn contract(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
        let said = PyDict::new(py);
        said.set_item("abi", numbers::ABI)?;
        said.set_item("lanes", numbers::LANES)?;
        said.set_item("block", numbers::BLOCK)?;
        said.set_item("rng", numbers::RNG)?;
        said.set_item("exp", numbers::EXP)?;
        said.set_item("threads", "rayon")?;
        said.set_item("instructions", ranking_core::instructions())?;
        Ok(said)
    }

    #[pyfunction]
    fn random_bits(
        py: Python<'_>,
        seed: u64,
        first: u64,
        mut out: PyReadwriteArray1<'_, u64>,
    ) -> PyResult<()> {
        let out = slice_mut("out", &mut out)?;
        py.detach(|| rng::fill(seed, first, out, |bits| bits));
        Ok(())
    }

    #[pyfunction]
    fn random_uniform(
        py: Python<'_>,
        seed: u64,
        first: u64,
        mut out: PyReadwriteArray1<'_, f64>,
    ) -> PyResult<()> {
        let out = slice_mut("out", &mut out)?;
        py.detach(|| rng::fill(seed, first, out, rng::uniform));
        Ok(())
    }

    #[pyfunction]
    fn random_below(
        py: Python<'_>,
        seed: u64,
        first: u64,
        bound: u32,
        mut out: PyReadwriteArray1<'_, i64>,
    ) -> PyResult<()> {
        if bound == 0 {
            return Err(PyValueError::new_err("bound must be 1 or more."));
        }
        let out = slice_mut("out", &mut out)?;
        py.detach(|| rng::fill(seed, first, out, |bits| i64::from(rng::below(bits, bound))));
        Ok(())
    }

    #[pyfunction]
    fn exp(
        py: Python<'_>,
        x: PyReadonlyArray1<'_, f64>,
        mut out: PyReadwriteArray1<'_, f64>,
    ) -> PyResult<()> {
        let (x, out) = (slice("x", &x)?, slice_mut("out", &mut out)?);
        py.detach(|| ranking_core::exp(x, out)).map_err(invalid)
    }

    #[pyfunction]
    fn dot(
        py: Python<'_>,
        a: PyReadonlyArray1<'_, f64>,
        b: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<f64> {
        let (a, b) = (slice("a", &a)?, slice("b", &b)?);
        py.detach(|| ranking_core::dot(a, b)).map_err(invalid)
    }

    #[pyfunction]
    fn block_sum(py: Python<'_>, a: PyReadonlyArray1<'_, f64>, threads: usize) -> PyResult<f64> {
        let a = slice("a", &a)?;
        let crew = crew(threads)?;
        Ok(py.detach(|| ranking_core::block_sum(a, &crew)))
    }

    #[pyfunction]
    fn scores_dense(
        py: Python<'_>,
        x: Matrix<'_>,
        weights: PyReadonlyArray1<'_, f64>,
        mut out: PyReadwriteArray1<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let (weights, out) = (slice("weights", &weights)?, slice_mut("out", &mut out)?);
        let crew = crew(threads)?;
        with_precision!(Matrix, &x, |x| {
            let x = by_row(x)?;
            py.detach(|| scores::dense(x, weights, out, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn scores_csr(
        py: Python<'_>,
        indptr: Indices<'_>,
        indices: Indices<'_>,
        data: Values<'_>,
        weights: PyReadonlyArray1<'_, f64>,
        mut out: PyReadwriteArray1<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let (weights, out) = (slice("weights", &weights)?, slice_mut("out", &mut out)?);
        let crew = crew(threads)?;
        with_compressed!(&indptr, &indices, &data, |indptr, indices, data| {
            let x = compressed(indptr, indices, data, weights.len())?;
            py.detach(|| scores::csr(x, weights, out, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn parse_letor(
        py: Python<'_>,
        text: PyReadonlyArray1<'_, u8>,
        chunk_ptr: PyReadonlyArray1<'_, i64>,
        row_ptr: PyReadonlyArray1<'_, i64>,
        mut grades: PyReadwriteArray1<'_, f64>,
        mut places: PyReadwriteArray2<'_, i64>,
        mut indices: PyReadwriteArray1<'_, i32>,
        mut values: NewValues<'_>,
        mut counts: PyReadwriteArray2<'_, i64>,
        threads: usize,
    ) -> PyResult<()> {
        let text = slice("text", &text)?;
        let chunk_ptr = slice("chunk_ptr", &chunk_ptr)?;
        let row_ptr = slice("row_ptr", &row_ptr)?;
        let grades = slice_mut("grades", &mut grades)?;
        let places = slice_mut("places", &mut places)?;
        let indices = slice_mut("indices", &mut indices)?;
        let counts = slice_mut("counts", &mut counts)?;
        let crew = crew(threads)?;
        with_precision!(NewValues, &mut values, |values| {
            let out = letor::Output {
                grades,
                places,
                indices,
                values: slice_mut("values", values)?,
                counts,
            };
            py.detach(|| letor::parse(text, chunk_ptr, row_ptr, out, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn domination_value(
        py: Python<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        block_ptr: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        margins: PyReadonlyArray1<'_, f64>,
        threads: usize,
    ) -> PyResult<f64> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::Any)?;
        let (blocks, margins) = (slice("block_ptr", &block_ptr)?, slice("margins", &margins)?);
        let crew = crew(threads)?;
        py.detach(|| domination::value(&lists, blocks, margins, &crew))
            .map_err(invalid)
    }

    #[pyfunction]
    fn domination_bounds_dense(
        py: Python<'_>,
        x: Matrix<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        mut out: PyReadwriteArray2<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::Lanes)?;
        let out = slice_mut("out", &mut out)?;
        let crew = crew(threads)?;
        with_precision!(Matrix, &x, |x| {
            let x = by_column(x)?;
            py.detach(|| domination::bounds_dense(x, &lists, out, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn domination_bounds_csc(
        py: Python<'_>,
        indptr: Indices<'_>,
        indices: Indices<'_>,
        data: Values<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        mut out: PyReadwriteArray2<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::None)?;
        let out = slice_mut("out", &mut out)?;
        let crew = crew(threads)?;
        with_compressed!(&indptr, &indices, &data, |indptr, indices, data| {
            let x = compressed(indptr, indices, data, lists.n_rows())?;
            py.detach(|| domination::bounds_csc(x, &lists, out, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn domination_slopes_dense(
        py: Python<'_>,
        x: Matrix<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        block_ptr: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        margins: PyReadonlyArray1<'_, f64>,
        columns: PyReadonlyArray1<'_, i64>,
        mut out: PyReadwriteArray2<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::Lanes)?;
        let (blocks, margins) = (slice("block_ptr", &block_ptr)?, slice("margins", &margins)?);
        let (columns, out) = (slice("columns", &columns)?, slice_mut("out", &mut out)?);
        let crew = crew(threads)?;
        with_precision!(Matrix, &x, |x| {
            let x = by_column(x)?;
            py.detach(|| domination::slopes_dense(x, &lists, blocks, margins, columns, out, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn domination_slopes_csc(
        py: Python<'_>,
        indptr: Indices<'_>,
        indices: Indices<'_>,
        data: Values<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        margins: PyReadonlyArray1<'_, f64>,
        columns: PyReadonlyArray1<'_, i64>,
        mut out: PyReadwriteArray2<'_, f64>,
    ) -> PyResult<()> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::None)?;
        let (margins, columns) = (slice("margins", &margins)?, slice("columns", &columns)?);
        let out = slice_mut("out", &mut out)?;
        with_compressed!(&indptr, &indices, &data, |indptr, indices, data| {
            let x = compressed(indptr, indices, data, lists.n_rows())?;
            py.detach(|| domination::slopes_csc(x, &lists, margins, columns, out))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn domination_sweep_dense(
        py: Python<'_>,
        x: Matrix<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        block_ptr: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        mut margins: PyReadwriteArray1<'_, f64>,
        mut weights: PyReadwriteArray1<'_, f64>,
        mut radius: PyReadwriteArray1<'_, f64>,
        bounds: PyReadonlyArray2<'_, f64>,
        columns: PyReadonlyArray1<'_, i64>,
        l1: f64,
        l2: f64,
        newton: bool,
        threads: usize,
    ) -> PyResult<()> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::Lanes)?;
        let blocks = slice("block_ptr", &block_ptr)?;
        let margins = slice_mut("margins", &mut margins)?;
        let mut descent = Descent::new(
            slice_mut("weights", &mut weights)?,
            slice_mut("radius", &mut radius)?,
            slice("bounds", &bounds)?,
            slice("columns", &columns)?,
            l1,
            l2,
            newton,
        )
        .map_err(invalid)?;
        let crew = crew(threads)?;
        with_precision!(Matrix, &x, |x| {
            let x = by_column(x)?;
            py.detach(|| domination::sweep_dense(x, &lists, blocks, margins, &mut descent, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn domination_sweep_csc(
        py: Python<'_>,
        indptr: Indices<'_>,
        indices: Indices<'_>,
        data: Values<'_>,
        list_ptr: PyReadonlyArray1<'_, i64>,
        layer_ptr: PyReadonlyArray1<'_, i64>,
        layer_size: PyReadonlyArray1<'_, i64>,
        omega: PyReadonlyArray1<'_, f64>,
        mut margins: PyReadwriteArray1<'_, f64>,
        mut weights: PyReadwriteArray1<'_, f64>,
        mut radius: PyReadwriteArray1<'_, f64>,
        bounds: PyReadonlyArray2<'_, f64>,
        columns: PyReadonlyArray1<'_, i64>,
        l1: f64,
        l2: f64,
        newton: bool,
    ) -> PyResult<()> {
        let lists = lists(&list_ptr, &layer_ptr, &layer_size, &omega, Padding::None)?;
        let margins = slice_mut("margins", &mut margins)?;
        let mut descent = Descent::new(
            slice_mut("weights", &mut weights)?,
            slice_mut("radius", &mut radius)?,
            slice("bounds", &bounds)?,
            slice("columns", &columns)?,
            l1,
            l2,
            newton,
        )
        .map_err(invalid)?;
        with_compressed!(&indptr, &indices, &data, |indptr, indices, data| {
            let x = compressed(indptr, indices, data, lists.n_rows())?;
            py.detach(|| domination::sweep_csc(x, &lists, margins, &mut descent))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn rank_lists(
        py: Python<'_>,
        group_ptr: PyReadonlyArray1<'_, i64>,
        scores: Values<'_>,
        mut order: PyReadwriteArray1<'_, i64>,
        mut tied: PyReadwriteArray1<'_, u8>,
        threads: usize,
    ) -> PyResult<()> {
        let group_ptr = slice("group_ptr", &group_ptr)?;
        let (order, tied) = (
            slice_mut("order", &mut order)?,
            slice_mut("tied", &mut tied)?,
        );
        let crew = crew(threads)?;
        with_precision!(Values, &scores, |scores| {
            let scores = slice("scores", scores)?;
            py.detach(|| metrics::rank_lists(group_ptr, scores, order, tied, &crew))
                .map_err(invalid)
        })
    }

    #[pyfunction]
    fn ranked_metrics(
        py: Python<'_>,
        group_ptr: PyReadonlyArray1<'_, i64>,
        grades: PyReadonlyArray1<'_, f64>,
        order: PyReadonlyArray1<'_, i64>,
        tied: PyReadonlyArray1<'_, u8>,
        unfound_ptr: PyReadonlyArray1<'_, i64>,
        unfound_grades: PyReadonlyArray1<'_, f64>,
        gains: PyReadonlyArray2<'_, f64>,
        unfound_gains: PyReadonlyArray2<'_, f64>,
        discounts: PyReadonlyArray2<'_, f64>,
        measures: PyReadonlyArray2<'_, i64>,
        mut out: PyReadwriteArray2<'_, f64>,
        threads: usize,
    ) -> PyResult<()> {
        let lists = RankedLists::new(
            slice("group_ptr", &group_ptr)?,
            slice("grades", &grades)?,
            slice("order", &order)?,
            slice("tied", &tied)?,
            slice("unfound_ptr", &unfound_ptr)?,
            slice("unfound_grades", &unfound_grades)?,
            by_row(&gains)?,
            by_row(&unfound_gains)?,
            by_row(&discounts)?,
        )
        .map_err(invalid)?;
        let measures = slice("measures", &measures)?;
        let out = slice_mut("out", &mut out)?;
        let crew = crew(threads)?;
        py.detach(|| metrics::ranked_metrics(&lists, measures, out, &crew))
            .map_err(invalid)
    }

    fn lists<'a>(
        list_ptr: &'a PyReadonlyArray1<'_, i64>,
        layer_ptr: &'a PyReadonlyArray1<'_, i64>,
        layer_size: &'a PyReadonlyArray1<'_, i64>,
        omega: &'a PyReadonlyArray1<'_, f64>,
        padding: Padding,
    ) -> PyResult<Lists<'a>> {
        Lists::new(
            slice("list_ptr", list_ptr)?,
            slice("layer_ptr", layer_ptr)?,
            slice("layer_size", layer_size)?,
            slice("omega", omega)?,
            padding,
        )
        .map_err(invalid)
    }
}
