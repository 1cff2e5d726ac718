//! Margins of triplets: sample negatives until one violates the margin.

use crate::bilinear::features::{SparseVector, Triplets};
use crate::bilinear::groups::Layout;
use crate::bilinear::part::{Block, Reader, View};
use crate::bilinear::shrinkage::ShrinkageState;
use crate::error::{Error, check_length};
use crate::matrix::Stored;
use crate::threads::ThreadTeam;

/// L(rank), and the number of documents that are ranked.
#[derive(Clone, Copy, Debug)]
pub struct RankWeights<'a> {
    weights: &'a [f64],
    last: f64,
    n_documents: usize,
}

impl<'a> RankWeights<'a> {
    /// Take the weights of ranks; those beyond the end have the last one.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(weights: &'a [f64], n_documents: usize) -> Result<Self, Error> {
        let Some(&last) = weights.last() else {
            return Err(Error::argument("rank_weights is empty"));
        };
        Ok(Self {
            weights,
            last,
            n_documents,
        })
    }

    /// The weight if trial `trial`, from 1, violates the margin.
    fn weight(&self, trial: usize) -> f64 {
        let rank = self.n_documents.saturating_sub(1) / trial;
        self.weights.get(rank).copied().unwrap_or(self.last)
    }
}

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
    pub(super) rank_weights: RankWeights<'a>,
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
    pub(super) fn load(
        &mut self,
        triplets: &Triplets<'_>,
        step: usize,
        negative: i64,
        layout: &Layout,
    ) -> Result<(), Error> {
        let triplet = triplets.get(step);
        let (query_length, document_length) = layout.lengths(triplets.transposed);
        let (queries, documents) = (triplets.queries, triplets.documents);
        queries.load(triplet[0], query_length, &mut self.query)?;
        documents.load(triplet[1], document_length, &mut self.positive)?;
        documents.load(negative, document_length, &mut self.negative)?;
        self.difference.difference(&self.positive, &self.negative)?;
        triplets.sort(&mut self.query, &mut self.difference)
    }

    /// Sample the negative of a triplet. With one trial, `query` and `difference` are then loaded
    /// and `block` holds the entries of W that were read.
    pub(super) fn sample(
        &mut self,
        reader: &impl Reader<T>,
        layout: &Layout,
        problem: &Problem<'_>,
        step: usize,
        state: &ShrinkageState,
    ) -> Result<Violation, Error> {
        let (triplets, rank_weights) = (&problem.triplets, &problem.rank_weights);
        let triplet = triplets.get(step);
        if triplet.len() == 3 {
            self.load(triplets, step, triplet[2], layout)?;
            let (left, right) = triplets.order(&self.query, &self.difference);
            self.block.start(left.columns().len(), right)?;
            let margin = score(reader, left, right, state, &mut self.block, true);
            return Ok(Violation {
                margin,
                weight: rank_weights.weight(1),
                position: 2,
            });
        }
        let (query_length, document_length) = layout.lengths(triplets.transposed);
        let queries = triplets.queries;
        queries.load(triplet[0], query_length, &mut self.query)?;
        let mut score_of = |document: i64| {
            let vector = &mut self.negative;
            triplets.documents.load(document, document_length, vector)?;
            triplets.sort(&mut self.query, vector)?;
            let (left, right) = triplets.order(&self.query, vector);
            self.block.start(1, right)?;
            let score = score(reader, left, right, state, &mut self.block, false);
            Ok::<_, Error>(score)
        };
        let positive = score_of(triplet[1])?;
        let mut margin = 0.0;
        for (trial, &document) in (1..).zip(&triplet[2..]) {
            margin = positive - score_of(document)?;
            if margin < 1.0 {
                return Ok(Violation {
                    margin,
                    weight: rank_weights.weight(trial),
                    position: 1 + trial,
                });
            }
        }
        Ok(Violation {
            margin,
            weight: 0.0,
            position: triplet.len() - 1,
        })
    }

    /// Sample, and load what a step needs if there is one; also return whether `block` then holds
    /// the entries of W that were read.
    pub(super) fn sample_and_load(
        &mut self,
        reader: &impl Reader<T>,
        layout: &Layout,
        problem: &Problem<'_>,
        step: usize,
        state: &ShrinkageState,
    ) -> Result<(Violation, bool), Error> {
        let violation = self.sample(reader, layout, problem, step, state)?;
        let triplet = problem.triplets.get(step);
        let known = triplet.len() == 3;
        if !known && violation.margin < 1.0 {
            let negative = triplet[violation.position];
            self.load(&problem.triplets, step, negative, layout)?;
            let (_, right) = problem.triplets.order(&self.query, &self.difference);
            self.block.start(1, right)?;
        }
        Ok((violation, known))
    }
}

/// left' W right; with `keep`, the block keeps the entries that were read of each row.
fn score<T: Stored>(
    reader: &impl Reader<T>,
    left: &SparseVector,
    right: &SparseVector,
    state: &ShrinkageState,
    block: &mut Block<T>,
    keep: bool,
) -> f64 {
    let mut total = 0.0;
    for (number, (row, a)) in left.entries().enumerate() {
        let entries = block.entries(if keep { number } else { 0 }, right);
        total += a * reader.read(row, right, state, entries);
    }
    total
}

/// The triplets of one task, and where it writes.
struct Share<'a, T> {
    first: usize,
    out: Violations<'a>,
    buffers: &'a mut StepBuffers<T>,
}

impl<T: Stored> Share<'_, T> {
    fn fill(
        &mut self,
        view: &View<'_, T>,
        problem: &Problem<'_>,
        state: &ShrinkageState,
    ) -> Result<(), Error> {
        for at in 0..self.out.margins.len() {
            let step = self.first + at;
            let buffers = &mut *self.buffers;
            let violation = buffers.sample(view, view.layout, problem, step, state)?;
            self.out.margins[at] = violation.margin;
            self.out.weights[at] = violation.weight;
            self.out.negatives[at] = problem.triplets.get(step)[violation.position];
        }
        Ok(())
    }
}

/// Fill margins, violation weights and negatives; call it within `ThreadTeam::enter`.
pub(super) fn margins<T: Stored>(
    view: View<'_, T>,
    problem: &Problem<'_>,
    state: &ShrinkageState,
    out: Violations<'_>,
    buffers: &mut Vec<StepBuffers<T>>,
    team: &ThreadTeam,
) -> Result<(), Error> {
    let length = problem.triplets.len();
    check_length("margins", out.margins.len(), length)?;
    check_length("weights", out.weights.len(), length)?;
    check_length("negatives", out.negatives.len(), length)?;
    // Several for each thread, because sampling may take long.
    let shares = match team.threads() {
        1 => 1,
        threads => 4 * threads,
    };
    let size = length.div_ceil(shares).max(1);
    buffers.resize_with(shares, StepBuffers::default);
    let outputs = out
        .margins
        .chunks_mut(size)
        .zip(out.weights.chunks_mut(size));
    let outputs = outputs.zip(out.negatives.chunks_mut(size)).zip(buffers);
    let shares = outputs.enumerate();
    let shares = shares.map(
        |(share, (((margins, weights), negatives), buffers))| Share {
            first: share * size,
            out: Violations {
                margins,
                weights,
                negatives,
            },
            buffers,
        },
    );
    team.try_for_each(shares, |share| share.fill(&view, problem, state))
}
