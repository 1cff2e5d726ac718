//! The smooth hinge, in a capsule that owns its struct.

use std::ffi::c_void;

use pyo3::prelude::*;
use pyo3::types::PyCapsule;

/// `ranking_pair_loss` of ranking/native.h.
#[repr(C)]
struct PairLoss {
    abi: u32,
    size: u32,
    value: extern "C" fn(f64, &f64) -> f64,
    slope: extern "C" fn(f64, &f64) -> f64,
    context: *const c_void,
}

const ABI: u32 = 1;

/// What the capsule points to, and drops: the struct, then its context.
#[repr(C)]
struct Held {
    loss: PairLoss,
    width: Box<f64>,
}

// SAFETY: the pointer is to the box beside it, which nothing changes.
unsafe impl Send for Held {}

extern "C" fn value(z: f64, width: &f64) -> f64 {
    if z >= 1.0 {
        0.0
    } else if z <= 1.0 - width {
        1.0 - z - 0.5 * width
    } else {
        (1.0 - z) * (1.0 - z) / (2.0 * width)
    }
}

extern "C" fn slope(z: f64, width: &f64) -> f64 {
    if z >= 1.0 {
        0.0
    } else if z <= 1.0 - width {
        -1.0
    } else {
        (z - 1.0) / width
    }
}

/// Return the capsule of the smooth hinge.
#[pyfunction]
fn smooth_hinge(py: Python<'_>, width: f64) -> PyResult<Bound<'_, PyCapsule>> {
    let width = Box::new(width);
    let loss = PairLoss {
        abi: ABI,
        size: size_of::<PairLoss>() as u32,
        value,
        slope,
        context: (&raw const *width).cast(),
    };
    PyCapsule::new_with_value(py, Held { loss, width }, c"ranking.pair_loss")
}

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::smooth_hinge;
}
