//! Scores of composed queries and documents, by tiles: sixteen documents by four queries.

use crate::bilinear::{Failure, filled};
use crate::contract::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::invalid::{Invalid, check_length};
use crate::lanes::Machine;
use crate::threads::Crew;
use crate::wide::{Eight, Wide, dot_wide};

/// Queries that one thread takes at a time.
const SHARE: usize = 256;
/// Fewer queries are not worth it to lay the documents out.
const FEW: usize = 6;
/// Lines of documents that are laid out at a time: 64 kB.
const HELD: usize = 1024;
/// Queries of a tile.
const TALL: usize = 4;
/// Documents of a tile.
const BROAD: usize = 2 * WIDE;

/// The same number of sixteen documents, or their scores.
type Line = [Eight; 2];

/// The partial sums of a tile. They are in memory, or those that are complete would take the
/// registers of those that are not.
type Sums = [[Line; TALL]; WIDE];

/// Documents that are laid out, sixteen a panel, and room for the sums of a tile.
struct Room {
    panels: Vec<Line>,
    biases: Vec<Line>,
    sums: Sums,
}

struct Scores<'a, 'o> {
    queries: &'a [Eight],
    documents: &'a [Eight],
    biases: &'a [f32],
    chunks: usize,
    n_documents: usize,
    out: &'o mut [f32],
}

impl Job for Scores<'_, '_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Result<(), Failure> {
        if self.out.len() < FEW * self.n_documents {
            self.one_by_one(machine);
            return Ok(());
        }
        self.by_tiles(machine)
    }
}

impl Scores<'_, '_> {
    #[inline(always)]
    fn row(rows: &[Eight], row: usize, chunks: usize) -> &[Eight] {
        &rows[row * chunks..][..chunks]
    }

    #[inline(always)]
    fn one_by_one<M: Machine>(self, machine: M) {
        let lines = self.out.chunks_exact_mut(self.n_documents);
        for (query, line) in lines.enumerate() {
            let query = Self::row(self.queries, query, self.chunks);
            for (document, out) in line.iter_mut().enumerate() {
                let row = Self::row(self.documents, document, self.chunks);
                *out = dot_wide(machine, query, row);
            }
            for (out, bias) in line.iter_mut().zip(self.biases) {
                *out += bias;
            }
        }
    }

    /// Lay documents out, as many as stay in the cache, and take four queries at a time.
    #[inline(always)]
    fn by_tiles<M: Machine>(mut self, machine: M) -> Result<(), Failure> {
        let n_queries = self.out.len() / self.n_documents;
        let length = self.chunks * WIDE;
        let held = (HELD / length.max(1)).clamp(1, self.n_documents.div_ceil(BROAD));
        let mut room = Room {
            panels: filled(held * length, Line::default())?,
            biases: filled(held, Line::default())?,
            sums: Sums::default(),
        };
        for first in (0..self.n_documents).step_by(held * BROAD) {
            let last = self.n_documents.min(first + held * BROAD);
            self.lay_out(first..last, &mut room);
            let mut query = 0;
            while query + TALL <= n_queries {
                self.strip::<M, TALL>(machine, query, first..last, &mut room);
                query += TALL;
            }
            for query in query..n_queries {
                self.strip::<M, 1>(machine, query, first..last, &mut room);
            }
        }
        Ok(())
    }

    /// Fill the panels: the numbers of partial sum 0 of all documents, then of 1, and so on.
    #[inline(always)]
    fn lay_out(&self, documents: std::ops::Range<usize>, room: &mut Room) {
        if let Some(biases) = self.biases.get(documents.clone()) {
            let places = room.biases.as_flattened_mut().as_flattened_mut();
            places[..biases.len()].copy_from_slice(biases);
        }
        for (place, document) in documents.enumerate() {
            let row = Self::row(self.documents, document, self.chunks);
            let first = place / BROAD * self.chunks * WIDE;
            for (at, numbers) in row.iter().enumerate() {
                for (sum, number) in numbers.iter().enumerate() {
                    let line = &mut room.panels[first + sum * self.chunks + at];
                    line.as_flattened_mut()[place % BROAD] = *number;
                }
            }
        }
    }

    /// The scores of R queries and the documents that are laid out.
    #[inline(always)]
    fn strip<M: Machine, const R: usize>(
        &mut self,
        machine: M,
        query: usize,
        documents: std::ops::Range<usize>,
        room: &mut Room,
    ) {
        let length = self.chunks * WIDE;
        let mut rows = [&self.queries[..0]; R];
        for (query, row) in (query..).zip(&mut rows) {
            *row = Self::row(self.queries, query, self.chunks);
        }
        for (number, first) in documents.clone().step_by(BROAD).enumerate() {
            let broad = BROAD.min(documents.end - first);
            let panel = &room.panels[number * length..][..length];
            let biases = (!self.biases.is_empty()).then_some(&room.biases[number]);
            let scores = tile(machine, rows, panel, biases, &mut room.sums);
            for (query, scores) in (query..).zip(&scores) {
                let out = &mut self.out[query * self.n_documents + first..][..broad];
                write(out, scores);
            }
        }
    }
}

#[inline(always)]
fn write(out: &mut [f32], scores: &Line) {
    let scores = scores.as_flattened();
    if let Ok(out) = <&mut [f32; BROAD]>::try_from(&mut *out) {
        out.copy_from_slice(scores);
    } else {
        out.copy_from_slice(&scores[..out.len()]);
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

/// Fill out[i, j] with queries[i] . documents[j] + biases[j]; there may be no biases.
///
/// # Errors
/// When sizes do not fit, the width is no multiple of 8, or there is no memory.
pub fn factored_scores(
    queries: &[f32],
    documents: &[f32],
    width: usize,
    biases: &[f32],
    n_documents: usize,
    out: &mut [f32],
    crew: &Crew,
) -> Result<(), Failure> {
    if !width.is_multiple_of(WIDE) {
        return Err(Invalid::new(format!("width is {width}, no multiple of {WIDE}.")).into());
    }
    if out.is_empty() {
        return Ok(());
    }
    let n_queries = out.len() / n_documents.max(1);
    check_length("out", out.len(), n_queries.saturating_mul(n_documents))?;
    check_length("queries", queries.len(), n_queries.saturating_mul(width))?;
    check_length(
        "documents",
        documents.len(),
        n_documents.saturating_mul(width),
    )?;
    if !biases.is_empty() {
        check_length("biases", biases.len(), n_documents)?;
    }
    let (queries, documents) = (queries.as_chunks().0, documents.as_chunks().0);
    let chunks = width / WIDE;
    let size = n_queries.div_ceil(crew.threads()).min(SHARE);
    let parts = out.chunks_mut(size * n_documents).enumerate();
    let mut parts: Vec<_> = parts.map(|(part, out)| (part, out, Ok(()))).collect();
    crew.enter(|| {
        crew.for_each(&mut parts, |(part, out, result)| {
            *result = dispatch(Scores {
                queries: &queries[*part * size * chunks..],
                documents,
                biases,
                chunks,
                n_documents,
                out,
            });
        });
    });
    parts.into_iter().try_for_each(|(_, _, result)| result)
}
