//! Sampling and updates of the factored model: separate, or batch by batch.

use crate::adaptive::{AdaptiveParallelism, TRIAL_STEPS};
use crate::error::filled;
use crate::factored::batches::{Batches, Request};
use crate::factored::parameters::{FactoredFeatures, FactoredState, Factors};
use crate::factored::rows::RowUpdate;
use crate::factored::sample::{Samples, Slopes, Triplet};
use crate::factored::triplets::TripletSource;
use crate::matrix::Index;
use crate::pairwise::{PairwiseForm, RankWeights, StepResults};
use crate::threads::ThreadTeam;

/// A batch of fewer triplets is not worth the barriers of several threads.
const SMALLEST: usize = 16;

/// Shrinkage and largest norm of each row; 0 is none.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct RowPenalty {
    pub l2: f32,
    pub max_norm: f32,
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

/// Sample and update by batches; margins and violation weights are filled.
pub fn factored_train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    plan: &Plan<'_>,
    out: StepResults<'_, f32>,
    team: &ThreadTeam,
) {
    let count = plan.learning_rates.len();
    let size = plan.batch_size.min(count);
    let team = &sized(team, size);
    let tables = source.tables(count);
    let source = &TripletSource {
        sampling: source
            .sampling
            .map(|sampling| sampling.with_tables(&tables)),
        ..*source
    };
    team.enter_awake(|| train(features, state, source, plan, out, team));
}

fn train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    plan: &Plan<'_>,
    out: StepResults<'_, f32>,
    team: &ThreadTeam,
) {
    let size = plan.batch_size.min(plan.learning_rates.len());
    let single = &ThreadTeam::single();
    let mut parallel = Batches::new(features, state.factors.view(), size, team);
    let mut serial = if team.threads() > 1 && size < TRIAL_STEPS {
        let factors = state.factors.view();
        Some(Batches::new(features, factors, size, single))
    } else {
        None
    };
    let mut adaptive = AdaptiveParallelism::new();
    let mut triplets = filled(size, Triplet::default());
    let by_trial = &by_trial(&plan.rank_weights, source);
    let adagrad = !state.squares.queries.is_empty();
    let outputs = out.margins.chunks_mut(plan.batch_size);
    let outputs = outputs.zip(out.weights.chunks_mut(plan.batch_size));
    let parts = plan.learning_rates.chunks(plan.batch_size).zip(outputs);
    for (number, (learning_rates, (margins, weights))) in parts.enumerate() {
        let batches = match &mut serial {
            Some(serial) if adaptive.is_serial() => serial,
            _ => &mut parallel,
        };
        let request = Request {
            source,
            by_trial,
            first: number * plan.batch_size,
        };
        let samples = Samples {
            triplets: &mut triplets[..learning_rates.len()],
            margins,
            weights,
        };
        let slopes = Slopes {
            form: plan.form,
            learning_rates: if adagrad { &[] } else { learning_rates },
        };
        batches.sample(state.factors.view(), &request, samples, Some(slopes));
        batches.update(state, RowUpdate::new(learning_rates[0], plan.penalty));
        adaptive.count(learning_rates.len());
    }
}
