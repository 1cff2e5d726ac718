//! Margins of triplets: sample negatives until one violates the margin.

use crate::bilinear::features::{SparseVector, Triplets};
use crate::bilinear::part::{Block, View};
use crate::bilinear::shrinkage::ShrinkageState;
use crate::matrix::{Index, Stored};
use crate::pairwise::RankWeights;
use crate::threads::ThreadTeam;

/// Where margins, violation weights and negatives of triplets are written.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct Violations<'a> {
    pub margins: &'a mut [f64],
    pub weights: &'a mut [f64],
    pub negatives: &'a mut [i64],
}

/// A margin, the weight of its violation and the negative's position in the triplet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Violation {
    pub(super) margin: f64,
    pub(super) weight: f64,
    pub(super) position: usize,
}

/// Triplets, and what their margins depend on besides W.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) triplets: Triplets<'a>,
    pub(super) rank_weights: RankWeights<'a, f64>,
}

/// Buffers for the vectors of a step.
#[derive(Debug, Default)]
pub(super) struct StepBuffers<T> {
    pub(super) query: SparseVector,
    positive: SparseVector,
    negative: SparseVector,
    /// Positive - negative.
    pub(super) difference: SparseVector,
    pub(super) block: Block<T>,
}

impl<T: Stored> StepBuffers<T> {
    /// Load the query and the difference of its documents.
    pub(super) fn load(&mut self, triplets: &Triplets<'_>, step: usize, negative: i64) {
        let triplet = triplets.get(step);
        triplets
            .queries
            .load(triplet[0].position(), &mut self.query);
        triplets
            .documents
            .load(triplet[1].position(), &mut self.positive);
        triplets
            .documents
            .load(negative.position(), &mut self.negative);
        self.difference.difference(&self.positive, &self.negative);
        triplets.sort(&mut self.query, &mut self.difference);
    }

    /// Sample the negative of a triplet. With one trial, `query` and `difference` are then loaded
    /// and `block` holds the entries of W that were read.
    pub(super) fn sample(
        &mut self,
        view: &View<'_, T>,
        problem: &Problem<'_>,
        step: usize,
        state: &ShrinkageState,
    ) -> Violation {
        let (triplets, rank_weights) = (&problem.triplets, &problem.rank_weights);
        let triplet = triplets.get(step);
        if triplet.len() == 3 {
            self.load(triplets, step, triplet[2]);
            let (left, right) = triplets.order(&self.query, &self.difference);
            self.block.start(left.columns().len(), right);
            return Violation {
                margin: score(view, left, right, state, &mut self.block, true),
                weight: rank_weights.weight(1),
                position: 2,
            };
        }
        triplets
            .queries
            .load(triplet[0].position(), &mut self.query);
        let mut score_of = |document: i64| {
            let vector = &mut self.negative;
            triplets.documents.load(document.position(), vector);
            triplets.sort(&mut self.query, vector);
            let (left, right) = triplets.order(&self.query, vector);
            self.block.start(1, right);
            score(view, left, right, state, &mut self.block, false)
        };
        let positive = score_of(triplet[1]);
        let mut violation = Violation {
            margin: 0.0,
            weight: 0.0,
            position: triplet.len() - 1,
        };
        for (trial, &document) in (1..).zip(&triplet[2..]) {
            violation.margin = positive - score_of(document);
            if violation.margin < 1.0 {
                (violation.weight, violation.position) = (rank_weights.weight(trial), 1 + trial);
                break;
            }
        }
        violation
    }

    /// Sample, and load what a step needs if there is one; also return whether `block` then holds
    /// the entries of W that were read.
    pub(super) fn sample_and_load(
        &mut self,
        view: &View<'_, T>,
        problem: &Problem<'_>,
        step: usize,
        state: &ShrinkageState,
    ) -> (Violation, bool) {
        let violation = self.sample(view, problem, step, state);
        let triplet = problem.triplets.get(step);
        let known = triplet.len() == 3;
        if !known && violation.margin < 1.0 {
            self.load(&problem.triplets, step, triplet[violation.position]);
            let (_, right) = problem.triplets.order(&self.query, &self.difference);
            self.block.start(1, right);
        }
        (violation, known)
    }
}

/// left' W right; with `keep`, the block keeps the entries that were read of each row.
fn score<T: Stored>(
    view: &View<'_, T>,
    left: &SparseVector,
    right: &SparseVector,
    state: &ShrinkageState,
    block: &mut Block<T>,
    keep: bool,
) -> f64 {
    let mut total = 0.0;
    for (number, (row, a)) in left.entries().enumerate() {
        let entries = block.entries(if keep { number } else { 0 }, right);
        total += a * view.read(row, right, state, entries);
    }
    total
}

/// Fill margins, violation weights and negatives; call it within `ThreadTeam::enter`.
pub(super) fn margins<T: Stored>(
    view: View<'_, T>,
    problem: &Problem<'_>,
    state: &ShrinkageState,
    out: Violations<'_>,
    buffers: &mut Vec<StepBuffers<T>>,
    team: &ThreadTeam,
) {
    // Several for each thread, because sampling may take long.
    let shares = match team.threads() {
        1 => 1,
        threads => 4 * threads,
    };
    let size = problem.triplets.len().div_ceil(shares).max(1);
    buffers.resize_with(shares, StepBuffers::default);
    let outputs = out
        .weights
        .chunks_mut(size)
        .zip(out.negatives.chunks_mut(size));
    let outputs = out.margins.chunks_mut(size).zip(outputs).zip(buffers);
    team.run(outputs.enumerate(), |(share, (out, buffers))| {
        let (margins, (weights, negatives)) = out;
        for (at, margin) in margins.iter_mut().enumerate() {
            let step = *share * size + at;
            let violation = buffers.sample(&view, problem, step, state);
            (*margin, weights[at]) = (violation.margin, violation.weight);
            negatives[at] = problem.triplets.get(step)[violation.position];
        }
    });
}
