//! Lists that share their negatives.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ranking_core::shared_lists as core;

use crate::arguments::{Argument, Array, ArrayMut, Table, Threads, argument, family};

#[derive(FromPyObject)]
pub(crate) struct SharedLoss {
    form: u32,
    scale: f32,
    threshold: f32,
    weight: f32,
}

impl Argument for SharedLoss {
    type Borrowed<'a> = core::SharedLoss;

    fn borrow(&mut self) -> PyResult<core::SharedLoss> {
        use core::SharedForm::{CosineContrastive, Logistic, Softmax};
        let form = match self.form {
            0 => Softmax,
            1 => CosineContrastive,
            2 => Logistic,
            other => return Err(PyValueError::new_err(format!("no form {other}"))),
        };
        Ok(core::SharedLoss {
            form,
            scale: self.scale,
            threshold: self.threshold,
            weight: self.weight,
        })
    }
}

argument! { Exclusions<'py> { indptr: Array<'py, i64>, documents: Array<'py, i64> } }

argument! {
    SharedLists<'py> {
        queries: Table<'py, f32>,
        positives: Array<'py, f32>,
        negatives: Array<'py, f32>,
        positive_offsets: Array<'py, f32>,
        negative_offsets: Array<'py, f32>,
        weights: Array<'py, f32>,
        excluded: Exclusions<'py>,
    } => (usize, core::SharedLists<'a>) = (queries.width, core::SharedLists {
        queries: queries.data,
        positives,
        negatives,
        positive_offsets,
        negative_offsets,
        weights,
        excluded,
    })
}

argument! {
    SharedGradients<'py> {
        queries: ArrayMut<'py, f32>,
        positives: ArrayMut<'py, f32>,
        negatives: ArrayMut<'py, f32>,
        positive_slopes: ArrayMut<'py, f32>,
        negative_slopes: ArrayMut<'py, f32>,
        scores: ArrayMut<'py, f32>,
        tops: ArrayMut<'py, f32>,
        totals: ArrayMut<'py, f32>,
    }
}

family! {
    shared_lists;

    fn shared_lists(
        lists: SharedLists<'_>,
        loss: SharedLoss,
        out: SharedGradients<'_>,
        threads: Threads,
    ) {
        let (width, lists) = lists;
        core::shared_lists(lists, loss, width, out, &threads);
    }
}
