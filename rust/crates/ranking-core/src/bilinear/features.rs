//! Sparse features of queries and documents, and triplets of them.

use crate::bilinear::buckets::key;
use crate::constants::LANES;
use crate::error::reserve;
use crate::matrix::{Compressed, Feature, Index, short};

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
    pub(super) fn sort(&mut self) {
        self.keys.clear();
        reserve(&mut self.keys, self.columns.len());
        let numbered = self.columns.iter().zip(0..);
        let keys = numbered.map(|(&at, number)| (key(at), number));
        self.keys.extend(keys);
        self.keys.sort_unstable();
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

    fn start(&mut self, capacity: usize) {
        self.columns.clear();
        self.values.clear();
        reserve(&mut self.columns, capacity);
        reserve(&mut self.values, capacity.saturating_add(LANES));
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
    pub(super) fn difference(&mut self, one: &Self, other: &Self) {
        self.start(one.columns.len() + other.columns.len());
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
    }
}

/// A sparse matrix by row, for any types of its numbers.
pub trait SparseRows: Sync {
    /// Load a row.
    fn load(&self, line: usize, out: &mut SparseVector);
}

impl<I: Index, F: Feature> SparseRows for Compressed<'_, I, F> {
    fn load(&self, line: usize, out: &mut SparseVector) {
        let (indices, data) = self.line(line);
        out.start(data.len());
        for (index, value) in indices.iter().zip(data) {
            out.push(short(index.position()), value.widen());
        }
        out.finish();
    }
}

/// Triplets: a query, a positive and one or more negatives.
#[derive(Clone, Copy)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct Triplets<'a> {
    pub queries: &'a dyn SparseRows,
    pub documents: &'a dyn SparseRows,
    /// Numbers of queries and documents, `width` for each triplet.
    pub ids: &'a [i64],
    pub width: usize,
    /// Whether documents are on the left of W.
    pub transposed: bool,
}

impl<'a> Triplets<'a> {
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
    pub(super) fn sort(&self, query: &mut SparseVector, document: &mut SparseVector) {
        if self.transposed {
            query.sort();
        } else {
            document.sort();
        }
    }
}
