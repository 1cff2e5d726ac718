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
/// Queries of a tile.
const TALL: usize = 4;
/// Documents of a tile.
const BROAD: usize = 2 * WIDE;

/// The same number of sixteen documents, or their scores.
type Line = [Eight; 2];

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

    #[inline(always)]
    fn by_tiles<M: Machine>(self, machine: M) -> Result<(), Failure> {
        let n_queries = self.out.len() / self.n_documents;
        let mut panel = filled(self.chunks * WIDE, Line::default())?;
        for first in (0..self.n_documents).step_by(BROAD) {
            let broad = BROAD.min(self.n_documents - first);
            self.lay_out(first..first + broad, &mut panel);
            let mut biases = [0.0; BROAD];
            let has_biases = !self.biases.is_empty();
            if has_biases {
                biases[..broad].copy_from_slice(&self.biases[first..first + broad]);
            }
            let biases = has_biases.then_some(&biases);
            let mut query = 0;
            while query + TALL <= n_queries {
                let lines: [_; TALL] =
                    std::array::from_fn(|row| Self::row(self.queries, query + row, self.chunks));
                let scores = tile(machine, lines, &panel, biases);
                for (row, scores) in (query..).zip(&scores) {
                    let out = &mut self.out[row * self.n_documents + first..][..broad];
                    write(out, scores);
                }
                query += TALL;
            }
            for row in query..n_queries {
                let line = Self::row(self.queries, row, self.chunks);
                let [scores] = tile(machine, [line], &panel, biases);
                let out = &mut self.out[row * self.n_documents + first..][..broad];
                write(out, &scores);
            }
        }
        Ok(())
    }

    /// Fill the panel: the numbers of partial sum 0 of all documents, then of 1, and so on.
    #[inline(always)]
    fn lay_out(&self, documents: std::ops::Range<usize>, panel: &mut [Line]) {
        for (place, document) in documents.enumerate() {
            let row = Self::row(self.documents, document, self.chunks);
            for (at, numbers) in row.iter().enumerate() {
                for (sum, number) in numbers.iter().enumerate() {
                    panel[sum * self.chunks + at].as_flattened_mut()[place] = *number;
                }
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

/// Registers of a tile.
type Tile<M, const R: usize> = [[Wide<M>; 2]; R];

#[inline(always)]
fn add<M: Machine, const R: usize>(a: Tile<M, R>, b: Tile<M, R>) -> Tile<M, R> {
    std::array::from_fn(|row| [a[row][0] + b[row][0], a[row][1] + b[row][1]])
}

/// The scores of R queries. A lane is a document, so that partial sums are registers.
#[inline(always)]
fn tile<M: Machine, const R: usize>(
    machine: M,
    queries: [&[Eight]; R],
    panel: &[Line],
    biases: Option<&[f32; BROAD]>,
) -> [Line; R] {
    let sum = |place| partial(machine, queries, panel, place);
    let low = add(add(sum(0), sum(4)), add(sum(2), sum(6)));
    let high = add(add(sum(1), sum(5)), add(sum(3), sum(7)));
    let mut scores = add(low, high);
    if let Some(biases) = biases {
        let [left, right] = [0, WIDE].map(|at| {
            let eight = std::array::from_fn(|lane| biases[at + lane]);
            Wide::new(machine, eight)
        });
        scores = add(scores, [[left, right]; R]);
    }
    scores.map(|line| line.map(Wide::array))
}

/// One partial sum of each query and document.
#[inline(always)]
fn partial<M: Machine, const R: usize>(
    machine: M,
    queries: [&[Eight]; R],
    panel: &[Line],
    place: usize,
) -> Tile<M, R> {
    let chunks = panel.len() / WIDE;
    let queries = queries.map(|query| &query[..chunks]);
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
    sums
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
