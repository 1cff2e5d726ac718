//! Sampling and updates of the factored model: separate, or batch by batch.

use std::ops::Range;

use crate::adaptive::{AdaptiveParallelism, TRIAL_STEPS};
use crate::error::filled;
use crate::factored::batches::{Batches, Request};
use crate::factored::parameters::{FactoredFeatures, FactoredState, Factors};
use crate::factored::rows::RowUpdate;
use crate::factored::sample::{Samples, Slopes, Triplet};
use crate::factored::triplets::TripletSource;
use crate::listwise::ListwiseLoss;
use crate::matrix::Index;
use crate::pairwise::{PairwiseForm, RankWeights, StepResults};
use crate::threads::ThreadTeam;

/// A batch of fewer triplets is not worth the barriers of several threads.
const SMALLEST: usize = 16;

/// The largest norm of each row, 0 is none; and whether Adagrad has one learning rate per row.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct RowPenalty {
    pub max_norm: f32,
    pub rowwise: bool,
}

/// How steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// One per triplet.
    pub learning_rates: &'a [f32],
    /// The loss.
    pub form: PairwiseForm,
    /// The weights of violations.
    pub rank_weights: RankWeights<'a, f32>,
    /// What is done to rows besides their steps.
    pub penalty: RowPenalty,
    /// Triplets that are sampled at the same parameters.
    pub batch_size: usize,
}

/// Output of `factored_sample`.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct SampledTriplets<'a> {
    pub triplets: &'a mut [i64],
    pub margins: &'a mut [f32],
    pub weights: &'a mut [f32],
}

/// Steps with known slopes.
#[derive(Clone, Copy, Debug)]
pub struct FactoredSteps<'a> {
    /// The query of each.
    pub queries: &'a [i64],
    /// Step i has the documents, and slopes, `step_ptr[i]..step_ptr[i + 1]`.
    pub step_ptr: &'a [i64],
    /// The documents of all steps.
    pub documents: &'a [i64],
    /// One per document.
    pub slopes: &'a [f32],
}

impl FactoredSteps<'_> {
    /// Those from share * size on, `size` at most.
    pub(super) fn share(&self, share: usize, size: usize) -> Self {
        let count = self.queries.len();
        let [first, end] = [share, share + 1].map(|share| count.min(share * size));
        Self {
            queries: &self.queries[first..end],
            step_ptr: &self.step_ptr[first..=end],
            ..*self
        }
    }

    /// The number of documents of all steps.
    pub(super) fn n_documents(&self) -> usize {
        let ends = [self.step_ptr.first(), self.step_ptr.last()];
        let [first, end] = ends.map(|end| end.map_or(0, |end| end.position()));
        end - first
    }

    /// Their queries.
    pub(super) fn queries(&self) -> impl ExactSizeIterator<Item = u32> {
        self.queries.iter().copied().map(short)
    }

    /// The documents of all.
    pub(super) fn documents(&self) -> impl ExactSizeIterator<Item = u32> {
        let first = self.step_ptr.first().map_or(0, |first| first.position());
        let documents = self.documents[first..][..self.n_documents()].iter();
        documents.copied().map(short)
    }

    /// The steps that are not zero.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = (u32, f32)>)> {
        let steps = self.queries.iter().zip(self.step_ptr.windows(2));
        steps.filter_map(move |(query, ends)| {
            let places = ends[0].position()..ends[1].position();
            let slopes = &self.slopes[places.clone()];
            let documents = self.documents[places].iter().copied().map(short);
            let is_step = slopes.iter().any(|&slope| slope != 0.0);
            is_step.then(|| (short(*query), documents.zip(slopes.iter().copied())))
        })
    }
}

fn short(number: i64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// The weight of a violation by trial, from 0.
fn by_trial(weights: &RankWeights<'_, f32>, source: &TripletSource<'_>) -> Vec<f32> {
    let trials = 1..=source.max_trials();
    trials.map(|trial| weights.weight(trial)).collect()
}

/// The team, or a single thread if there is too little to do.
fn sized(team: &ThreadTeam, triplets: usize) -> ThreadTeam {
    if triplets < SMALLEST {
        ThreadTeam::single()
    } else {
        team.clone()
    }
}

/// Sample negatives until one violates the margin (WARP).
pub fn factored_sample(
    features: &FactoredFeatures<'_>,
    factors: Factors<'_>,
    source: &TripletSource<'_>,
    rank_weights: &RankWeights<'_, f32>,
    out: SampledTriplets<'_>,
    team: &ThreadTeam,
) {
    let count = out.margins.len();
    let team = &sized(team, count);
    team.enter(|| {
        let mut triplets = filled(count, Triplet::default());
        let mut batches = Batches::new(features, factors, count, team);
        let request = Request {
            source,
            by_trial: &by_trial(rank_weights, source),
            first: 0,
        };
        let samples = Samples {
            triplets: &mut triplets,
            margins: out.margins,
            weights: out.weights,
        };
        batches.sample(factors, &request, samples, None);
        for (out, number) in out.triplets.iter_mut().zip(triplets.as_flattened()) {
            *out = i64::from(*number);
        }
    });
}

/// Take the steps of one batch.
pub fn factored_update(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    steps: &FactoredSteps<'_>,
    learning_rate: f32,
    penalty: RowPenalty,
    team: &ThreadTeam,
) {
    let team = &sized(team, steps.queries.len());
    team.enter(|| {
        let factors = state.factors.view();
        let mut batches = Batches::new(features, factors, steps.queries.len(), team);
        batches.record(factors, steps);
        batches.update(state, RowUpdate::new(learning_rate, penalty));
    });
}

/// How steps on lists are taken.
#[derive(Clone, Copy, Debug)]
pub struct ListPlan<'a> {
    /// One per list.
    pub learning_rates: &'a [f32],
    /// The loss.
    pub loss: ListwiseLoss<'a>,
    /// What is done to rows besides their steps.
    pub penalty: RowPenalty,
    /// Lists that are sampled at the same parameters.
    pub batch_size: usize,
}

/// Sample and update by batches; margins and violation weights are filled.
pub fn factored_train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    plan: &Plan<'_>,
    out: StepResults<'_, f32>,
    team: &ThreadTeam,
) {
    let StepResults { margins, weights } = out;
    let by_trial = &by_trial(&plan.rank_weights, source);
    let adagrad = !state.squares.queries.is_empty();
    let steps = Steps {
        learning_rates: plan.learning_rates,
        batch_size: plan.batch_size,
        penalty: plan.penalty,
    };
    let mut triplets = filled(steps.size(), Triplet::default());
    train(features, state, source, steps, team, |batch, factors| {
        let (part, learning_rates) = (batch.part.clone(), &plan.learning_rates[batch.part.clone()]);
        let request = Request {
            source: batch.source,
            by_trial,
            first: part.start,
        };
        let samples = Samples {
            triplets: &mut triplets[..part.len()],
            margins: &mut margins[part.clone()],
            weights: &mut weights[part],
        };
        let slopes = Slopes {
            form: plan.form,
            learning_rates: if adagrad { &[] } else { learning_rates },
        };
        batch
            .batches
            .sample(factors, &request, samples, Some(slopes));
    });
}

/// Sample, score and update lists by batches; their losses are filled.
pub fn factored_train_lists(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    plan: &ListPlan<'_>,
    losses: &mut [f64],
    team: &ThreadTeam,
) {
    let adagrad = !state.squares.queries.is_empty();
    let steps = Steps {
        learning_rates: plan.learning_rates,
        batch_size: plan.batch_size,
        penalty: plan.penalty,
    };
    let mut triplets = filled(steps.size(), Triplet::default());
    train(features, state, source, steps, team, |batch, factors| {
        let (part, learning_rates) = (batch.part.clone(), &plan.learning_rates[batch.part.clone()]);
        let request = Request {
            source: batch.source,
            by_trial: &[],
            first: part.start,
        };
        let rates = if adagrad { &[] } else { learning_rates };
        let triplets = &mut triplets[..part.len()];
        let how = (plan.loss, rates);
        batch
            .batches
            .sample_lists(factors, &request, how, triplets, &mut losses[part]);
    });
}

/// The steps of a call.
#[derive(Clone, Copy)]
struct Steps<'a> {
    learning_rates: &'a [f32],
    batch_size: usize,
    penalty: RowPenalty,
}

impl Steps<'_> {
    /// The size of the largest batch.
    fn size(&self) -> usize {
        self.batch_size.min(self.learning_rates.len())
    }
}

/// The steps `part` of a call, and the buffers that sample them.
struct Batch<'b, 'a> {
    batches: &'b mut Batches<'a>,
    source: &'b TripletSource<'b>,
    part: Range<usize>,
}

/// Let `sample` record the steps of each batch, then take them.
fn train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    steps: Steps<'_>,
    team: &ThreadTeam,
    mut sample: impl FnMut(Batch<'_, '_>, Factors<'_>) + Send,
) {
    let (count, size) = (steps.learning_rates.len(), steps.size());
    let team = &sized(team, size);
    let single = &ThreadTeam::single();
    let tables = source.tables(count);
    let source = &TripletSource {
        sampling: source
            .sampling
            .map(|sampling| sampling.with_tables(&tables)),
        ..*source
    };
    team.enter_awake(|| {
        let new = |team| Batches::new(features, state.factors.view(), size, team);
        let mut parallel = new(team);
        let mut serial = (team.threads() > 1 && size < TRIAL_STEPS).then(|| new(single));
        let mut adaptive = AdaptiveParallelism::new();
        for start in (0..count).step_by(steps.batch_size) {
            let batches = match &mut serial {
                Some(serial) if adaptive.is_serial() => serial,
                _ => &mut parallel,
            };
            let part = start..count.min(start + size);
            let update = RowUpdate::new(steps.learning_rates[start], steps.penalty);
            adaptive.count(part.len());
            let batch = Batch {
                batches: &mut *batches,
                source,
                part,
            };
            sample(batch, state.factors.view());
            batches.update(state, update);
        }
    });
}
