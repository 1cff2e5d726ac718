//! Sample lists of one positive and n negatives, score all, and record their steps.

use std::ops::Range;

use super::{RUN, Sample, score_of, views};
use crate::dispatch::Job;
use crate::error::filled;
use crate::factored::parameters::with_known_width;
use crate::factored::records::ShareRecords;
use crate::factored::share_embeddings::ShareEmbeddings;
use crate::listwise::{ListwiseLoss, scratch};
use crate::matrix::Stored;
use crate::simd::Machine;

/// A share of a batch's lists.
pub(in crate::factored) struct Lists<'a, 'o> {
    /// How documents are sampled; its triplets and results are scratch memory.
    pub(in crate::factored) sample: Sample<'a, 'o>,
    pub(in crate::factored) loss: ListwiseLoss<'a>,
    /// One per list; none with Adagrad.
    pub(in crate::factored) learning_rates: &'a [f32],
    pub(in crate::factored) losses: &'o mut [f64],
    pub(in crate::factored) records: ShareRecords<'o>,
}

/// Negatives and margins of a run, list after list, and memory for one list.
struct Buffers {
    n: usize,
    negatives: Vec<u32>,
    margins: Vec<f64>,
    slopes: Vec<f64>,
    scratch: Vec<f64>,
}

impl Job for Lists<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let is_plain = self.sample.sides.map(|side| side.is_plain());
        if is_plain == [true; 2] {
            with_known_width!(self.sample.sides[0].chunks, |chunks| self
                .plain(machine, chunks));
        } else {
            self.all(machine, is_plain);
        }
    }
}

impl Lists<'_, '_> {
    /// As `Sample::plain`.
    #[inline(always)]
    fn plain<M: Machine>(mut self, machine: M, chunks: usize) {
        let sides = &mut self.sample.sides;
        (sides[0].chunks, sides[1].chunks) = (chunks, chunks);
        self.sample.embeddings = [ShareEmbeddings::Plain, ShareEmbeddings::Plain];
        self.all(machine, [true; 2]);
    }

    #[inline(always)]
    fn all<M: Machine>(mut self, machine: M, is_plain: [bool; 2]) {
        let n = self.sample.request.source.max_trials();
        let mut buffers = Buffers {
            n,
            negatives: filled(RUN * n, 0),
            margins: filled(RUN * n, 0.0),
            slopes: filled(n + 1, 0.0),
            scratch: scratch(n),
        };
        for start in (0..self.losses.len()).step_by(RUN) {
            let run = start..self.losses.len().min(start + RUN);
            self.sample.find_queries(machine, is_plain[0], run.clone());
            self.sample
                .find_positives(machine, is_plain[1], run.clone());
            self.score(machine, is_plain[1], run.clone(), &mut buffers);
            self.record(machine, run, &mut buffers);
        }
    }

    /// Sample and score all negatives.
    #[inline(always)]
    fn score<M: Machine>(
        &mut self,
        machine: M,
        is_plain: bool,
        run: Range<usize>,
        buffers: &mut Buffers,
    ) {
        let (sample, n) = (&mut self.sample, buffers.n);
        for (open, at) in sample.buffers.open.iter_mut().zip(0..) {
            *open = at;
        }
        let first = sample.request.first + run.start;
        for trial in 0..n {
            sample.sample_trial(machine, is_plain, first, trial, run.len());
            for at in 0..run.len() {
                buffers.negatives[at * n + trial] = sample.buffers.negatives[at];
            }
        }
        sample.select_positives(machine, run.clone());
        let [queries, documents] = views(&sample.embeddings, &sample.sides);
        let lists = buffers.negatives.chunks_exact(n);
        let lists = lists.zip(buffers.margins.chunks_exact_mut(n));
        for (at, (negatives, margins)) in lists.enumerate().take(run.len()) {
            let u = queries.embedding(sample.buffers.queries[at].query);
            let high = sample.buffers.positive[at].0;
            for (margin, &negative) in margins.iter_mut().zip(negatives) {
                *margin = f64::from(high - score_of(machine, &documents, u, negative));
            }
        }
    }

    /// Compute losses and slopes, and record the steps that are not zero.
    #[inline(always)]
    fn record<M: Machine>(&mut self, machine: M, run: Range<usize>, buffers: &mut Buffers) {
        let (sample, n) = (&self.sample, buffers.n);
        let both = views(&sample.embeddings, &sample.sides);
        for (at, list) in run.enumerate() {
            let part = at * n..(at + 1) * n;
            let (margins, slopes) = (&buffers.margins[part.clone()], &mut buffers.slopes);
            self.losses[list] = self
                .loss
                .list(machine, margins, slopes, &mut buffers.scratch);
            let rate = self.learning_rates.get(list).copied().unwrap_or(1.0);
            let rounded = |slope: &f64| f32::narrow(*slope) * rate;
            if slopes.iter().all(|slope| rounded(slope) == 0.0) {
                continue;
            }
            let [query, positive, _] = sample.out.triplets[list];
            let documents = [positive].into_iter();
            let documents = documents.chain(buffers.negatives[part].iter().copied());
            let terms = documents.zip(slopes.iter().map(rounded));
            self.records.push(machine, both, query, terms);
        }
    }
}
