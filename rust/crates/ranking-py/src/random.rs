//! The exponential; random numbers and sums are inherited.

use pyo3::prelude::*;

use crate::arguments::{Array, ArrayMut, family};

family! {
    random;

    fn exp(x: Array<'_, f64>, out: ArrayMut<'_, f64>) {
        ranking_core::exp::exp(x, out);
    }
}
