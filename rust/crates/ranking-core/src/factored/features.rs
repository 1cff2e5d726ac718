//! Features of queries or documents, and the embeddings that are composed of them.

use crate::matrix::{Compressed, Feature, Index, Sparse, Stored};
use crate::simd::{Eight, Machine, Wide};
use crate::with_sparse;

/// Sparse features, or none: then each query or document has a row of its own.
#[derive(Clone, Copy, Debug)]
pub enum Features<'a> {
    /// So many queries or documents without features.
    Own(usize),
    /// Their features, over so many.
    Sparse(Sparse<'a>, usize),
}

/// Run `$sparse` with `$x` bound to the features of whichever types they are, or `$own`.
macro_rules! with_features {
    ($features:expr, $n:ident => $own:expr, |$x:ident| $sparse:expr) => {
        match $features {
            Features::Own($n) => $own,
            Features::Sparse(sparse, _) => with_sparse!(sparse, |$x| $sparse),
        }
    };
}

impl Features<'_> {
    /// The number of queries or documents.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        with_features!(self, n => *n, |x| x.lines())
    }

    /// The number of features.
    pub(super) fn n_features(&self) -> usize {
        match self {
            Self::Own(n) | Self::Sparse(_, n) => *n,
        }
    }

    #[inline(always)]
    pub(super) fn are_sparse(&self) -> bool {
        !matches!(self, Self::Own(_))
    }

    /// The number of stored features of a query or document.
    #[inline(always)]
    pub(super) fn count(&self, entity: usize) -> usize {
        with_features!(self, _n => 1, |x| x.line(entity).0.len())
    }

    /// Do something with every feature and value of a query or document, in stored order.
    #[inline(always)]
    pub(super) fn for_entries(&self, entity: usize, mut work: impl FnMut(usize, f32)) {
        with_features!(self, _n => work(entity, 1.0), |x| for (at, value) in entries(x, entity) {
            work(at, value);
        });
    }

    /// The sum of value * number over the features of a query or document; without, its number.
    #[inline(always)]
    pub(super) fn sum(&self, entity: usize, numbers: &[f32]) -> f32 {
        with_features!(self, _n => numbers[entity], |x| {
            entries(x, entity).fold(0.0, |total, (at, value)| total + value * numbers[at])
        })
    }
}

/// Features and their values, rounded to singles.
#[inline(always)]
fn entries<I: Index, F: Feature>(
    features: &Compressed<'_, I, F>,
    entity: usize,
) -> impl Iterator<Item = (usize, f32)> + Clone {
    let (indices, data) = features.line(entity);
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

/// N registers of a sum, from the one at `first`.
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
