//! Calls of a plugin's C functions by their addresses: all that is unsafe in this crate.
//!
//! A number cannot be distinguished from the address of a function. `ranking/native.py` has read it
//! from a capsule of the right name and version, or got it from the author of the plugin, and keeps
//! its owner alive while a loop runs. `ranking/native.h` demands that a function is pure, may be
//! called from any thread, reads and writes only the n numbers that it gets and its context, and
//! does not unwind. So a call is sound if the author follows the header, as for any compiled
//! extension that Python imports.

use std::ffi::c_void;
use std::mem::transmute;

use pyo3::prelude::*;
use ranking_core::native as core;
use ranking_core::pairwise::{NativeSlope, PairwiseForm, PairwiseSlope};
use ranking_core::{Error, Stored, ThreadTeam};

use crate::arguments::{
    Array, ArrayMut, Either, RowMajor, Table, TableMut, Threads, argument, family, python_error,
    with_either,
};

argument! {
    NativeCall { function: usize, context: usize } => (usize, usize) = Ok((function, context))
}

argument! {
    GradedScores<'py> {
        group_ptr: Array<'py, i64>,
        scores: Array<'py, f64>,
        grades: Array<'py, f64>,
    } => core::GradedScores<'a> =
        core::GradedScores::new(group_ptr, scores, grades).map_err(python_error)
}

type Pairwise = extern "C" fn(f64, *const c_void) -> f64;
type ListwiseValue = unsafe extern "C" fn(*const f64, *const f64, i64, *const c_void) -> f64;
type ListwiseSlopes = unsafe extern "C" fn(*const f64, *const f64, i64, *mut f64, *const c_void);
type Penalty = unsafe extern "C" fn(*const f64, i64, *const c_void) -> f64;
type Prox = unsafe extern "C" fn(*mut f64, i64, f64, *const c_void);
type Maximize = unsafe extern "C" fn(*mut f64, i64, *const c_void);

/// The number in `PairwiseForm` of a loss that is a function of a plugin.
const NATIVE: i64 = 3;

/// The loss of a form; `call` is its slope if it is native.
pub(crate) fn form(form: i64, call: (usize, usize)) -> Result<PairwiseForm, Error> {
    if form == NATIVE {
        return Ok(PairwiseForm::Native(slope(call)?));
    }
    PairwiseForm::try_from(form)
}

/// A function of a margin.
pub(crate) fn slope((address, context): (usize, usize)) -> Result<NativeSlope, Error> {
    // SAFETY: the address is that of a function of this type, see above, and not null.
    let function = unsafe { transmute::<usize, Pairwise>(not_null(address)?) };
    Ok(NativeSlope::new(function, context))
}

fn not_null(address: usize) -> Result<usize, Error> {
    if address == 0 {
        return Err(Error::Argument("there is no function at address 0".into()));
    }
    Ok(address)
}

fn length<T>(numbers: &[T]) -> i64 {
    i64::try_from(numbers.len()).expect("no slice is longer than i64 can tell")
}

/// A matrix that is read, or written, in either precision.
type Matrix<'py> = Either<Table<'py, f32>, Table<'py, f64>>;
type MatrixMut<'py> = Either<TableMut<'py, f32>, TableMut<'py, f64>>;

fn change_rows<T: Stored>(
    function: impl Fn(&mut [f64]) + Sync + Send,
    matrix: RowMajor<&mut [T]>,
    width: usize,
    team: &ThreadTeam,
) -> Result<(), Error> {
    core::rows(function, matrix.data, matrix.width, width, team)
}

family! {
    native;

    fn native_pairwise(
        call: NativeCall,
        margins: Array<'_, f64>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) -> () {
        let function = slope(call)?;
        core::pairwise(|margin| function.slope(margin), margins, out, &threads)
    }

    fn native_listwise_values(
        call: NativeCall,
        lists: GradedScores<'_>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) -> () {
        let (address, context) = call;
        // SAFETY: as in `slope`.
        let function = unsafe { transmute::<usize, ListwiseValue>(not_null(address)?) };
        let value = |scores: &[f64], grades: &[f64]| {
            let (n, context) = (length(scores), context as *const c_void);
            // SAFETY: both slices have n numbers, see `GradedScores`.
            unsafe { function(scores.as_ptr(), grades.as_ptr(), n, context) }
        };
        core::listwise_values(value, lists, out, &threads)
    }

    fn native_listwise_slopes(
        call: NativeCall,
        lists: GradedScores<'_>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) -> () {
        let (address, context) = call;
        // SAFETY: as in `slope`.
        let function = unsafe { transmute::<usize, ListwiseSlopes>(not_null(address)?) };
        let slopes = |scores: &[f64], grades: &[f64], out: &mut [f64]| {
            let (n, context) = (length(scores), context as *const c_void);
            let (scores, grades) = (scores.as_ptr(), grades.as_ptr());
            // SAFETY: the three slices have n numbers, see `GradedScores` and `listwise_slopes`.
            unsafe { function(scores, grades, n, out.as_mut_ptr(), context) }
        };
        core::listwise_slopes(slopes, lists, out, &threads)
    }

    fn native_penalties(
        call: NativeCall,
        matrix: Matrix<'_>,
        out: ArrayMut<'_, f64>,
        threads: Threads,
    ) -> () {
        let (address, context) = call;
        // SAFETY: as in `slope`.
        let function = unsafe { transmute::<usize, Penalty>(not_null(address)?) };
        let penalty = |row: &[f64]| {
            // SAFETY: the row has so many numbers.
            unsafe { function(row.as_ptr(), length(row), context as *const c_void) }
        };
        with_either!(matrix, |matrix| {
            core::penalties(penalty, matrix.data, matrix.width, out, &threads)
        })
    }

    fn native_prox(
        call: NativeCall,
        matrix: MatrixMut<'_>,
        width: usize,
        step: f64,
        threads: Threads,
    ) -> () {
        let (address, context) = call;
        // SAFETY: as in `slope`.
        let function = unsafe { transmute::<usize, Prox>(not_null(address)?) };
        let prox = |row: &mut [f64]| {
            let (n, context) = (length(row), context as *const c_void);
            // SAFETY: the row has n numbers.
            unsafe { function(row.as_mut_ptr(), n, step, context) }
        };
        with_either!(matrix, |matrix| change_rows(prox, matrix, width, &threads))
    }

    fn native_maximize(
        call: NativeCall,
        matrix: MatrixMut<'_>,
        width: usize,
        threads: Threads,
    ) -> () {
        let (address, context) = call;
        // SAFETY: as in `slope`.
        let function = unsafe { transmute::<usize, Maximize>(not_null(address)?) };
        let maximize = |row: &mut [f64]| {
            // SAFETY: the row has so many numbers.
            unsafe { function(row.as_mut_ptr(), length(row), context as *const c_void) }
        };
        with_either!(matrix, |matrix| change_rows(maximize, matrix, width, &threads))
    }
}
