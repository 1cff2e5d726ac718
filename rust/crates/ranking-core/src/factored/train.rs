//! Training of the factored model, batch by batch.

use std::ops::Range;

use crate::adaptive::{AdaptiveParallelism, TRIAL_STEPS};
use crate::error::filled;
use crate::factored::batches::{Batches, Request};
use crate::factored::parameters::{FactoredFeatures, FactoredState, Factors};
use crate::factored::rows::RowUpdate;
use crate::factored::sample::{Samples, Slopes, Triplet};
use crate::factored::triplets::TripletSource;
use crate::listwise::ListwiseLoss;
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

/// How the steps of a call are taken.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// One per triplet or list.
    pub learning_rates: &'a [f32],
    /// What is done to rows besides their steps.
    pub penalty: RowPenalty,
    /// Triplets or lists that are sampled at the same parameters.
    pub batch_size: usize,
}

impl<'a> Steps<'a> {
    /// The size of the largest batch.
    fn size(&self) -> usize {
        self.batch_size.min(self.learning_rates.len())
    }

    /// The learning rates of a batch, of which slopes are multiples; Adagrad has its own.
    fn rates(&self, part: &Range<usize>, adagrad: bool) -> &'a [f32] {
        if adagrad {
            &[]
        } else {
            &self.learning_rates[part.clone()]
        }
    }
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

/// Sample and update by batches; margins and violation weights are filled.
pub fn factored_train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    steps: Steps<'_>,
    form: PairwiseForm,
    rank_weights: &RankWeights<'_, f32>,
    out: StepResults<'_, f32>,
    team: &ThreadTeam,
) {
    let StepResults { margins, weights } = out;
    let by_trial = &by_trial(rank_weights, source);
    let adagrad = !state.squares.queries.is_empty();
    let mut triplets = filled(steps.size(), Triplet::default());
    train(features, state, source, steps, team, |batch, factors| {
        let part = batch.part;
        let learning_rates = steps.rates(&part, adagrad);
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
            form,
            learning_rates,
        };
        batch.batches.sample(factors, &request, samples, slopes);
    });
}

/// Sample, score and update lists by batches; their losses are filled.
pub fn factored_train_lists(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    steps: Steps<'_>,
    loss: ListwiseLoss<'_>,
    losses: &mut [f64],
    team: &ThreadTeam,
) {
    let adagrad = !state.squares.queries.is_empty();
    let mut triplets = filled(steps.size(), Triplet::default());
    train(features, state, source, steps, team, |batch, factors| {
        let part = batch.part;
        let request = Request {
            source: batch.source,
            by_trial: &[],
            first: part.start,
        };
        let how = (loss, steps.rates(&part, adagrad));
        let triplets = &mut triplets[..part.len()];
        batch
            .batches
            .sample_lists(factors, &request, how, triplets, &mut losses[part]);
    });
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
