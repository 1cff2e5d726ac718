//! Sample negatives until one violates the margin, at the parameters of the batch's start.

mod lists;

use std::ops::Range;

use crate::dispatch::Job;
use crate::error::reserve;
use crate::factored::batches::Request;
use crate::factored::parameters::{Side, View, with_known_width};
use crate::factored::records::ShareRecords;
use crate::factored::share_embeddings::ShareEmbeddings;
use crate::guide_tables::Lookup;
use crate::matrix::{Stored, short};
use crate::pairwise::{PairwiseForm, PairwiseSlope, with_slope};
use crate::sampling::{Group, SampledQuery};
use crate::simd::{Eight, Machine, dot_wide};

pub(super) use lists::Lists;

/// Triplets that are sampled side by side, one trial after the other: as many as stay in the
/// fastest cache.
const RUN: usize = 32;

/// Query, positive and negative.
pub(super) type Triplet = [u32; 3];

/// Where sampled triplets, margins and violation weights are written.
pub(super) struct Samples<'o> {
    pub(super) triplets: &'o mut [Triplet],
    pub(super) margins: &'o mut [f32],
    pub(super) weights: &'o mut [f32],
}

impl<'o> Samples<'o> {
    pub(super) fn len(&self) -> usize {
        self.triplets.len()
    }

    pub(super) fn chunks(self, size: usize) -> impl Iterator<Item = Samples<'o>> {
        let outputs = self.margins.chunks_mut(size);
        let outputs = outputs.zip(self.weights.chunks_mut(size));
        let outputs = self.triplets.chunks_mut(size).zip(outputs);
        outputs.map(|(triplets, (margins, weights))| Samples {
            triplets,
            margins,
            weights,
        })
    }
}

/// Buffers of a thread, reused from batch to batch.
#[derive(Debug, Default)]
pub(super) struct SampleBuffers {
    queries: [SampledQuery; RUN],
    /// The first of a triplet's positives.
    firsts: [u32; RUN],
    /// The score of the positive, and its weight.
    positive: [(f32, f32); RUN],
    /// All positives of a triplet: the document, its weight, and its score.
    positives: Vec<(u32, f32, f32)>,
    /// Triplets that are still sampled.
    open: [u32; RUN],
    lookups: [Lookup; RUN],
    negatives: [u32; RUN],
    margins: [f32; RUN],
    weights: [f32; RUN],
}

/// How margins become slopes.
#[derive(Clone, Copy)]
pub(super) struct Slopes<'a> {
    pub(super) form: PairwiseForm,
    /// One per triplet; none with Adagrad.
    pub(super) learning_rates: &'a [f32],
}

impl Slopes<'_> {
    /// Those of a share of `size` triplets.
    pub(super) fn share(self, share: usize, size: usize) -> Self {
        let learning_rates = self.learning_rates.chunks(size).nth(share);
        Self {
            learning_rates: learning_rates.unwrap_or_default(),
            ..self
        }
    }

    /// The slopes of a run.
    #[inline(always)]
    fn fill(&self, run: Range<usize>, margins: &[f32], weights: &[f32]) -> [f32; RUN] {
        let mut slopes = [0.0; RUN];
        let numbers = margins[run.clone()].iter().zip(&weights[run.clone()]);
        with_slope!(self.form, |slope| {
            for (out, (&margin, &weight)) in slopes.iter_mut().zip(numbers) {
                *out = weight * f32::narrow(slope.slope(f64::from(margin)));
            }
        });
        if let Some(learning_rates) = self.learning_rates.get(run) {
            for (slope, rate) in slopes.iter_mut().zip(learning_rates) {
                *slope *= rate;
            }
        }
        slopes
    }
}

/// A share of a batch's triplets.
pub(super) struct Sample<'a, 'o> {
    pub(super) request: Request<'a>,
    /// Queries and documents.
    pub(super) sides: [Side<'a>; 2],
    pub(super) embeddings: [ShareEmbeddings<'o>; 2],
    pub(super) out: Samples<'o>,
    pub(super) buffers: &'o mut SampleBuffers,
    /// How steps are taken, and where they are recorded; `Lists` has its own.
    pub(super) steps: Option<(Slopes<'a>, ShareRecords<'o>)>,
}

impl Job for Sample<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let is_plain = self.sides.map(|side| side.is_plain());
        if is_plain == [true; 2] {
            with_known_width!(self.sides[0].chunks, |chunks| self.plain(machine, chunks));
        } else {
            self.all(machine, is_plain);
        }
    }
}

impl Sample<'_, '_> {
    /// Sample where all embeddings are rows of a width that is known.
    #[inline(always)]
    fn plain<M: Machine>(mut self, machine: M, chunks: usize) {
        (self.sides[0].chunks, self.sides[1].chunks) = (chunks, chunks);
        self.embeddings = [ShareEmbeddings::Plain, ShareEmbeddings::Plain];
        self.all(machine, [true; 2]);
    }

    #[inline(always)]
    fn all<M: Machine>(mut self, machine: M, is_plain: [bool; 2]) {
        for start in (0..self.out.len()).step_by(RUN) {
            let run = start..self.out.len().min(start + RUN);
            self.find_queries(machine, is_plain[0], run.clone());
            self.find_positives(machine, is_plain[1], run.clone());
            self.find_negatives(machine, is_plain[1], run.clone());
            self.record(machine, run);
        }
    }

    #[inline(always)]
    fn find_queries<M: Machine>(&mut self, machine: M, is_plain: bool, run: Range<usize>) {
        let queries = &mut self.buffers.queries[..run.len()];
        self.request
            .source
            .queries(machine, self.request.first + run.start, queries);
        for (query, triplet) in queries.iter().zip(&mut self.out.triplets[run.clone()]) {
            triplet[0] = short(query.query);
            self.sides[0].prefetch(machine, is_plain, triplet[0]);
        }
        let wanted = self.out.triplets[run].iter().map(|triplet| triplet[0]);
        self.embeddings[0].load(machine, &self.sides[0], wanted);
    }

    #[inline(always)]
    fn find_positives<M: Machine>(&mut self, machine: M, is_plain: bool, run: Range<usize>) {
        let (buffers, n_positives) = (&mut *self.buffers, self.request.source.n_positives);
        buffers.positives.clear();
        reserve(&mut buffers.positives, run.len() * n_positives);
        let triplets = (self.request.first + run.start..).zip(&buffers.queries[..run.len()]);
        for ((triplet, query), first) in triplets.zip(&mut buffers.firsts) {
            for at in 0..n_positives {
                let (document, weight) = self.request.source.positive(query, triplet, at);
                self.sides[1].prefetch(machine, is_plain, document);
                buffers.positives.push((document, weight, 0.0));
                if at == 0 {
                    *first = document;
                }
            }
        }
        let wanted = buffers.positives.iter().map(|positive| positive.0);
        self.embeddings[1].load(machine, &self.sides[1], wanted);
    }

    /// Select the positive, and sample negatives until one violates the margin.
    #[inline(always)]
    fn find_negatives<M: Machine>(&mut self, machine: M, is_plain: bool, run: Range<usize>) {
        let mut left = run.len();
        for (open, at) in self.buffers.open.iter_mut().zip(0..) {
            *open = at;
        }
        for (trial, &weight) in self.request.by_trial.iter().enumerate() {
            if left == 0 {
                break;
            }
            self.sample_trial(
                machine,
                is_plain,
                self.request.first + run.start,
                trial,
                left,
            );
            // Not before there are negatives: prefetching takes a while.
            if trial == 0 {
                self.select_positives(machine, run.clone());
            }
            left = self.score_negatives(machine, weight, left);
        }
        self.write(run);
    }

    /// Sample the next negative of the open triplets.
    #[inline(always)]
    fn sample_trial<M: Machine>(
        &mut self,
        machine: M,
        is_plain: bool,
        first: usize,
        trial: usize,
        left: usize,
    ) {
        let (buffers, documents) = (&mut *self.buffers, self.sides[1]);
        let group = Group {
            queries: &buffers.queries,
            positives: &buffers.firsts,
            open: &buffers.open[..left],
        };
        self.request.source.negatives(
            machine,
            first,
            group,
            trial,
            &mut buffers.lookups,
            #[inline(always)]
            |at, negative| {
                documents.prefetch(machine, is_plain, negative);
                buffers.negatives[at % RUN] = negative;
            },
        );
        let open = buffers.open[..left].iter();
        let wanted = open.map(|&at| buffers.negatives[at as usize % RUN]);
        self.embeddings[1].load(machine, &self.sides[1], wanted);
    }

    /// Score the positives of triplets, and select the one at the rank.
    #[inline(always)]
    fn select_positives<M: Machine>(&mut self, machine: M, run: Range<usize>) {
        let [queries, documents] = views(&self.embeddings, &self.sides);
        let (n_positives, rank) = (
            self.request.source.n_positives,
            self.request.source.positive_rank,
        );
        let positives = self.buffers.positives.chunks_exact_mut(n_positives);
        let outputs = self.out.triplets[run].iter_mut();
        let outputs = outputs.zip(&mut self.buffers.positive);
        for (some, (triplet, positive)) in positives.zip(outputs) {
            let u = queries.embedding(triplet[0] as usize);
            for (document, _, score) in some.iter_mut() {
                *score = score_of(machine, &documents, u, *document);
            }
            let (document, weight, score) = some[ranked(some, rank)];
            (triplet[1], *positive) = (document, (score, weight));
        }
    }

    /// Score the negatives of a trial; return how many triplets stay open.
    #[inline(always)]
    fn score_negatives<M: Machine>(&mut self, machine: M, weight: f32, open: usize) -> usize {
        let [queries, documents] = views(&self.embeddings, &self.sides);
        let (buffers, only) = (&mut *self.buffers, self.request.by_trial.len() == 1);
        let (open, mut left) = (&mut buffers.open[..open], 0);
        for step in 0..open.len() {
            let at = open[step] as usize % RUN;
            let u = queries.embedding(buffers.queries[at].query);
            let score = score_of(machine, &documents, u, buffers.negatives[at]);
            let margin = buffers.positive[at].0 - score;
            let ends = only || margin < 1.0;
            buffers.margins[at] = margin;
            buffers.weights[at] = if ends { weight } else { 0.0 };
            open[left] = open[step];
            left += usize::from(!ends);
        }
        left
    }

    /// Write negatives, margins and violation weights.
    #[inline(always)]
    fn write(&mut self, run: Range<usize>) {
        let buffers = &*self.buffers;
        let results = buffers.negatives.iter().zip(&buffers.margins);
        let results = results.zip(buffers.weights.iter().zip(&buffers.positive));
        let outputs = self.out.margins[run.clone()].iter_mut();
        let outputs = outputs.zip(&mut self.out.weights[run.clone()]);
        let outputs = self.out.triplets[run].iter_mut().zip(outputs);
        for ((triplet, (to_margin, to_weight)), results) in outputs.zip(results) {
            let ((&negative, &margin), (&weight, &(_, positive_weight))) = results;
            triplet[2] = negative;
            (*to_margin, *to_weight) = (margin, weight * positive_weight);
        }
    }

    /// Record the steps that are not zero.
    #[inline(always)]
    fn record<M: Machine>(&mut self, machine: M, run: Range<usize>) {
        let Some((slopes, records)) = &mut self.steps else {
            return;
        };
        let [queries, documents] = views(&self.embeddings, &self.sides);
        let slopes = slopes.fill(run.clone(), self.out.margins, self.out.weights);
        for (&[query, positive, negative], &slope) in self.out.triplets[run].iter().zip(&slopes) {
            if slope != 0.0 {
                let terms = [(positive, slope), (negative, -slope)];
                records.push(machine, [queries, documents], query, terms.into_iter());
            }
        }
    }
}

#[inline(always)]
fn views<'v>(embeddings: &'v [ShareEmbeddings<'_>; 2], sides: &[Side<'v>; 2]) -> [View<'v>; 2] {
    let [queries, documents] = embeddings;
    [queries.view(&sides[0]), documents.view(&sides[1])]
}

#[inline(always)]
fn score_of<M: Machine>(machine: M, documents: &View<'_>, u: &[Eight], document: u32) -> f32 {
    let place = documents.place(document as usize);
    let v = &documents.embeddings[place * documents.width..][..documents.width];
    let score = dot_wide(machine, u, v);
    if documents.biases.is_empty() {
        score
    } else {
        score + documents.biases[place]
    }
}

/// The positive at a rank, best score first; of equal ones the first sampled.
#[inline(always)]
fn ranked(positives: &[(u32, f32, f32)], positive_rank: usize) -> usize {
    if positives.len() == 1 {
        return 0;
    }
    let rank = |at: usize, score: f32| {
        let before = positives.iter().enumerate();
        let before = before.filter(|&(other, x)| x.2 > score || (x.2 == score && other < at));
        before.count()
    };
    let mut numbered = positives.iter().enumerate();
    // There is one, unless a score is not a number.
    numbered
        .position(|(at, x)| rank(at, x.2) == positive_rank)
        .unwrap_or(0)
}
