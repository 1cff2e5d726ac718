//! Arguments of kernel functions: arrays and the structs of the contract, without copies.
//!
//! A struct of the contract is read by attribute. `Argument::borrow` turns each argument into what
//! the core takes, while attached to the interpreter; [`family!`] does the rest. Python has checked
//! dtypes, layouts and sizes.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use numpy::{
    Element, PyReadonlyArray2, PyReadonlyArrayDyn, PyReadwriteArray2, PyReadwriteArrayDyn,
    PyUntypedArrayMethods,
};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use ranking_core::bilinear::SparseRows;
use ranking_core::{Compressed, Dense, OutOfMemory, Sparse, ThreadTeam, with_sparse};

/// An argument that the core takes in another form.
pub(crate) trait Argument {
    type Borrowed<'a>
    where
        Self: 'a;
    fn borrow(&mut self) -> PyResult<Self::Borrowed<'_>>;
}

/// Release the GIL and run a loop; raise `MemoryError` if it had none.
pub(crate) fn detached<R: Send>(py: Python<'_>, work: impl FnOnce() -> R + Send) -> PyResult<R> {
    let result = py.detach(|| catch_unwind(AssertUnwindSafe(work)));
    result.map_err(|payload: Box<dyn Any + Send>| {
        if payload.is::<OutOfMemory>() {
            return PyMemoryError::new_err("out of memory");
        }
        // Any other panic becomes an exception of its own in PyO3.
        resume_unwind(payload)
    })
}

/// Define a family as a submodule: each function borrows its arguments, releases the GIL and runs
/// its body.
macro_rules! family {
    (
        $family:ident;
        $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block)*
    ) => {
        #[pyo3::pymodule(submodule, gil_used = false)]
        pub(crate) mod $family {
            use super::*;

            $(
                #[pyfunction]
                #[allow(clippy::too_many_arguments, reason = "8 of the contract and `py`")]
                fn $name(py: Python<'_>, $(mut $argument: $type),*)
                    -> PyResult<$crate::arguments::output!($($output)?)>
                {
                    $(let $argument = $crate::arguments::Argument::borrow(&mut $argument)?;)*
                    $crate::arguments::detached(py, || $body)
                }
            )*
        }
    };
}

/// Define a class: methods as the functions of [`family!`].
macro_rules! methods {
    (
        $class:ident;
        $(fn $name:ident([$($receiver:tt)+], $($argument:ident: $type:ty),* $(,)?)
            $(-> $output:ty)? $body:block)*
    ) => {
        #[pymethods]
        #[allow(clippy::too_many_arguments, reason = "8 of the contract, `self` and `py`")]
        impl $class {
            $(
                fn $name($($receiver)+, py: Python<'_>, $(mut $argument: $type),*)
                    -> PyResult<$crate::arguments::output!($($output)?)>
                {
                    $(let $argument = $crate::arguments::Argument::borrow(&mut $argument)?;)*
                    $crate::arguments::detached(py, || $body)
                }
            )*
        }
    };
}

macro_rules! output {
    () => {
        ()
    };
    ($type:ty) => {
        $type
    };
}

/// Define a struct of the contract. It is borrowed as the struct of that name in `core`, which has
/// the same fields, or else as the type and value that follow.
macro_rules! argument {
    ($name:ident<$life:lifetime> { $($field:ident: $type:ty),* $(,)? }) => {
        $crate::arguments::argument! {
            $name<$life> { $($field: $type),* } => core::$name<'a> = core::$name { $($field),* }
        }
    };
    ($name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $crate::arguments::argument! {
            $name { $($field: $type),* } => core::$name = core::$name { $($field),* }
        }
    };
    (
        $name:ident $(<$life:lifetime>)? { $($field:ident: $type:ty),* $(,)? }
        => $core:ty = $value:expr
    ) => {
        #[derive(FromPyObject)]
        pub(crate) struct $name $(<$life>)? {
            $($field: $type),*
        }

        impl $(<$life>)? $crate::arguments::Argument for $name $(<$life>)? {
            type Borrowed<'a>
                = $core
            where
                Self: 'a;

            fn borrow(&mut self) -> PyResult<Self::Borrowed<'_>> {
                $(let $field = $crate::arguments::Argument::borrow(&mut self.$field)?;)*
                Ok($value)
            }
        }
    };
}

pub(crate) use {argument, family, methods, output};

/// Define how types are borrowed: as `$type`, by `$value` of `$self`.
macro_rules! borrowed {
    ($(<$($parameter:ident $(: $bound:path)?),*> $from:ty => $to:ty = |$self:ident| $value:expr;)*) => {
        $(impl<$($parameter $(: $bound)?),*> Argument for $from {
            type Borrowed<'a>
                = $to
            where
                Self: 'a;

            #[allow(clippy::needless_lifetimes, reason = "some of the types name it")]
            fn borrow<'a>(&'a mut self) -> PyResult<$to> {
                let $self = self;
                Ok($value)
            }
        })*
    };
}

/// An array of any number of dimensions, whose elements are borrowed in order.
pub(crate) type Array<'py, T> = PyReadonlyArrayDyn<'py, T>;
pub(crate) type ArrayMut<'py, T> = PyReadwriteArrayDyn<'py, T>;
/// A matrix by row, of which the width is borrowed, too.
pub(crate) type Table<'py, T> = PyReadonlyArray2<'py, T>;
pub(crate) type TableMut<'py, T> = PyReadwriteArray2<'py, T>;

/// The elements of a matrix by row, and the length of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowMajor<D> {
    pub(crate) data: D,
    pub(crate) width: usize,
}

borrowed! {
    <> bool => bool = |it| *it;
    <> f64 => f64 = |it| *it;
    <> i64 => i64 = |it| *it;
    <> u32 => u32 = |it| *it;
    <> u64 => u64 = |it| *it;
    <> usize => usize = |it| *it;
    <A: Argument> Option<A> => Option<A::Borrowed<'a>> = |it| it.as_mut().map(A::borrow).transpose()?;
    <T: Element> Array<'_, T> => &'a [T] = |it| it.as_slice()?;
    <T: Element> ArrayMut<'_, T> => &'a mut [T] = |it| it.as_slice_mut()?;
    <T: Element> Table<'_, T> => RowMajor<&'a [T]> = |it| RowMajor {
        width: it.shape()[1],
        data: it.as_slice()?,
    };
    <T: Element> TableMut<'_, T> => RowMajor<&'a mut [T]> = |it| RowMajor {
        width: it.shape()[1],
        data: it.as_slice_mut()?,
    };
    <T: Element> ByColumn<'_, T> => Dense<'a, T> = |it| Dense {
        lines: it.0.shape()[1],
        length: it.0.shape()[0],
        data: it.0.as_slice()?,
    };
    <A: Argument, B: Argument> Either<A, B> => Either<A::Borrowed<'a>, B::Borrowed<'a>> =
        |it| match it {
            Either::One(one) => Either::One(one.borrow()?),
            Either::Other(other) => Either::Other(other.borrow()?),
        };
}

/// A number of threads; its team is created while attached to the interpreter, see
/// [`ThreadTeam::new`].
#[derive(FromPyObject)]
pub(crate) struct Threads(usize);

impl Argument for Threads {
    type Borrowed<'a> = ThreadTeam;

    fn borrow(&mut self) -> PyResult<ThreadTeam> {
        ThreadTeam::new(self.0).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

/// Either of two types of an argument.
#[derive(FromPyObject)]
pub(crate) enum Either<A, B> {
    #[pyo3(transparent)]
    One(A),
    #[pyo3(transparent)]
    Other(B),
}

/// Run `$body` with `$x` bound to whichever it is.
macro_rules! with_either {
    ($either:expr, |$x:ident| $body:expr) => {
        match $either {
            $crate::arguments::Either::One($x) => $body,
            $crate::arguments::Either::Other($x) => $body,
        }
    };
}

/// int32 or int64.
type Integers<'py> = Either<Array<'py, i32>, Array<'py, i64>>;
/// float32 or float64.
pub(crate) type Values<'py> = Either<Array<'py, f32>, Array<'py, f64>>;
pub(crate) type ValuesMut<'py> = Either<ArrayMut<'py, f32>, ArrayMut<'py, f64>>;

/// A compressed matrix (CSR or CSC) of any types.
#[derive(FromPyObject)]
pub(crate) struct Csr<'py> {
    indptr: Integers<'py>,
    indices: Integers<'py>,
    data: Values<'py>,
}

impl Argument for Csr<'_> {
    type Borrowed<'a>
        = Sparse<'a>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Sparse<'_>> {
        use Either::{One, Other};
        macro_rules! compressed {
            ($kind:ident, $indptr:ident, $indices:ident, $data:ident) => {
                Sparse::$kind(Compressed {
                    indptr: $indptr,
                    indices: $indices,
                    data: $data,
                })
            };
        }
        let arrays = (
            self.indptr.borrow()?,
            self.indices.borrow()?,
            self.data.borrow()?,
        );
        Ok(match arrays {
            (One(p), One(i), One(x)) => compressed!(ShortSingle, p, i, x),
            (One(p), One(i), Other(x)) => compressed!(ShortDouble, p, i, x),
            (Other(p), Other(i), One(x)) => compressed!(LongSingle, p, i, x),
            (Other(p), Other(i), Other(x)) => compressed!(LongDouble, p, i, x),
            _ => return Err(PyTypeError::new_err("indptr and indices have two types")),
        })
    }
}

/// The rows of a compressed matrix of whichever types.
pub(crate) fn rows<'s>(sparse: &'s Sparse<'_>) -> &'s dyn SparseRows {
    with_sparse!(sparse, |x| x)
}

/// Dense features by column (Fortran-contiguous).
#[derive(FromPyObject)]
pub(crate) struct ByColumn<'py, T: Element>(PyReadonlyArray2<'py, T>);

/// Features by column: Fortran-contiguous, or CSC.
pub(crate) type Columns<'py> = Either<Either<ByColumn<'py, f32>, ByColumn<'py, f64>>, Csr<'py>>;

/// Run `$body` with `$x` bound to the `Matrix` of whichever types the features have.
macro_rules! with_matrix {
    ($features:expr, |$x:ident| $body:expr) => {
        match $features {
            $crate::arguments::Either::One(dense) => {
                $crate::arguments::with_either!(dense, |dense| {
                    let $x = ranking_core::Matrix::<i32, _>::Dense(dense);
                    $body
                })
            }
            $crate::arguments::Either::Other(sparse) => {
                ranking_core::with_sparse!(sparse, |sparse| {
                    let $x = ranking_core::Matrix::Sparse(sparse);
                    $body
                })
            }
        }
    };
}

pub(crate) use {with_either, with_matrix};
