//! Sparse features of queries and documents, and triplets of them.

use crate::bilinear::buckets::key;
use crate::constants::LANES;
use crate::error::{Error, check_length};
use crate::matrix::{Feature, Index};

/// A sparse vector: rising columns, and values, padded with zeros to whole lanes.
#[derive(Debug, Default)]
pub struct SparseVector {
    columns: Vec<u32>,
    values: Vec<f64>,
    /// Key and number of every entry, by key; see [`Buckets`](super::buckets::Buckets).
    keys: Vec<(u32, u32)>,
}

impl SparseVector {
    pub(super) fn columns(&self) -> &[u32] {
        &self.columns
    }

    /// The values, with the padding.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Key and number of every entry, by key, if `sort` was called.
    pub(super) fn keys(&self) -> &[(u32, u32)] {
        &self.keys
    }

    /// Sort the keys, which the vector on the right of W needs.
    pub(super) fn sort(&mut self) -> Result<(), Error> {
        self.keys.clear();
        self.keys.try_reserve(self.columns.len())?;
        let numbered = self.columns.iter().zip(0..);
        self.keys
            .extend(numbered.map(|(&at, number)| (key(at), number)));
        self.keys.sort_unstable();
        Ok(())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, f64)> {
        self.columns
            .iter()
            .copied()
            .zip(self.values.iter().copied())
    }

    /// The sum of the squares, in order; the padding adds nothing.
    pub(super) fn squares(&self) -> f64 {
        let mut total = 0.0;
        for (_, value) in self.entries() {
            total += value * value;
        }
        total
    }

    fn start(&mut self, capacity: usize) -> Result<(), Error> {
        self.columns.clear();
        self.values.clear();
        self.columns.try_reserve(capacity)?;
        self.values.try_reserve(capacity.saturating_add(LANES))?;
        Ok(())
    }

    fn push(&mut self, at: u32, value: f64) {
        self.columns.push(at);
        self.values.push(value);
    }

    fn finish(&mut self) {
        let padded = self.values.len().next_multiple_of(LANES);
        self.values.resize(padded, 0.0);
    }

    /// Assign one - other, without entries that cancel.
    pub(super) fn difference(&mut self, one: &Self, other: &Self) -> Result<(), Error> {
        self.start(one.columns.len() + other.columns.len())?;
        let (mut plus, mut minus) = (one.entries().peekable(), other.entries().peekable());
        loop {
            let (at, value) = match (plus.peek(), minus.peek()) {
                (None, None) => break,
                (Some(&entry), None) => {
                    plus.next();
                    entry
                }
                (None, Some(&(at, value))) => {
                    minus.next();
                    (at, 0.0 - value)
                }
                (Some(&a), Some(&b)) => {
                    let value = match a.0.cmp(&b.0) {
                        std::cmp::Ordering::Less => a.1,
                        std::cmp::Ordering::Equal => a.1 - b.1,
                        std::cmp::Ordering::Greater => 0.0 - b.1,
                    };
                    plus.next_if(|next| next.0 <= b.0);
                    minus.next_if(|next| next.0 <= a.0);
                    (a.0.min(b.0), value)
                }
            };
            if value != 0.0 {
                self.push(at, value);
            }
        }
        self.finish();
        Ok(())
    }
}

/// A sparse matrix by row, for any types of its numbers.
pub trait SparseRows: Sync {
    /// Load a row, whose columns must be below `length`.
    ///
    /// # Errors
    /// When there is no such row, or it is not valid, or there is no memory.
    fn load(&self, line: i64, length: usize, out: &mut SparseVector) -> Result<(), Error>;
}

/// A CSR matrix that checks a row when it is loaded: a call may read few of very many rows.
#[derive(Clone, Copy, Debug)]
pub struct CsrRows<'a, I, F> {
    indptr: &'a [I],
    indices: &'a [I],
    data: &'a [F],
}

impl<'a, I: Index, F: Feature> CsrRows<'a, I, F> {
    /// Take the arrays of a CSR matrix.
    ///
    /// # Errors
    /// When there are not as many indices as values.
    pub fn new(indptr: &'a [I], indices: &'a [I], data: &'a [F]) -> Result<Self, Error> {
        check_length("indices", indices.len(), data.len())?;
        Ok(Self {
            indptr,
            indices,
            data,
        })
    }

    fn line(&self, line: usize) -> Option<(&'a [I], &'a [F])> {
        let start = self.indptr.get(line)?.position();
        let stop = self.indptr.get(line.checked_add(1)?)?.position();
        Some((self.indices.get(start..stop)?, self.data.get(start..stop)?))
    }
}

impl<I: Index, F: Feature> SparseRows for CsrRows<'_, I, F> {
    fn load(&self, line: i64, length: usize, out: &mut SparseVector) -> Result<(), Error> {
        let Some((indices, data)) = self.line(line.position()) else {
            return Err(Error::argument(format!("there is no row {line}")));
        };
        out.start(data.len())?;
        let mut most = 0;
        for (index, value) in indices.iter().zip(data) {
            let at = index.position();
            most = most.max(at);
            out.push(u32::try_from(at).unwrap_or(u32::MAX), value.widen());
        }
        if most >= length && !data.is_empty() {
            return Err(Error::argument(format!("indices must be in 0..{length}")));
        }
        out.finish();
        Ok(())
    }
}

/// Triplets: a query, a positive and one or more negatives.
#[derive(Clone, Copy)]
pub struct Triplets<'a> {
    pub(super) queries: &'a dyn SparseRows,
    pub(super) documents: &'a dyn SparseRows,
    ids: &'a [i64],
    width: usize,
    pub(super) transposed: bool,
}

impl<'a> Triplets<'a> {
    /// Take triplets of `width` numbers; with `transposed`, documents are on the left of W.
    ///
    /// # Errors
    /// When the numbers are not whole triplets.
    pub fn new(
        queries: &'a dyn SparseRows,
        documents: &'a dyn SparseRows,
        ids: &'a [i64],
        width: usize,
        transposed: bool,
    ) -> Result<Self, Error> {
        if width < 3 || !ids.len().is_multiple_of(width) {
            return Err(Error::argument(
                "a triplet is a query, a positive and at least one negative",
            ));
        }
        Ok(Self {
            queries,
            documents,
            ids,
            width,
            transposed,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len() / self.width
    }

    pub(super) fn get(&self, step: usize) -> &'a [i64] {
        &self.ids[step * self.width..][..self.width]
    }

    pub(super) fn range(&self, steps: std::ops::Range<usize>) -> Self {
        Self {
            ids: &self.ids[steps.start * self.width..steps.end * self.width],
            ..*self
        }
    }

    /// Return the vector on the left and that on the right of W.
    pub(super) fn order<'v>(
        &self,
        query: &'v SparseVector,
        document: &'v SparseVector,
    ) -> (&'v SparseVector, &'v SparseVector) {
        if self.transposed {
            (document, query)
        } else {
            (query, document)
        }
    }

    /// Sort the keys of the vector on the right.
    pub(super) fn sort(
        &self,
        query: &mut SparseVector,
        document: &mut SparseVector,
    ) -> Result<(), Error> {
        if self.transposed {
            query.sort()
        } else {
            document.sort()
        }
    }
}
