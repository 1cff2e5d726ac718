//! Scores by tiles of sixteen documents and four queries.

use std::ops::Range;

use crate::constants::WIDE;
use crate::error::filled;
use crate::simd::{Eight, Machine, Wide};

/// Lines of documents that are transposed at a time: 64 kB.
const HELD: usize = 1024;
/// Queries of a tile.
const TALL: usize = 4;
/// Documents of a tile.
pub(super) const BROAD: usize = 2 * WIDE;

/// The same number of sixteen documents, or their scores.
pub(super) type Line = [Eight; 2];

/// The partial sums of a tile. They are in memory, or those that are complete would take the
/// registers of those that are not.
type Sums = [[Line; TALL]; WIDE];

/// Transposed documents, sixteen per panel, and the sums of a tile.
struct Buffers {
    panels: Vec<Line>,
    biases: Vec<Line>,
    sums: Sums,
}

/// Composed embeddings of queries and documents.
#[derive(Clone, Copy, Debug)]
pub struct Embeddings<'a> {
    queries: &'a [Eight],
    documents: &'a [Eight],
    /// Empty if there are none.
    pub(super) biases: &'a [f32],
    /// Registers of an embedding.
    chunks: usize,
}

/// What is done with the scores of a query and up to sixteen documents from `first` on. Those of
/// a query come in the order of documents.
pub(super) trait Sink {
    fn take<M: Machine>(
        &mut self,
        machine: M,
        query: usize,
        documents: Range<usize>,
        scores: &Line,
    );
}

impl<'a> Embeddings<'a> {
    /// Take rows of `width` numbers, a multiple of 8, and one bias per document or none.
    #[must_use]
    pub fn new(queries: &'a [f32], documents: &'a [f32], biases: &'a [f32], width: usize) -> Self {
        Self {
            queries: queries.as_chunks().0,
            documents: documents.as_chunks().0,
            biases,
            chunks: width / WIDE,
        }
    }

    pub(super) fn n_queries(&self) -> usize {
        self.queries.len() / self.chunks
    }

    /// Queries from one on.
    pub(super) fn from(&self, query: usize) -> Self {
        Self {
            queries: &self.queries[query * self.chunks..],
            ..*self
        }
    }

    #[inline(always)]
    pub(super) fn query(&self, query: usize) -> &'a [Eight] {
        &self.queries[query * self.chunks..][..self.chunks]
    }

    #[inline(always)]
    pub(super) fn document(&self, document: usize) -> &'a [Eight] {
        &self.documents[document * self.chunks..][..self.chunks]
    }

    pub(super) fn n_documents(&self) -> usize {
        self.documents.len() / self.chunks
    }

    /// Transpose as many documents as stay in the cache, and take four queries at a time.
    #[inline(always)]
    pub(super) fn by_tiles<M: Machine>(&self, machine: M, n_queries: usize, sink: &mut impl Sink) {
        let length = self.chunks * WIDE;
        let n_documents = self.n_documents();
        let held = (HELD / length).clamp(1, n_documents.div_ceil(BROAD).max(1));
        let mut buffers = Buffers {
            panels: filled(held * length, Line::default()),
            biases: filled(held, Line::default()),
            sums: Sums::default(),
        };
        for first in (0..n_documents).step_by(held * BROAD) {
            let documents = first..n_documents.min(first + held * BROAD);
            self.transpose(documents.clone(), &mut buffers);
            let mut query = 0;
            while query + TALL <= n_queries {
                self.strip::<M, TALL>(machine, query, documents.clone(), &mut buffers, sink);
                query += TALL;
            }
            for query in query..n_queries {
                self.strip::<M, 1>(machine, query, documents.clone(), &mut buffers, sink);
            }
        }
    }

    /// Fill the panels: the numbers of partial sum 0 of all documents, then of 1, and so on.
    #[inline(always)]
    fn transpose(&self, documents: Range<usize>, buffers: &mut Buffers) {
        if let Some(biases) = self.biases.get(documents.clone()) {
            let places = buffers.biases.as_flattened_mut().as_flattened_mut();
            places[..biases.len()].copy_from_slice(biases);
        }
        for (place, document) in documents.enumerate() {
            let row = self.document(document);
            let first = place / BROAD * self.chunks * WIDE;
            for (at, numbers) in row.iter().enumerate() {
                for (sum, number) in numbers.iter().enumerate() {
                    let line = &mut buffers.panels[first + sum * self.chunks + at];
                    line.as_flattened_mut()[place % BROAD] = *number;
                }
            }
        }
    }

    /// The scores of R queries and the transposed documents.
    #[inline(always)]
    fn strip<M: Machine, const R: usize>(
        &self,
        machine: M,
        query: usize,
        documents: Range<usize>,
        buffers: &mut Buffers,
        sink: &mut impl Sink,
    ) {
        let length = self.chunks * WIDE;
        let mut rows = [&self.queries[..0]; R];
        for (query, row) in (query..).zip(&mut rows) {
            *row = self.query(query);
        }
        for (number, first) in documents.clone().step_by(BROAD).enumerate() {
            let some = first..documents.end.min(first + BROAD);
            let panel = &buffers.panels[number * length..][..length];
            let biases = (!self.biases.is_empty()).then_some(&buffers.biases[number]);
            let scores = tile(machine, rows, panel, biases, &mut buffers.sums);
            for (query, scores) in (query..).zip(&scores) {
                sink.take(machine, query, some.clone(), scores);
            }
        }
    }
}

/// The scores of R queries. A lane is a document, so that partial sums are registers.
#[inline(always)]
fn tile<M: Machine, const R: usize>(
    machine: M,
    queries: [&[Eight]; R],
    panel: &[Line],
    biases: Option<&Line>,
    sums: &mut Sums,
) -> [Line; R] {
    for (place, sums) in sums.iter_mut().enumerate() {
        partial(machine, queries, panel, place, sums);
    }
    let mut scores = [Line::default(); R];
    for (row, scores) in scores.iter_mut().enumerate() {
        for (half, score) in scores.iter_mut().enumerate() {
            let sum = |place: usize| Wide::new(machine, sums[place][row][half]);
            let low = (sum(0) + sum(4)) + (sum(2) + sum(6));
            let high = (sum(1) + sum(5)) + (sum(3) + sum(7));
            let mut total = low + high;
            if let Some(biases) = biases {
                total += Wide::new(machine, biases[half]);
            }
            *score = total.array();
        }
    }
    scores
}

/// One partial sum of each query and document.
#[inline(always)]
fn partial<M: Machine, const R: usize>(
    machine: M,
    queries: [&[Eight]; R],
    panel: &[Line],
    place: usize,
    out: &mut [Line; TALL],
) {
    let chunks = panel.len() / WIDE;
    let panel = &panel[place * chunks..][..chunks];
    let mut sums = [[Wide::splat(machine, 0.0); 2]; R];
    for (at, [left, right]) in panel.iter().enumerate() {
        let (left, right) = (Wide::new(machine, *left), Wide::new(machine, *right));
        for (sums, query) in sums.iter_mut().zip(queries) {
            let number = Wide::splat(machine, query[at][place]);
            sums[0] += number * left;
            sums[1] += number * right;
        }
    }
    for (out, sums) in out.iter_mut().zip(sums) {
        *out = [sums[0].array(), sums[1].array()];
    }
}
