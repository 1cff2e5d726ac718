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

use numpy::Element;
use pyo3::prelude::*;
use ranking_core::listwise::{ListwiseLoss as CoreListwise, NativeList};
use ranking_core::pairwise::{NativeSlope, PairwiseForm, RankWeights};

use crate::arguments::{Argument, Array, argument};

/// The function of a call, which has a type, and its context.
macro_rules! function {
    ($call:expr, $type:ty) => {{
        let (address, context) = $call;
        assert_ne!(address, 0, "there is no function at address 0");
        // SAFETY: the address is that of a function of this type, see above, and not null.
        (unsafe { transmute::<usize, $type>(address) }, context)
    }};
}

argument! {
    NativeCall { function: usize, context: usize } => (usize, usize) = (function, context)
}

/// A pairwise loss, with rank weights in either precision.
#[derive(FromPyObject)]
pub(crate) struct PairwiseLoss<'py, T: Element> {
    form: i64,
    slope: NativeCall,
    rank_weights: Array<'py, T>,
    n_documents: usize,
}

/// A pairwise loss; its form is converted by those who use it.
pub(crate) struct Loss<'a, T> {
    pub(crate) number: i64,
    slope: (usize, usize),
    pub(crate) rank_weights: RankWeights<'a, T>,
}

impl<T: Element> Argument for PairwiseLoss<'_, T> {
    type Borrowed<'a>
        = Loss<'a, T>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Loss<'_, T>> {
        Ok(Loss {
            number: self.form,
            slope: self.slope.borrow()?,
            rank_weights: RankWeights {
                weights: self.rank_weights.as_slice()?,
                n_documents: self.n_documents,
            },
        })
    }
}

impl<T> Loss<'_, T> {
    pub(crate) fn form(&self) -> PairwiseForm {
        if self.number == NATIVE {
            return PairwiseForm::Native(slope(self.slope));
        }
        PairwiseForm::from(self.number)
    }
}

type Pairwise = extern "C" fn(f64, *const c_void) -> f64;
type ListwiseValue = unsafe extern "C" fn(*const f64, *const f64, i64, *const c_void) -> f64;
type ListwiseSlopes = unsafe extern "C" fn(*const f64, *const f64, i64, *mut f64, *const c_void);
/// The number in `ListwiseForm` of a loss that is a pair of functions of a plugin.
const NATIVE_LIST: i64 = 1;

/// The functions of a listwise loss, with their contexts.
#[derive(Debug)]
struct ListFunctions {
    value: (ListwiseValue, usize),
    slopes: (ListwiseSlopes, usize),
}

impl NativeList for ListFunctions {
    fn value(&self, scores: &[f64], grades: &[f64]) -> f64 {
        let (function, context) = self.value;
        let (n, context) = (length(scores), context as *const c_void);
        assert_eq!(scores.len(), grades.len());
        // SAFETY: both slices have n numbers.
        unsafe { function(scores.as_ptr(), grades.as_ptr(), n, context) }
    }

    fn slopes(&self, scores: &[f64], grades: &[f64], out: &mut [f64]) {
        let (function, context) = self.slopes;
        let (n, context) = (length(scores), context as *const c_void);
        assert!(scores.len() == grades.len() && scores.len() == out.len());
        // SAFETY: the three slices have n numbers.
        unsafe {
            function(
                scores.as_ptr(),
                grades.as_ptr(),
                n,
                out.as_mut_ptr(),
                context,
            );
        }
    }
}

/// A listwise loss of sampled lists.
pub(crate) struct ListLoss {
    functions: Option<ListFunctions>,
    weight: f64,
    margin: f64,
}

impl ListLoss {
    pub(crate) fn form(&self) -> CoreListwise<'_> {
        let (weight, margin) = (self.weight, self.margin);
        match &self.functions {
            Some(functions) => CoreListwise::Native(functions),
            None => CoreListwise::Domination { weight, margin },
        }
    }
}

argument! {
    ListwiseLoss { form: i64, value: NativeCall, slopes: NativeCall, weight: f64, margin: f64 }
    => ListLoss = ListLoss {
        functions: (form == NATIVE_LIST).then(|| ListFunctions {
            value: function!(value, ListwiseValue),
            slopes: function!(slopes, ListwiseSlopes),
        }),
        weight,
        margin,
    }
}

/// The number in `PairwiseForm` of a loss that is a function of a plugin.
const NATIVE: i64 = 3;

/// A function of a margin.
pub(crate) fn slope(call: (usize, usize)) -> NativeSlope {
    let (function, context) = function!(call, Pairwise);
    NativeSlope::new(function, context)
}

fn length<T>(numbers: &[T]) -> i64 {
    i64::try_from(numbers.len()).expect("no slice is longer than i64 can tell")
}
