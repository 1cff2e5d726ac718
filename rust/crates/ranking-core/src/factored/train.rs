//! Sampling and updates of the factored model: separate, or batch by batch.

use crate::adaptive::{AdaptiveParallelism, TRIAL_STEPS};
use crate::error::{Error, check_length, check_pointer, filled};
use crate::factored::batches::{Batches, Request};
use crate::factored::parameters::{FactoredFeatures, FactoredState, Factors};
use crate::factored::rows::RowUpdate;
use crate::factored::sample::{Samples, Slopes, Triplet};
use crate::factored::triplets::TripletSource;
use crate::matrix::Index;
use crate::pairwise::PairwiseForm;
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

/// L(rank), and the number of documents that are ranked.
#[derive(Clone, Copy, Debug)]
pub struct RankWeights<'a> {
    /// At least one; ranks beyond the end have the last value.
    pub weights: &'a [f32],
    /// Number of documents that are ranked.
    pub n_documents: usize,
}

impl RankWeights<'_> {
    /// The weight of a violation by trial, from 0.
    fn by_trial(&self, trials: usize) -> Result<Vec<f32>, Error> {
        let Some(last) = self.weights.len().checked_sub(1) else {
            return Err(Error::argument("rank_weights is empty"));
        };
        let rank = |trial: usize| self.n_documents.saturating_sub(1) / trial;
        let weight = |trial: usize| self.weights[rank(trial).min(last)];
        Ok((1..=trials).map(weight).collect())
    }
}

/// How steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// One per triplet.
    pub learning_rates: &'a [f32],
    /// The loss.
    pub form: PairwiseForm,
    /// The weights of violations.
    pub rank_weights: RankWeights<'a>,
    /// What is done to rows besides their steps.
    pub penalty: RowPenalty,
    /// Triplets that are sampled at the same parameters.
    pub batch_size: usize,
}

/// Where margins and violation weights are written.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct StepResults<'a> {
    pub margins: &'a mut [f32],
    pub weights: &'a mut [f32],
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
    fn check(&self, features: &FactoredFeatures<'_>) -> Result<(), Error> {
        let pointers = self.step_ptr.iter().map(|at| at.position());
        let (steps, entries) = (self.queries.len(), self.documents.len());
        check_pointer("step_ptr", pointers, steps, entries)?;
        check_length("slopes", self.slopes.len(), entries)?;
        let last = |numbers: &[i64]| numbers.iter().map(|number| number.position()).max();
        let fits = |numbers: &[i64], count: usize| last(numbers).is_none_or(|last| last < count);
        if fits(self.queries, features.queries.len())
            && fits(self.documents, features.documents.len())
        {
            return Ok(());
        }
        Err(Error::argument(
            "steps have queries or documents that do not exist",
        ))
    }

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

/// The team, or a single thread if there is too little to do.
fn sized(team: &ThreadTeam, triplets: usize) -> ThreadTeam {
    if triplets < SMALLEST {
        ThreadTeam::single()
    } else {
        team.clone()
    }
}

fn check_size(size: usize) -> Result<(), Error> {
    // Two documents of a triplet are numbered.
    let largest = u32::MAX as usize / 2;
    if size <= largest {
        return Ok(());
    }
    Err(Error::argument(format!(
        "a batch has {size} steps, expected at most {largest}"
    )))
}

/// Sample negatives until one violates the margin (WARP).
///
/// # Errors
/// When sizes do not fit, or there is no memory.
pub fn factored_sample(
    features: &FactoredFeatures<'_>,
    factors: Factors<'_>,
    source: &TripletSource<'_>,
    rank_weights: &RankWeights<'_>,
    out: SampledTriplets<'_>,
    team: &ThreadTeam,
) -> Result<(), Error> {
    let count = out.margins.len();
    factors.check(features)?;
    source.check(features, count)?;
    check_size(count)?;
    check_length("triplets", out.triplets.len(), count.saturating_mul(3))?;
    check_length("weights", out.weights.len(), count)?;
    let team = &sized(team, count);
    team.enter(|| {
        let mut triplets = filled(count, Triplet::default())?;
        let mut batches = Batches::new(features, factors, count, team)?;
        let request = Request {
            source,
            by_trial: &rank_weights.by_trial(source.max_trials())?,
            first: 0,
        };
        let samples = Samples {
            triplets: &mut triplets,
            margins: out.margins,
            weights: out.weights,
        };
        batches.sample(factors, &request, samples, None)?;
        for (out, number) in out.triplets.iter_mut().zip(triplets.as_flattened()) {
            *out = i64::from(*number);
        }
        Ok(())
    })
}

/// Take the steps of one batch.
///
/// # Errors
/// When sizes do not fit, or there is no memory.
pub fn factored_update(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    steps: &FactoredSteps<'_>,
    learning_rate: f32,
    penalty: RowPenalty,
    team: &ThreadTeam,
) -> Result<(), Error> {
    state.check(features)?;
    steps.check(features)?;
    check_size(steps.queries.len().max(steps.documents.len()))?;
    let team = &sized(team, steps.queries.len());
    team.enter(|| {
        let factors = state.factors.view();
        let mut batches = Batches::new(features, factors, steps.queries.len(), team)?;
        batches.record(factors, steps)?;
        batches.update(state, RowUpdate::new(learning_rate, penalty))
    })
}

/// Sample and update by batches; margins and violation weights are filled.
///
/// # Errors
/// When sizes do not fit, or there is no memory; some steps may then have been taken.
pub fn factored_train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    plan: &Plan<'_>,
    out: StepResults<'_>,
    team: &ThreadTeam,
) -> Result<(), Error> {
    let count = plan.learning_rates.len();
    state.check(features)?;
    source.check(features, count)?;
    check_length("margins", out.margins.len(), count)?;
    check_length("weights", out.weights.len(), count)?;
    let size = plan.batch_size.min(count);
    check_size(size)?;
    if plan.batch_size == 0 {
        return Err(Error::argument("batch_size is 0, expected at least 1"));
    }
    let team = &sized(team, size);
    let tables = source.tables(count)?;
    let source = &TripletSource {
        sampling: source
            .sampling
            .map(|sampling| sampling.with_tables(&tables)),
        ..*source
    };
    team.enter_awake(|| train(features, state, source, plan, out, team))
}

fn train(
    features: &FactoredFeatures<'_>,
    state: &mut FactoredState<'_>,
    source: &TripletSource<'_>,
    plan: &Plan<'_>,
    out: StepResults<'_>,
    team: &ThreadTeam,
) -> Result<(), Error> {
    let size = plan.batch_size.min(plan.learning_rates.len());
    let single = &ThreadTeam::single();
    let mut parallel = Batches::new(features, state.factors.view(), size, team)?;
    let mut serial = if team.threads() > 1 && size < TRIAL_STEPS {
        let factors = state.factors.view();
        Some(Batches::new(features, factors, size, single)?)
    } else {
        None
    };
    let mut adaptive = AdaptiveParallelism::new();
    let mut triplets = filled(size, Triplet::default())?;
    let by_trial = &plan.rank_weights.by_trial(source.max_trials())?;
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
        batches.sample(state.factors.view(), &request, samples, Some(slopes))?;
        batches.update(state, RowUpdate::new(learning_rates[0], plan.penalty))?;
        adaptive.count(learning_rates.len());
    }
    Ok(())
}
