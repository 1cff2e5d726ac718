//! The best documents of each query; no more than a tile of the scores exists at a time.

use std::ops::Range;

use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::factored::tiles::{BROAD, Embeddings, Line, Sink};
use crate::matrix::Index;
use crate::simd::{Machine, Wide};
use crate::threads::ThreadTeam;

/// Queries that one thread takes at a time.
const SHARE: usize = 256;
/// Least number of candidates beyond k that are collected before the best are selected.
const SPARE: usize = 16;

/// Documents that a query must not get: those of query i lie between pointers i and i + 1, and
/// rise.
#[derive(Clone, Copy, Debug)]
pub struct Exclusions<'a> {
    /// Where those of each query start, and the end.
    pub indptr: &'a [i64],
    /// All of them.
    pub documents: &'a [i64],
}

impl<'a> Exclusions<'a> {
    #[inline(always)]
    pub(crate) fn of(&self, query: usize) -> &'a [i64] {
        &self.documents[self.indptr[query].position()..self.indptr[query + 1].position()]
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
    exclusions: Exclusions<'a>,
    /// The number of the first query.
    first: usize,
    /// How many are wanted.
    k: usize,
    /// Capacity of a query's candidates.
    capacity: usize,
    candidates: Vec<u64>,
    counts: Vec<usize>,
    /// Documents with a score below this are not candidates.
    limits: Vec<f32>,
}

impl Best<'_> {
    /// Keep the best of a query's candidates. Documents come in order, so later ones are better
    /// only if their scores are better than that of the last one kept.
    fn keep_best(&mut self, query: usize) {
        let candidates = &mut self.candidates[query * self.capacity..][..self.counts[query]];
        let (_, &mut last, _) = candidates.select_nth_unstable(self.k - 1);
        self.limits[query] = score_of(last).next_up();
        self.counts[query] = self.k;
    }

    #[inline(never)]
    fn add(&mut self, query: usize, document: usize, score: f32) {
        let excluded = self.exclusions.of(self.first + query);
        let number = i64::try_from(document).unwrap_or(i64::MAX);
        if excluded.binary_search(&number).is_ok() {
            return;
        }
        self.candidates[query * self.capacity + self.counts[query]] = candidate(document, score);
        self.counts[query] += 1;
        if self.counts[query] == self.capacity {
            self.keep_best(query);
        }
    }

    fn write(&mut self, query: usize, documents: &mut [i64], scores: &mut [f32]) {
        let candidates = &mut self.candidates[query * self.capacity..][..self.counts[query]];
        candidates.sort_unstable();
        documents.fill(-1);
        scores.fill(f32::NEG_INFINITY);
        for ((documents, score), &candidate) in documents.iter_mut().zip(scores).zip(&*candidates) {
            (*documents, *score) = (document_of(candidate), score_of(candidate));
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

/// Where the best documents of each query, and their scores, are written.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct TopK<'a> {
    pub documents: &'a mut [i64],
    pub scores: &'a mut [f32],
}

struct Top<'a, 'o> {
    embeddings: Embeddings<'a>,
    exclusions: Exclusions<'a>,
    first: usize,
    k: usize,
    out: TopK<'o>,
}

impl Job for Top<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let n_queries = self.out.documents.len() / self.k;
        let capacity = self.k.saturating_add(self.k.max(SPARE));
        let mut best = Best {
            exclusions: self.exclusions,
            first: self.first,
            k: self.k,
            capacity,
            candidates: filled(capacity.saturating_mul(n_queries), 0),
            counts: filled(n_queries, 0),
            limits: filled(n_queries, f32::NEG_INFINITY),
        };
        self.embeddings.by_tiles(machine, n_queries, &mut best);
        let documents = self.out.documents.chunks_exact_mut(self.k);
        let outputs = documents.zip(self.out.scores.chunks_exact_mut(self.k));
        for (query, (documents, scores)) in outputs.enumerate() {
            best.write(query, documents, scores);
        }
    }
}

/// Fill `out` with the best documents of each query, best first; the rest has document -1 and
/// score -inf.
pub fn factored_top_k(
    embeddings: Embeddings<'_>,
    exclusions: Exclusions<'_>,
    out: TopK<'_>,
    team: &ThreadTeam,
) {
    if out.documents.is_empty() {
        return;
    }
    let n_queries = embeddings.n_queries();
    let k = out.documents.len() / n_queries.max(1);
    let size = n_queries.div_ceil(team.threads()).min(SHARE);
    let outputs = out.documents.chunks_mut(size * k);
    let outputs = outputs.zip(out.scores.chunks_mut(size * k)).enumerate();
    team.run(outputs, |(part, (documents, scores))| {
        dispatch(Top {
            embeddings: embeddings.from(*part * size),
            exclusions,
            first: *part * size,
            k,
            out: TopK { documents, scores },
        });
    });
}
