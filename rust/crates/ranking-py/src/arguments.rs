//! Arrays of Python, as the core takes them. Nothing is copied.

use numpy::{
    Element, PyReadonlyArray, PyReadonlyArray1, PyReadonlyArray2, PyReadwriteArray,
    PyReadwriteArray1, PyUntypedArrayMethods, ndarray::Dimension,
};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use ranking_core::bilinear::{Failure, Lines, Rows};
use ranking_core::draws::{MatchFields, MatchLists};
use ranking_core::{Compressed, Crew, Dense, Feature, Index, Invalid};

/// Run `$body` with `$x` bound to the array of whichever precision came.
macro_rules! with_precision {
    ($kind:ident, $features:expr, |$x:ident| $body:expr) => {
        match $features {
            $kind::Single($x) => $body,
            $kind::Double($x) => $body,
        }
    };
}

/// Run `$body` with the three arrays of a compressed matrix, of whichever types came.
macro_rules! with_compressed {
    ($indptr:expr, $indices:expr, $data:expr, |$p:ident, $i:ident, $x:ident| $body:expr) => {
        match ($indptr, $indices) {
            (Indices::Short($p), Indices::Short($i)) => with_precision!(Values, $data, |$x| $body),
            (Indices::Long($p), Indices::Long($i)) => with_precision!(Values, $data, |$x| $body),
            _ => Err($crate::arguments::mixed_indices()),
        }
    };
}

/// As many as the kernel's door lets in. A slip must not start more than the system can bear.
const MOST_THREADS: usize = 1024;

pub(crate) fn invalid(error: Invalid) -> PyErr {
    PyValueError::new_err(error.to_string())
}

pub(crate) fn failure(failure: Failure) -> PyErr {
    match failure {
        Failure::Invalid(error) => invalid(error),
        Failure::Memory => PyMemoryError::new_err(failure.to_string()),
    }
}

/// The elements of a C-contiguous array.
pub(crate) fn slice<'a, T: Element, D: Dimension>(
    name: &str,
    array: &'a PyReadonlyArray<'_, T, D>,
) -> PyResult<&'a [T]> {
    if !array.is_c_contiguous() {
        return Err(contiguity(name, "C"));
    }
    array.as_slice().map_err(|_| alignment(name))
}

/// The elements of a C-contiguous array that is written to.
pub(crate) fn slice_mut<'a, T: Element, D: Dimension>(
    name: &str,
    array: &'a mut PyReadwriteArray<'_, T, D>,
) -> PyResult<&'a mut [T]> {
    if !array.is_c_contiguous() {
        return Err(contiguity(name, "C"));
    }
    array.as_slice_mut().map_err(|_| alignment(name))
}

/// A matrix by row: C-contiguous.
pub(crate) fn by_row<'a, F: Element + Feature>(
    x: &'a PyReadonlyArray2<'_, F>,
) -> PyResult<Dense<'a, F>> {
    let (rows, columns) = (x.shape()[0], x.shape()[1]);
    Dense::new(slice("x", x)?, rows, columns).map_err(invalid)
}

/// A matrix by column: Fortran-contiguous.
pub(crate) fn by_column<'a, F: Element + Feature>(
    x: &'a PyReadonlyArray2<'_, F>,
) -> PyResult<Dense<'a, F>> {
    if !x.is_fortran_contiguous() {
        return Err(contiguity("x", "Fortran"));
    }
    let (rows, columns) = (x.shape()[0], x.shape()[1]);
    let data = x.as_slice().map_err(|_| alignment("x"))?;
    Dense::new(data, columns, rows).map_err(invalid)
}

/// A compressed matrix whose lines have `length` elements, zeros included.
pub(crate) fn compressed<'a, I: Element + Index, F: Element + Feature>(
    indptr: &'a PyReadonlyArray1<'_, I>,
    indices: &'a PyReadonlyArray1<'_, I>,
    data: &'a PyReadonlyArray1<'_, F>,
    length: usize,
) -> PyResult<Compressed<'a, I, F>> {
    Compressed::new(
        slice("indptr", indptr)?,
        slice("indices", indices)?,
        slice("data", data)?,
        length,
    )
    .map_err(invalid)
}

/// The threads for a loop. To be called while attached to the interpreter: see [`Crew::new`].
pub(crate) fn crew(threads: usize) -> PyResult<Crew> {
    if !(1..=MOST_THREADS).contains(&threads) {
        return Err(PyValueError::new_err(format!(
            "threads is {threads}; it must lie in 1..{MOST_THREADS}."
        )));
    }
    Crew::new(threads).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// Indices must be of one type.
pub(crate) fn mixed_indices() -> PyErr {
    PyTypeError::new_err("indptr and indices must have the same dtype.")
}

fn contiguity(name: &str, order: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is not {order}-contiguous."))
}

fn alignment(name: &str) -> PyErr {
    PyValueError::new_err(format!("{name} is not aligned in memory."))
}

/// A dense matrix in either precision.
#[derive(FromPyObject)]
pub(crate) enum Matrix<'py> {
    #[pyo3(transparent, annotation = "float32 matrix")]
    Single(PyReadonlyArray2<'py, f32>),
    #[pyo3(transparent, annotation = "float64 matrix")]
    Double(PyReadonlyArray2<'py, f64>),
}

/// The values of a compressed matrix in either precision.
#[derive(FromPyObject)]
pub(crate) enum Values<'py> {
    #[pyo3(transparent, annotation = "float32 array")]
    Single(PyReadonlyArray1<'py, f32>),
    #[pyo3(transparent, annotation = "float64 array")]
    Double(PyReadonlyArray1<'py, f64>),
}

/// Values that are written, in either precision.
#[derive(FromPyObject)]
pub(crate) enum NewValues<'py> {
    #[pyo3(transparent, annotation = "float32 array")]
    Single(PyReadwriteArray1<'py, f32>),
    #[pyo3(transparent, annotation = "float64 array")]
    Double(PyReadwriteArray1<'py, f64>),
}

/// Indices of either width.
#[derive(FromPyObject)]
pub(crate) enum Indices<'py> {
    #[pyo3(transparent, annotation = "int32 array")]
    Short(PyReadonlyArray1<'py, i32>),
    #[pyo3(transparent, annotation = "int64 array")]
    Long(PyReadonlyArray1<'py, i64>),
}

/// indptr, indices and data of a CSR matrix.
pub(crate) type Csr<'py> = (Indices<'py>, Indices<'py>, Values<'py>);

/// The fields of `MatchLists`, in their order.
pub(crate) type Lists<'py> = (
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, f32>,
    u32,
    bool,
);

/// Lists that can be drawn from.
pub(crate) fn match_lists<'a>(lists: &'a Lists<'_>) -> PyResult<MatchLists<'a>> {
    let fields = MatchFields {
        queries: slice("queries", &lists.0)?,
        query_sums: slice("query_sums", &lists.1)?,
        list_of: slice("list_of", &lists.2)?,
        list_ptr: slice("list_ptr", &lists.3)?,
        members: slice("members", &lists.4)?,
        member_sums: slice("member_sums", &lists.5)?,
        itself: slice("itself", &lists.6)?,
        member_weights: slice("member_weights", &lists.7)?,
        n_documents: lists.8,
        any_other: lists.9,
    };
    MatchLists::new(fields).map_err(invalid)
}

/// A CSR matrix whose rows are checked when they are loaded.
pub(crate) fn lines<'a>(csr: &'a Csr<'_>) -> PyResult<Box<dyn Lines + 'a>> {
    with_compressed!(&csr.0, &csr.1, &csr.2, |indptr, indices, data| {
        let rows = Rows::new(
            slice("indptr", indptr)?,
            slice("indices", indices)?,
            slice("data", data)?,
        );
        Ok(Box::new(rows.map_err(invalid)?))
    })
}

/// The rows of a CSR matrix.
pub(crate) fn n_rows(csr: &Csr<'_>) -> usize {
    let pointers = match &csr.0 {
        Indices::Short(indptr) => indptr.len(),
        Indices::Long(indptr) => indptr.len(),
    };
    pointers.saturating_sub(1)
}

pub(crate) use {with_compressed, with_precision};
