//! Arguments of kernel functions: arrays and the structs of the contract, without copies.
//!
//! A struct of the contract is read by attribute. `Argument::borrow` turns each argument into what
//! the core takes, while attached to the interpreter; [`family!`] does the rest.

use numpy::ndarray::{Dimension, Ix1, Ix2};
use numpy::{Element, PyReadonlyArray, PyReadonlyArray2, PyReadwriteArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use ranking_core::bilinear::{CsrRows, SparseRows};
use ranking_core::{Dense, Error, Feature, ThreadTeam};

/// Largest number of threads, to protect the system from a typing error.
const MAX_THREADS: usize = 1024;

/// An argument that the core takes in another form.
pub(crate) trait Argument {
    type Borrowed<'a>
    where
        Self: 'a;
    fn borrow(&mut self) -> PyResult<Self::Borrowed<'_>>;
}

/// Define a family as a submodule: for each function, borrow the arguments, release the GIL, run
/// the body and convert its error.
macro_rules! family {
    (
        $family:ident $(, also $($function:ident)+)?;
        $(fn $name:ident($($argument:ident: $type:ty),* $(,)?) -> $output:ty $body:block)*
    ) => {
        #[pyo3::pymodule(submodule, gil_used = false)]
        pub(crate) mod $family {
            use super::*;

            $($(
                #[pymodule_export]
                use super::$function;
            )+)?
            $(
                #[pyfunction]
                #[allow(clippy::too_many_arguments, reason = "8 of the contract and `py`")]
                fn $name(py: Python<'_>, $(mut $argument: $type),*) -> PyResult<$output> {
                    $(let $argument = $crate::arguments::Argument::borrow(&mut $argument)?;)*
                    py.detach(|| $body).map_err($crate::arguments::python_error)
                }
            )*
        }
    };
}

/// Define a class: methods as the functions of [`family!`].
macro_rules! methods {
    (
        $class:ident;
        $(fn $name:ident([$($receiver:tt)+], $($argument:ident: $type:ty),* $(,)?) -> $output:ty
            $body:block)*
    ) => {
        #[pymethods]
        #[allow(clippy::too_many_arguments, reason = "8 of the contract, `self` and `py`")]
        impl $class {
            $(
                fn $name(
                    $($receiver)+,
                    py: Python<'_>,
                    $(mut $argument: $type),*
                ) -> PyResult<$output> {
                    $(let $argument = $crate::arguments::Argument::borrow(&mut $argument)?;)*
                    py.detach(|| $body).map_err($crate::arguments::python_error)
                }
            )*
        }
    };
}

/// Define a struct of the contract, and how its fields become a value of the core.
macro_rules! argument {
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
                $value
            }
        }
    };
}

pub(crate) use {argument, family, methods};

pub(crate) fn python_error(error: Error) -> PyErr {
    match error {
        Error::Argument(message) => PyValueError::new_err(message),
        Error::Memory => PyMemoryError::new_err(error.to_string()),
    }
}

macro_rules! scalars {
    ($($type:ty)*) => {
        $(impl Argument for $type {
            type Borrowed<'a> = Self;

            fn borrow(&mut self) -> PyResult<Self> {
                Ok(*self)
            }
        })*
    };
}

scalars!(bool f64 i64 u32 u64 usize);

impl<A: Argument> Argument for Option<A> {
    type Borrowed<'a>
        = Option<A::Borrowed<'a>>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Self::Borrowed<'_>> {
        self.as_mut().map(A::borrow).transpose()
    }
}

/// A number of threads; its team is created while attached to the interpreter, see
/// [`ThreadTeam::new`].
#[derive(FromPyObject)]
pub(crate) struct Threads(usize);

impl Argument for Threads {
    type Borrowed<'a> = ThreadTeam;

    fn borrow(&mut self) -> PyResult<ThreadTeam> {
        if !(1..=MAX_THREADS).contains(&self.0) {
            return Err(PyValueError::new_err(format!(
                "threads is {}, expected 1..={MAX_THREADS}",
                self.0
            )));
        }
        ThreadTeam::new(self.0).map_err(|error| PyRuntimeError::new_err(error.to_string()))
    }
}

fn layout_error(order: &str) -> PyErr {
    PyValueError::new_err(format!("an array is not aligned and {order}-contiguous"))
}

/// The elements of a matrix by row, and the length of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowMajor<D> {
    pub(crate) data: D,
    pub(crate) width: usize,
}

/// Define C-contiguous arrays, which are borrowed as slices, and matrices.
macro_rules! views {
    ($($view:ident, $array:ident, $table:ident: $numpy:ident, $as_slice:ident, $slice:ty;)*) => {
        $(
            pub(crate) struct $view<'py, T: Element, D: Dimension>($numpy<'py, T, D>);
            pub(crate) type $array<'py, T> = $view<'py, T, Ix1>;
            pub(crate) type $table<'py, T> = $view<'py, T, Ix2>;

            impl<'a, 'py, T: Element + 'a, D: Dimension + 'a> FromPyObject<'a, 'py>
                for $view<'py, T, D>
            {
                type Error = PyErr;

                fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
                    let array: $numpy<'py, T, D> = object.extract()?;
                    if array.is_c_contiguous() && array.as_slice().is_ok() {
                        return Ok(Self(array));
                    }
                    Err(layout_error("C"))
                }
            }

            impl<T: Element> Argument for $array<'_, T> {
                type Borrowed<'a>
                    = $slice
                where
                    Self: 'a;

                fn borrow<'a>(&'a mut self) -> PyResult<$slice> {
                    self.0.$as_slice().map_err(|_| layout_error("C"))
                }
            }

            impl<T: Element> Argument for $table<'_, T> {
                type Borrowed<'a>
                    = RowMajor<$slice>
                where
                    Self: 'a;

                fn borrow<'a>(&'a mut self) -> PyResult<RowMajor<$slice>> {
                    let width = self.0.shape()[1];
                    let data = self.0.$as_slice().map_err(|_| layout_error("C"))?;
                    Ok(RowMajor { data, width })
                }
            }
        )*
    };
}

views! {
    View, Array, Table: PyReadonlyArray, as_slice, &'a [T];
    ViewMut, ArrayMut, TableMut: PyReadwriteArray, as_slice_mut, &'a mut [T];
}

/// Either of two types of an argument.
#[derive(FromPyObject)]
pub(crate) enum Either<A, B> {
    #[pyo3(transparent)]
    One(A),
    #[pyo3(transparent)]
    Other(B),
}

impl<A: Argument, B: Argument> Argument for Either<A, B> {
    type Borrowed<'a>
        = Either<A::Borrowed<'a>, B::Borrowed<'a>>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Self::Borrowed<'_>> {
        Ok(match self {
            Self::One(one) => Either::One(one.borrow()?),
            Self::Other(other) => Either::Other(other.borrow()?),
        })
    }
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

/// float32 or float64.
pub(crate) type Values<'py> = Either<Array<'py, f32>, Array<'py, f64>>;
pub(crate) type ValuesMut<'py> = Either<ArrayMut<'py, f32>, ArrayMut<'py, f64>>;

type Slices<'a, I> = (&'a [I], &'a [I]);

/// Indices of a compressed matrix, int32 or int64.
#[derive(FromPyObject)]
pub(crate) struct Indices<'py, I: Element> {
    indptr: Array<'py, I>,
    indices: Array<'py, I>,
}

impl<I: Element> Argument for Indices<'_, I> {
    type Borrowed<'a>
        = Slices<'a, I>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Slices<'_, I>> {
        Ok((self.indptr.borrow()?, self.indices.borrow()?))
    }
}

/// A compressed matrix (CSR or CSC) of any types.
pub(crate) struct Csr<'py> {
    indices: Either<Indices<'py, i32>, Indices<'py, i64>>,
    data: Values<'py>,
}

/// The arrays of a compressed matrix.
#[derive(Clone, Copy)]
pub(crate) enum Sparse<'a> {
    ShortSingle(Slices<'a, i32>, &'a [f32]),
    ShortDouble(Slices<'a, i32>, &'a [f64]),
    LongSingle(Slices<'a, i64>, &'a [f32]),
    LongDouble(Slices<'a, i64>, &'a [f64]),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Csr<'py> {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        Ok(Self {
            indices: object.extract()?,
            data: object.getattr("data")?.extract()?,
        })
    }
}

impl Argument for Csr<'_> {
    type Borrowed<'a>
        = Sparse<'a>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Sparse<'_>> {
        Ok(match (self.indices.borrow()?, self.data.borrow()?) {
            (Either::One(i), Either::One(x)) => Sparse::ShortSingle(i, x),
            (Either::One(i), Either::Other(x)) => Sparse::ShortDouble(i, x),
            (Either::Other(i), Either::One(x)) => Sparse::LongSingle(i, x),
            (Either::Other(i), Either::Other(x)) => Sparse::LongDouble(i, x),
        })
    }
}

/// Run `$body` with `$x` bound to the compressed matrix of whichever types it has, whose lines
/// have `$length` elements.
macro_rules! with_sparse {
    ($sparse:expr, $length:expr, |$x:ident| $body:expr) => {{
        use $crate::arguments::Sparse;
        macro_rules! arm {
            ($slices:expr, $data:expr) => {{
                let (indptr, indices) = $slices;
                ranking_core::Compressed::new(indptr, indices, $data, $length).and_then(|$x| $body)
            }};
        }
        match $sparse {
            Sparse::ShortSingle(slices, data) => arm!(slices, data),
            Sparse::ShortDouble(slices, data) => arm!(slices, data),
            Sparse::LongSingle(slices, data) => arm!(slices, data),
            Sparse::LongDouble(slices, data) => arm!(slices, data),
        }
    }};
}

impl<'a> Sparse<'a> {
    /// The number of rows.
    pub(crate) fn n_rows(&self) -> usize {
        let pointers = match self {
            Self::ShortSingle(slices, _) | Self::ShortDouble(slices, _) => slices.0.len(),
            Self::LongSingle(slices, _) | Self::LongDouble(slices, _) => slices.0.len(),
        };
        pointers.saturating_sub(1)
    }

    /// Rows that are checked when they are loaded.
    pub(crate) fn rows(self) -> Result<Box<dyn SparseRows + Send + 'a>, Error> {
        Ok(match self {
            Self::ShortSingle(i, x) => Box::new(CsrRows::new(i.0, i.1, x)?),
            Self::ShortDouble(i, x) => Box::new(CsrRows::new(i.0, i.1, x)?),
            Self::LongSingle(i, x) => Box::new(CsrRows::new(i.0, i.1, x)?),
            Self::LongDouble(i, x) => Box::new(CsrRows::new(i.0, i.1, x)?),
        })
    }
}

/// A dense matrix by row (C-contiguous) or by column (Fortran-contiguous).
pub(crate) struct DenseView<'py, T: Element, const BY_COLUMN: bool>(PyReadonlyArray2<'py, T>);

impl<'a, 'py, T: Element + 'a, const BY_COLUMN: bool> FromPyObject<'a, 'py>
    for DenseView<'py, T, BY_COLUMN>
{
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let array: PyReadonlyArray2<'py, T> = object.extract()?;
        let (fits, order) = if BY_COLUMN {
            (array.is_fortran_contiguous(), "Fortran")
        } else {
            (array.is_c_contiguous(), "C")
        };
        if fits && array.as_slice().is_ok() {
            return Ok(Self(array));
        }
        Err(layout_error(order))
    }
}

impl<T: Element + Feature, const BY_COLUMN: bool> Argument for DenseView<'_, T, BY_COLUMN> {
    type Borrowed<'a>
        = Dense<'a, T>
    where
        Self: 'a;

    fn borrow(&mut self) -> PyResult<Dense<'_, T>> {
        let (mut lines, mut length) = (self.0.shape()[0], self.0.shape()[1]);
        if BY_COLUMN {
            std::mem::swap(&mut lines, &mut length);
        }
        let data = self.0.as_slice().map_err(|_| layout_error("C"))?;
        Dense::new(data, lines, length).map_err(python_error)
    }
}

type DenseFeatures<'py, const BY_COLUMN: bool> =
    Either<DenseView<'py, f32, BY_COLUMN>, DenseView<'py, f64, BY_COLUMN>>;

/// Features by row: C-contiguous, or CSR.
pub(crate) type Rows<'py> = Either<DenseFeatures<'py, false>, Csr<'py>>;
/// Features by column: Fortran-contiguous, or CSC.
pub(crate) type Columns<'py> = Either<DenseFeatures<'py, true>, Csr<'py>>;

/// Run `$body` with `$x` bound to the `Matrix` of whichever types the features have; lines of
/// sparse ones have `$length` elements.
macro_rules! with_matrix {
    ($features:expr, $length:expr, |$x:ident| $body:expr) => {
        match $features {
            $crate::arguments::Either::One(dense) => {
                $crate::arguments::with_either!(dense, |dense| {
                    let $x = ranking_core::Matrix::<i32, _>::Dense(dense);
                    $body
                })
            }
            $crate::arguments::Either::Other(sparse) => {
                $crate::arguments::with_sparse!(sparse, $length, |sparse| {
                    let $x = ranking_core::Matrix::Sparse(sparse);
                    $body
                })
            }
        }
    };
}

pub(crate) use {with_either, with_matrix, with_sparse};
