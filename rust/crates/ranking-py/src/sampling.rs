//! Where triplets are sampled from.

use pyo3::prelude::*;
use ranking_core::sampling as core;

use crate::arguments::{Array, argument};

argument! {
    Positives<'py> {
        queries: Array<'py, i64>,
        query_sums: Array<'py, i64>,
        list_of: Array<'py, i64>,
        member_ptr: Array<'py, i64>,
        members: Array<'py, i64>,
        member_sums: Array<'py, i64>,
        own_document: Array<'py, i64>,
        member_weights: Array<'py, f32>,
        n_documents: u32,
        any_negative: bool,
    }
}

argument! {
    Sampling<'py> { seed: u64, first: u64, positives: Positives<'py> }
    => core::Sampling<'a> = core::Sampling::new(seed, first, positives)
}
