//! Functions of a plugin, by their addresses: all that is unsafe in this crate.
//!
//! A number cannot be told from the address of a function. The door (`ranking/native.py`) has read it
//! from a capsule of the right name and version, or had it from the author of the plugin, and keeps
//! alive what it belongs to while a loop runs. What `ranking/native.h` demands is that a function
//! is pure, may be called from any thread, reads and writes the n numbers that it is given and its
//! context, and does not unwind. So a call is sound if the author kept to the header, as for any
//! compiled extension that Python imports.

use std::ffi::c_void;
use std::mem::transmute;

use numpy::{PyReadonlyArray1, PyReadwriteArray1, PyReadwriteArray2, PyUntypedArrayMethods};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ranking_core::bilinear::Form;
use ranking_core::native::{self, Lists, Slope};

use crate::arguments::{Matrix, crew, invalid, slice, slice_mut, with_precision};

/// The addresses of a function and of its context.
pub(crate) type Call = (usize, usize);

type Pair = extern "C" fn(f64, *const c_void) -> f64;
type ListValue = unsafe extern "C" fn(*const f64, *const f64, i64, *const c_void) -> f64;
type ListSlopes = unsafe extern "C" fn(*const f64, *const f64, i64, *mut f64, *const c_void);
type Penalty = unsafe extern "C" fn(*const f64, i64, *const c_void) -> f64;
type Prox = unsafe extern "C" fn(*mut f64, i64, f64, *const c_void);
type Maximize = unsafe extern "C" fn(*mut f64, i64, *const c_void);

/// The number in `PairForm` of a loss that is not inlined.
const NATIVE: i64 = 3;

/// The loss of a form; `slope` is where it is, if it is native.
pub(crate) fn form(form: i64, slope: Call) -> PyResult<Form> {
    if form == NATIVE {
        return Ok(Form::Native(self::slope(slope)?));
    }
    Form::try_from(form).map_err(invalid)
}

fn slope((address, context): Call) -> PyResult<Slope> {
    checked(address)?;
    // SAFETY: the address is that of a function of this type, see above, and not null.
    let function = unsafe { transmute::<usize, Pair>(address) };
    Ok(Slope::new(function, context))
}

fn checked(address: usize) -> PyResult<()> {
    if address == 0 {
        return Err(PyValueError::new_err("there is no function at address 0."));
    }
    Ok(())
}

fn length<T>(numbers: &[T]) -> i64 {
    i64::try_from(numbers.len()).expect("no slice is longer than i64 can tell")
}

#[pyfunction]
pub(crate) fn native_pairs(
    py: Python<'_>,
    call: Call,
    margins: PyReadonlyArray1<'_, f64>,
    mut out: PyReadwriteArray1<'_, f64>,
    threads: usize,
) -> PyResult<()> {
    let function = slope(call)?;
    let (margins, out) = (slice("margins", &margins)?, slice_mut("out", &mut out)?);
    let crew = crew(threads)?;
    py.detach(|| native::pairs(|margin| function.at(margin), margins, out, &crew))
        .map_err(invalid)
}

#[pyfunction]
pub(crate) fn native_list_values(
    py: Python<'_>,
    call: Call,
    list_ptr: PyReadonlyArray1<'_, i64>,
    scores: PyReadonlyArray1<'_, f64>,
    grades: PyReadonlyArray1<'_, f64>,
    mut out: PyReadwriteArray1<'_, f64>,
    threads: usize,
) -> PyResult<()> {
    let (address, context) = call;
    checked(address)?;
    // SAFETY: as in `slope`.
    let function = unsafe { transmute::<usize, ListValue>(address) };
    let value = |scores: &[f64], grades: &[f64]| {
        let (n, context) = (length(scores), context as *const c_void);
        // SAFETY: both slices have n numbers, see `Lists`.
        unsafe { function(scores.as_ptr(), grades.as_ptr(), n, context) }
    };
    let (scores, grades) = (slice("scores", &scores)?, slice("grades", &grades)?);
    let lists = Lists::new(slice("list_ptr", &list_ptr)?, scores, grades).map_err(invalid)?;
    let out = slice_mut("out", &mut out)?;
    let crew = crew(threads)?;
    py.detach(|| native::list_values(value, lists, out, &crew))
        .map_err(invalid)
}

#[pyfunction]
pub(crate) fn native_list_slopes(
    py: Python<'_>,
    call: Call,
    list_ptr: PyReadonlyArray1<'_, i64>,
    scores: PyReadonlyArray1<'_, f64>,
    grades: PyReadonlyArray1<'_, f64>,
    mut out: PyReadwriteArray1<'_, f64>,
    threads: usize,
) -> PyResult<()> {
    let (address, context) = call;
    checked(address)?;
    // SAFETY: as in `slope`.
    let function = unsafe { transmute::<usize, ListSlopes>(address) };
    let slopes = |scores: &[f64], grades: &[f64], out: &mut [f64]| {
        let (n, context) = (length(scores), context as *const c_void);
        // SAFETY: the three slices have n numbers, see `Lists` and `list_slopes`.
        unsafe {
            function(
                scores.as_ptr(),
                grades.as_ptr(),
                n,
                out.as_mut_ptr(),
                context,
            )
        }
    };
    let (scores, grades) = (slice("scores", &scores)?, slice("grades", &grades)?);
    let lists = Lists::new(slice("list_ptr", &list_ptr)?, scores, grades).map_err(invalid)?;
    let out = slice_mut("out", &mut out)?;
    let crew = crew(threads)?;
    py.detach(|| native::list_slopes(slopes, lists, out, &crew))
        .map_err(invalid)
}

#[pyfunction]
pub(crate) fn native_penalties(
    py: Python<'_>,
    call: Call,
    matrix: Matrix<'_>,
    mut out: PyReadwriteArray1<'_, f64>,
    threads: usize,
) -> PyResult<()> {
    let (address, context) = call;
    checked(address)?;
    // SAFETY: as in `slope`.
    let function = unsafe { transmute::<usize, Penalty>(address) };
    let penalty = |row: &[f64]| {
        // SAFETY: the row has so many numbers.
        unsafe { function(row.as_ptr(), length(row), context as *const c_void) }
    };
    let out = slice_mut("out", &mut out)?;
    let crew = crew(threads)?;
    with_precision!(Matrix, &matrix, |matrix| {
        let (columns, numbers) = (matrix.shape()[1], slice("matrix", matrix)?);
        py.detach(|| native::penalties(penalty, numbers, columns, out, &crew))
            .map_err(invalid)
    })
}

/// A matrix that is written to, in either precision.
#[derive(FromPyObject)]
pub(crate) enum NewMatrix<'py> {
    #[pyo3(transparent, annotation = "float32 matrix")]
    Single(PyReadwriteArray2<'py, f32>),
    #[pyo3(transparent, annotation = "float64 matrix")]
    Double(PyReadwriteArray2<'py, f64>),
}

fn change_rows(
    py: Python<'_>,
    function: impl Fn(&mut [f64]) + Sync + Send,
    mut matrix: NewMatrix<'_>,
    width: usize,
    threads: usize,
) -> PyResult<()> {
    let crew = crew(threads)?;
    with_precision!(NewMatrix, &mut matrix, |matrix| {
        let columns = matrix.shape()[1];
        let numbers = slice_mut("matrix", matrix)?;
        py.detach(|| native::rows(function, numbers, columns, width, &crew))
            .map_err(invalid)
    })
}

#[pyfunction]
pub(crate) fn native_prox(
    py: Python<'_>,
    call: Call,
    matrix: NewMatrix<'_>,
    width: usize,
    step: f64,
    threads: usize,
) -> PyResult<()> {
    let (address, context) = call;
    checked(address)?;
    // SAFETY: as in `slope`.
    let function = unsafe { transmute::<usize, Prox>(address) };
    let prox = |row: &mut [f64]| {
        // SAFETY: the row has so many numbers.
        unsafe {
            function(
                row.as_mut_ptr(),
                length(row),
                step,
                context as *const c_void,
            )
        }
    };
    change_rows(py, prox, matrix, width, threads)
}

#[pyfunction]
pub(crate) fn native_maximize(
    py: Python<'_>,
    call: Call,
    matrix: NewMatrix<'_>,
    width: usize,
    threads: usize,
) -> PyResult<()> {
    let (address, context) = call;
    checked(address)?;
    // SAFETY: as in `slope`.
    let function = unsafe { transmute::<usize, Maximize>(address) };
    let maximize = |row: &mut [f64]| {
        // SAFETY: the row has so many numbers.
        unsafe { function(row.as_mut_ptr(), length(row), context as *const c_void) }
    };
    change_rows(py, maximize, matrix, width, threads)
}
