//! Queries or documents by their features, and the vectors that are composed of them.

use crate::bilinear::Stored;
use crate::features::Compressed;
use crate::lanes::{Feature, Index, Machine};
use crate::wide::{Eight, Wide};

/// Queries or documents by sparse features of any type, or by none: then each is its own.
#[derive(Clone, Copy, Debug)]
pub enum Objects<'a> {
    /// So many, each with a row of its own.
    Own(usize),
    /// int32, float32
    ShortSingle(Compressed<'a, i32, f32>),
    /// int32, float64
    ShortDouble(Compressed<'a, i32, f64>),
    /// int64, float32
    LongSingle(Compressed<'a, i64, f32>),
    /// int64, float64
    LongDouble(Compressed<'a, i64, f64>),
}

macro_rules! from_compressed {
    ($($index:ty, $feature:ty => $kind:ident;)*) => {
        $(impl<'a> From<Compressed<'a, $index, $feature>> for Objects<'a> {
            fn from(features: Compressed<'a, $index, $feature>) -> Self {
                Self::$kind(features)
            }
        })*
    };
}

from_compressed! {
    i32, f32 => ShortSingle;
    i32, f64 => ShortDouble;
    i64, f32 => LongSingle;
    i64, f64 => LongDouble;
}

/// Run `$sparse` with `$x` bound to the features of whichever types they are, or `$own`.
macro_rules! with_features {
    ($objects:expr, $n:ident => $own:expr, |$x:ident| $sparse:expr) => {
        match $objects {
            Objects::Own($n) => $own,
            Objects::ShortSingle($x) => $sparse,
            Objects::ShortDouble($x) => $sparse,
            Objects::LongSingle($x) => $sparse,
            Objects::LongDouble($x) => $sparse,
        }
    };
}

impl Objects<'_> {
    /// How many there are.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        with_features!(self, n => *n, |x| x.lines())
    }

    /// How many features they have.
    pub(super) fn features(&self) -> usize {
        with_features!(self, n => *n, |x| x.length())
    }

    #[inline(always)]
    pub(super) fn are_composed(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    /// How many features an object has that are stored.
    #[inline(always)]
    pub(super) fn count(&self, object: usize) -> usize {
        with_features!(self, _n => 1, |x| x.line(object).0.len())
    }

    /// Do something with every feature and value of an object, in stored order.
    #[inline(always)]
    pub(super) fn for_entries(&self, object: usize, mut work: impl FnMut(usize, f32)) {
        with_features!(self, _n => work(object, 1.0), |x| for (at, value) in entries(x, object) {
            work(at, value);
        });
    }

    /// The sum of value * number over an object's features; without features, its own number.
    #[inline(always)]
    pub(super) fn sum(&self, object: usize, numbers: &[f32]) -> f32 {
        with_features!(self, _n => numbers[object], |x| {
            entries(x, object).fold(0.0, |total, (at, value)| total + value * numbers[at])
        })
    }

    /// Fill `out` with the sum of the rows of an object's features; without features do nothing.
    #[inline(always)]
    pub(super) fn compose<M: Machine>(
        &self,
        machine: M,
        object: usize,
        matrix: &[Eight],
        out: &mut [Eight],
    ) {
        with_features!(self, _n => (), |x| compose(machine, &entries(x, object), matrix, out));
    }
}

/// The features of an object and their values, which are rounded to singles.
#[inline(always)]
fn entries<I: Index, F: Feature>(
    features: &Compressed<'_, I, F>,
    object: usize,
) -> impl Iterator<Item = (usize, f32)> + Clone {
    let (indices, data) = features.line(object);
    let positions = indices.iter().map(|index| index.position());
    positions.zip(data.iter().map(|value| f32::narrow(value.widen())))
}

/// Fill `out` with the sum, from 0, of value * row over features and values.
#[inline(always)]
pub(super) fn compose<M: Machine>(
    machine: M,
    entries: &(impl Iterator<Item = (usize, f32)> + Clone),
    matrix: &[Eight],
    out: &mut [Eight],
) {
    let chunks = out.len();
    let (wide, rest) = out.as_chunks_mut::<8>();
    let first = 8 * wide.len();
    for (at, out) in (0..).step_by(8).zip(wide) {
        *out = sums(machine, entries.clone(), matrix, at, chunks);
    }
    let (wide, rest) = rest.as_chunks_mut::<4>();
    for out in wide.iter_mut() {
        *out = sums(machine, entries.clone(), matrix, first, chunks);
    }
    for (at, out) in (first + 4 * wide.len()..).zip(rest) {
        [*out] = sums(machine, entries.clone(), matrix, at, chunks);
    }
}

/// N registers of a sum, from the one at `first`: they stay registers.
#[inline(always)]
fn sums<M: Machine, const N: usize>(
    machine: M,
    entries: impl Iterator<Item = (usize, f32)>,
    matrix: &[Eight],
    first: usize,
    chunks: usize,
) -> [Eight; N] {
    let mut sums = [Wide::splat(machine, 0.0); N];
    for (at, value) in entries {
        let value = Wide::splat(machine, value);
        let row = &matrix[at * chunks + first..][..N];
        for (sum, row) in sums.iter_mut().zip(row) {
            *sum += value * Wide::new(machine, *row);
        }
    }
    sums.map(Wide::array)
}
