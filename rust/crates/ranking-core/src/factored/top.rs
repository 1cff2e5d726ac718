//! The best documents of each query; of the scores no more than a tile is ever held.

use std::ops::Range;

use crate::bilinear::{Failure, filled};
use crate::dispatch::{Job, dispatch};
use crate::factored::tiles::{BROAD, Inputs, Line, Sink};
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::{Index, Machine};
use crate::threads::Crew;
use crate::wide::Wide;

/// Queries that one thread takes at a time.
const SHARE: usize = 256;
/// Candidates beyond the best that are gathered before the worse are dropped, at least.
const SPARE: usize = 16;

/// Documents that queries are not to have: query i those between pointers i and i + 1, which rise.
#[derive(Clone, Copy, Debug)]
pub struct Barred<'a> {
    /// Where those of each query start, and the end.
    pub pointers: &'a [i64],
    /// All of them.
    pub documents: &'a [i64],
}

impl<'a> Barred<'a> {
    #[inline(always)]
    fn of(&self, query: usize) -> &'a [i64] {
        &self.documents[self.pointers[query].position()..self.pointers[query + 1].position()]
    }
}

/// A document and its score in one number: the better, the smaller; of equal scores the one
/// before. No score is -0.0, for partial sums start at 0.
fn candidate(document: usize, score: f32) -> u64 {
    let bits = score.to_bits();
    let falling = if score.is_sign_negative() {
        bits
    } else {
        !bits & (u32::MAX >> 1)
    };
    u64::from(falling) << 32 | document as u64 & u64::from(u32::MAX)
}

fn document_of(candidate: u64) -> i64 {
    (candidate & u64::from(u32::MAX)).cast_signed()
}

fn score_of(candidate: u64) -> f32 {
    let falling = (candidate >> 32) as u32;
    let is_negative = falling > u32::MAX >> 1;
    f32::from_bits(if is_negative {
        falling
    } else {
        !falling & (u32::MAX >> 1)
    })
}

/// The best so far of a share's queries.
struct Best<'a> {
    barred: Barred<'a>,
    /// The number of the first query.
    first: usize,
    /// How many are wanted.
    k: usize,
    /// Candidates that a query has room for.
    room: usize,
    candidates: Vec<u64>,
    counts: Vec<usize>,
    /// Scores below this are no candidates.
    limits: Vec<f32>,
}

impl Best<'_> {
    /// Keep the best of a query's candidates. Documents come in order, so of those that are still
    /// to come only the ones with better scores than the last of the best are better.
    fn drop_the_worse(&mut self, query: usize) {
        let candidates = &mut self.candidates[query * self.room..][..self.counts[query]];
        let (_, &mut last, _) = candidates.select_nth_unstable(self.k - 1);
        self.limits[query] = score_of(last).next_up();
        self.counts[query] = self.k;
    }

    #[inline(never)]
    fn add(&mut self, query: usize, document: usize, score: f32) {
        let barred = self.barred.of(self.first + query);
        let number = i64::try_from(document).unwrap_or(i64::MAX);
        if barred.binary_search(&number).is_ok() {
            return;
        }
        self.candidates[query * self.room + self.counts[query]] = candidate(document, score);
        self.counts[query] += 1;
        if self.counts[query] == self.room {
            self.drop_the_worse(query);
        }
    }

    fn write(&mut self, query: usize, found: &mut [i64], scores: &mut [f32]) {
        let candidates = &mut self.candidates[query * self.room..][..self.counts[query]];
        candidates.sort_unstable();
        found.fill(-1);
        scores.fill(f32::NEG_INFINITY);
        for ((found, score), &candidate) in found.iter_mut().zip(scores).zip(&*candidates) {
            (*found, *score) = (document_of(candidate), score_of(candidate));
        }
    }
}

impl Sink for Best<'_> {
    #[inline(always)]
    fn take<M: Machine>(
        &mut self,
        machine: M,
        query: usize,
        documents: Range<usize>,
        scores: &Line,
    ) {
        let limit = self.limits[query];
        let [left, right] = scores.map(
            #[inline(always)]
            |half| Wide::new(machine, half).at_least(limit),
        );
        let mut open = (left | right << 8) & (u32::MAX >> (32 - documents.len()));
        while open != 0 {
            let at = open.trailing_zeros() as usize;
            open &= open - 1;
            self.add(
                query,
                documents.start + at,
                scores.as_flattened()[at % BROAD],
            );
        }
    }
}

struct Top<'a, 'o> {
    inputs: Inputs<'a>,
    barred: Barred<'a>,
    first: usize,
    k: usize,
    found: &'o mut [i64],
    scores: &'o mut [f32],
}

impl Job for Top<'_, '_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Result<(), Failure> {
        let n_queries = self.found.len() / self.k;
        let room = self.k.saturating_add(self.k.max(SPARE));
        let mut best = Best {
            barred: self.barred,
            first: self.first,
            k: self.k,
            room,
            candidates: filled(room.saturating_mul(n_queries), 0)?,
            counts: filled(n_queries, 0)?,
            limits: filled(n_queries, f32::NEG_INFINITY)?,
        };
        self.inputs.by_tiles(machine, n_queries, &mut best)?;
        let found = self.found.chunks_exact_mut(self.k);
        let outputs = found.zip(self.scores.chunks_exact_mut(self.k));
        for (query, (found, scores)) in outputs.enumerate() {
            best.write(query, found, scores);
        }
        Ok(())
    }
}

/// Fill rows of `found` and `scores` with the `k` best documents of each query, best first; what
/// is left has document -1 and score -inf.
///
/// # Errors
/// When sizes do not fit, the width is no multiple of 8, or there is no memory.
pub fn factored_top(
    queries: &[f32],
    documents: &[f32],
    width: usize,
    biases: &[f32],
    barred: Barred<'_>,
    k: usize,
    found: &mut [i64],
    scores: &mut [f32],
    crew: &Crew,
) -> Result<(), Failure> {
    check_length("scores", scores.len(), found.len())?;
    if found.is_empty() {
        return Ok(());
    }
    let (n_queries, n_documents) = (found.len() / k.max(1), documents.len() / width.max(1));
    check_length("found", found.len(), n_queries.saturating_mul(k))?;
    let inputs = Inputs::new(queries, documents, biases, width, [n_queries, n_documents])?;
    let pointers = barred.pointers.iter().map(|at| at.position());
    check_pointer("barred_ptr", pointers, n_queries, barred.documents.len())?;
    if u32::try_from(n_documents).is_err() {
        return Err(Invalid::new("documents are limited to 2**32 - 1.").into());
    }
    let size = n_queries.div_ceil(crew.threads()).min(SHARE);
    let outputs = found.chunks_mut(size * k).zip(scores.chunks_mut(size * k));
    let parts = outputs.enumerate();
    let mut parts: Vec<_> = parts.map(|(part, out)| (part, out, Ok(()))).collect();
    crew.enter(|| {
        crew.for_each(&mut parts, |(part, (found, scores), result)| {
            *result = dispatch(Top {
                inputs: inputs.from(*part * size),
                barred,
                first: *part * size,
                k,
                found,
                scores,
            });
        });
    });
    parts.into_iter().try_for_each(|(_, _, result)| result)
}
