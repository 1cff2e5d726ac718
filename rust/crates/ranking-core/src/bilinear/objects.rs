//! Queries and documents by their sparse features, and the tuples of them.

use crate::bilinear::Failure;
use crate::bilinear::buckets::key;
use crate::contract::LANES;
use crate::invalid::{Invalid, check_length};
use crate::lanes::{Feature, Index};

/// A sparse vector: rising positions, and values, padded with zeros to whole lanes.
#[derive(Debug, Default)]
pub struct Vector {
    at: Vec<u32>,
    values: Vec<f64>,
    /// Key and number of every entry, by key; see [`Buckets`](super::buckets::Buckets).
    keys: Vec<(u32, u32)>,
}

impl Vector {
    pub(super) fn at(&self) -> &[u32] {
        &self.at
    }

    /// The values, with the padding.
    pub(super) fn values(&self) -> &[f64] {
        &self.values
    }

    /// Key and number of every entry, by key, if `sort` was called.
    pub(super) fn keys(&self) -> &[(u32, u32)] {
        &self.keys
    }

    /// Sort the keys, for a vector that is to stand on the right of W.
    pub(super) fn sort(&mut self) -> Result<(), Failure> {
        self.keys.clear();
        self.keys.try_reserve(self.at.len())?;
        let numbered = self.at.iter().zip(0..);
        self.keys
            .extend(numbered.map(|(&at, number)| (key(at), number)));
        self.keys.sort_unstable();
        Ok(())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, f64)> {
        self.at.iter().copied().zip(self.values.iter().copied())
    }

    /// The sum of the squares, in order; the padding adds nothing.
    pub(super) fn squares(&self) -> f64 {
        let mut total = 0.0;
        for (_, value) in self.entries() {
            total += value * value;
        }
        total
    }

    fn start(&mut self, room: usize) -> Result<(), Failure> {
        self.at.clear();
        self.values.clear();
        self.at.try_reserve(room)?;
        self.values.try_reserve(room.saturating_add(LANES))?;
        Ok(())
    }

    fn push(&mut self, at: u32, value: f64) {
        self.at.push(at);
        self.values.push(value);
    }

    fn finish(&mut self) {
        let padded = self.values.len().next_multiple_of(LANES);
        self.values.resize(padded, 0.0);
    }

    /// Become one - other, without entries that cancel.
    pub(super) fn difference(&mut self, one: &Self, other: &Self) -> Result<(), Failure> {
        self.start(one.at.len() + other.at.len())?;
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

/// A sparse matrix by row, whatever its numbers are stored as.
pub trait Lines: Sync {
    /// Load a row, whose positions must lie below `length`.
    ///
    /// # Errors
    /// When there is no such row, or it is not valid, or there is no memory.
    fn load(&self, line: i64, length: usize, out: &mut Vector) -> Result<(), Failure>;
}

/// A matrix of which a row is checked when it is loaded: a call may touch few of very many.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a, I, F> {
    indptr: &'a [I],
    indices: &'a [I],
    data: &'a [F],
}

impl<'a, I: Index, F: Feature> Rows<'a, I, F> {
    /// Take the arrays of a CSR matrix.
    ///
    /// # Errors
    /// When there are not as many indices as values.
    pub fn new(indptr: &'a [I], indices: &'a [I], data: &'a [F]) -> Result<Self, Invalid> {
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

impl<I: Index, F: Feature> Lines for Rows<'_, I, F> {
    fn load(&self, line: i64, length: usize, out: &mut Vector) -> Result<(), Failure> {
        let Some((indices, data)) = self.line(line.position()) else {
            return Err(Invalid::new(format!("there is no row {line}.")).into());
        };
        out.start(data.len())?;
        let mut most = 0;
        for (index, value) in indices.iter().zip(data) {
            let at = index.position();
            most = most.max(at);
            out.push(u32::try_from(at).unwrap_or(u32::MAX), value.widen());
        }
        if most >= length && !data.is_empty() {
            return Err(Invalid::new(format!(
                "indices must lie below {length}, and not be negative."
            ))
            .into());
        }
        out.finish();
        Ok(())
    }
}

/// Tuples: a query, a positive and one or more negatives.
#[derive(Clone, Copy)]
pub struct Tuples<'a> {
    pub(super) queries: &'a dyn Lines,
    pub(super) documents: &'a dyn Lines,
    ids: &'a [i64],
    width: usize,
    pub(super) transposed: bool,
}

impl<'a> Tuples<'a> {
    /// Take tuples of `width` numbers; with `transposed`, documents stand to the left of W.
    ///
    /// # Errors
    /// When the numbers are not whole tuples.
    pub fn new(
        queries: &'a dyn Lines,
        documents: &'a dyn Lines,
        ids: &'a [i64],
        width: usize,
        transposed: bool,
    ) -> Result<Self, Invalid> {
        if width < 3 || !ids.len().is_multiple_of(width) {
            return Err(Invalid::new(
                "a tuple is a query, a positive and at least one negative.",
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

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len() / self.width
    }

    /// Are there none?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(super) fn get(&self, step: usize) -> &'a [i64] {
        &self.ids[step * self.width..][..self.width]
    }

    pub(super) fn part(&self, steps: std::ops::Range<usize>) -> Self {
        Self {
            ids: &self.ids[steps.start * self.width..steps.end * self.width],
            ..*self
        }
    }

    /// What stands on the left and on the right of W.
    pub(super) fn sides<'v>(
        &self,
        query: &'v Vector,
        document: &'v Vector,
    ) -> (&'v Vector, &'v Vector) {
        if self.transposed {
            (document, query)
        } else {
            (query, document)
        }
    }

    /// Make the one that stands on the right ready for it.
    pub(super) fn sort(&self, query: &mut Vector, document: &mut Vector) -> Result<(), Failure> {
        if self.transposed {
            query.sort()
        } else {
            document.sort()
        }
    }
}
