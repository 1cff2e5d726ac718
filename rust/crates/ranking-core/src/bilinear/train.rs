//! Training: step by step, or the margins of a batch by triplet and then its steps by row.

use std::ops::Range;

use crate::bilinear::features::{SparseVector, Triplets};
use crate::bilinear::margins::{Problem, StepBuffers, Violations, margins};
use crate::bilinear::part::{Block, Part, Step};
use crate::bilinear::shrinkage::{ShrinkageState, UpdateRule};
use crate::bilinear::store::Store;
use crate::error::{filled, reserve};
use crate::matrix::Stored;
use crate::pairwise::{
    PairwiseForm, PairwiseSlope, PassiveAggressive, RankWeights, StepResults, with_slope,
};
use crate::threads::ThreadTeam;

/// Steps whose vectors are loaded at a time, when threads share the rows.
const LOADED: usize = 256;

/// How steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// One per step.
    pub learning_rates: &'a [f64],
    /// The loss.
    pub form: PairwiseForm,
    /// The weights of violations.
    pub rank_weights: RankWeights<'a, f64>,
    /// The penalty.
    pub rule: UpdateRule,
    /// Triplets whose margins are taken at the same W.
    pub batch_size: usize,
}

/// How passive-aggressive steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct PassiveAggressivePlan<'a> {
    /// The loss.
    pub loss: PassiveAggressive,
    /// C.
    pub aggressiveness: f64,
    /// L(rank).
    pub rank_weights: &'a [f64],
    /// Number of documents that are ranked, for each step.
    pub list_sizes: &'a [i64],
    /// Whether entries that are zero may change.
    pub grow: bool,
}

/// Where results of passive-aggressive steps are written.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct PassiveResults<'a> {
    pub margins: &'a mut [f64],
    pub weights: &'a mut [f64],
    pub learning_rates: &'a mut [f64],
}

impl<T: Stored> Store<T> {
    /// Fill margins, violation weights and negatives of triplets at the current W.
    pub fn margins(
        &self,
        triplets: &Triplets<'_>,
        rank_weights: &RankWeights<'_, f64>,
        state: &ShrinkageState,
        out: Violations<'_>,
        team: &ThreadTeam,
    ) {
        let problem = Problem {
            triplets: *triplets,
            rank_weights: *rank_weights,
        };
        team.enter(|| margins(self.view(), &problem, state, out, &mut Vec::new(), team));
    }

    /// Take steps with known slopes, in order; triplets have one negative.
    pub fn update(
        &mut self,
        triplets: &Triplets<'_>,
        slopes: &[f64],
        learning_rates: &[f64],
        rule: &UpdateRule,
        state: &mut ShrinkageState,
        team: &ThreadTeam,
    ) {
        let mut negatives = filled(triplets.len(), 0);
        for (step, negative) in negatives.iter_mut().enumerate() {
            *negative = triplets.get(step)[2];
        }
        let mut part = self.part();
        let updates = Updates {
            triplets,
            negatives: &negatives,
            slopes,
            learning_rates,
            rule,
        };
        team.enter(|| updates.apply(&mut part, state, &mut UpdateBuffers::default(), team));
    }

    /// Sample and update, batch by batch; margins and violation weights are filled.
    pub fn train(
        &mut self,
        triplets: &Triplets<'_>,
        plan: &Plan<'_>,
        state: &mut ShrinkageState,
        out: StepResults<'_, f64>,
        team: &ThreadTeam,
    ) {
        let training = Training {
            part: self.part(),
            problem: Problem {
                triplets: *triplets,
                rank_weights: plan.rank_weights,
            },
            plan,
            out,
        };
        with_slope!(plan.form, |slope| {
            if plan.batch_size == 1 {
                training.one_by_one(slope, state);
            } else {
                team.enter(|| training.by_batches(slope, state, team));
            }
        });
    }

    /// Take passive-aggressive steps, one by one; all results are filled.
    pub fn passive_aggressive(
        &mut self,
        triplets: &Triplets<'_>,
        plan: &PassiveAggressivePlan<'_>,
        state: &mut ShrinkageState,
        out: PassiveResults<'_>,
    ) {
        let length = triplets.len();
        let rule = UpdateRule {
            prox_interval: 1.0,
            l1: 0.0,
            l2: 0.0,
            grow: plan.grow,
        };
        let mut part = self.part();
        let mut buffers = StepBuffers::default();
        for step in 0..length {
            let list_size = usize::try_from(plan.list_sizes[step]).unwrap_or(0);
            let problem = Problem {
                triplets: *triplets,
                rank_weights: RankWeights {
                    weights: plan.rank_weights,
                    n_documents: list_size,
                },
            };
            let (violation, known) = buffers.sample_and_load(&part.view(), &problem, step, state);
            let (left, right) = triplets.order(&buffers.query, &buffers.difference);
            let mut rate = 0.0;
            if violation.margin < 1.0 {
                let n = if plan.grow {
                    left.squares() * right.squares()
                } else {
                    let block = &mut buffers.block;
                    part.view().squares(left, right, state, block, known)
                };
                let c = plan.aggressiveness * violation.weight;
                rate = plan.loss.step_size(violation.margin, n, c);
            }
            (out.margins[step], out.weights[step]) = (violation.margin, violation.weight);
            out.learning_rates[step] = rate;
            state.step += 1.0;
            if rate != 0.0 {
                let step = Step {
                    left,
                    right,
                    factor: -rate,
                    grow: plan.grow,
                };
                part.add(step, state, &mut buffers.block, known);
            }
            end_step(&mut part, rate, &rule, state);
        }
    }
}

/// A training call: W, triplets, how steps are taken and where results go.
pub(super) struct Training<'a, 'p, T> {
    pub(super) part: Part<'a, T>,
    pub(super) problem: Problem<'p>,
    pub(super) plan: &'p Plan<'p>,
    pub(super) out: StepResults<'p, f64>,
}

impl<T: Stored> Training<'_, '_, T> {
    /// Take steps each of which sees the one before.
    fn one_by_one(mut self, slope: impl PairwiseSlope, state: &mut ShrinkageState) {
        let (part, plan, triplets) = (&mut self.part, self.plan, &self.problem.triplets);
        let mut buffers = StepBuffers::default();
        for (step, &learning_rate) in plan.learning_rates.iter().enumerate() {
            let (violation, known) =
                buffers.sample_and_load(&part.view(), &self.problem, step, state);
            (self.out.margins[step], self.out.weights[step]) = (violation.margin, violation.weight);
            state.step += 1.0;
            let slope = violation.weight * slope.slope(violation.margin);
            let factor = learning_rate * slope;
            if factor != 0.0 {
                let (left, right) = triplets.order(&buffers.query, &buffers.difference);
                let step = Step {
                    left,
                    right,
                    factor,
                    grow: plan.rule.grow,
                };
                part.add(step, state, &mut buffers.block, known);
            }
            end_step(part, learning_rate, &plan.rule, state);
        }
    }

    /// Take batches: all margins at the same W, then all steps.
    fn by_batches(
        mut self,
        slope: impl PairwiseSlope,
        state: &mut ShrinkageState,
        team: &ThreadTeam,
    ) {
        let (plan, length) = (self.plan, self.problem.triplets.len());
        let largest = plan.batch_size.min(length);
        let (mut negatives, mut slopes) = (filled(largest, 0), filled(largest, 0.0));
        let (mut buffers, mut update_buffers) = (Vec::new(), UpdateBuffers::default());
        for start in (0..length).step_by(plan.batch_size) {
            let batch = start..length.min(start.saturating_add(plan.batch_size));
            let problem = Problem {
                triplets: self.problem.triplets.range(batch.clone()),
                ..self.problem
            };
            let (negatives, slopes) = (&mut negatives[..batch.len()], &mut slopes[..batch.len()]);
            let weights = &mut self.out.weights[batch.clone()];
            let out = Violations {
                margins: &mut self.out.margins[batch.clone()],
                weights,
                negatives,
            };
            margins(self.part.view(), &problem, state, out, &mut buffers, team);
            let results = self.out.margins[batch.clone()].iter();
            let results = results.zip(&self.out.weights[batch.clone()]);
            for (out, (&margin, &weight)) in slopes.iter_mut().zip(results) {
                *out = weight * slope.slope(margin);
            }
            let updates = Updates {
                triplets: &problem.triplets,
                negatives,
                slopes,
                learning_rates: &plan.learning_rates[batch],
                rule: &plan.rule,
            };
            updates.apply(&mut self.part, state, &mut update_buffers, team);
        }
    }
}

/// End a step.
fn end_step<T: Stored>(
    part: &mut Part<'_, T>,
    learning_rate: f64,
    rule: &UpdateRule,
    state: &mut ShrinkageState,
) {
    if state.end_step(learning_rate, rule) {
        part.rebase_all(state);
        state.reset();
    }
    if state.ends_window(rule) {
        part.purge(state);
    }
}

/// Steps whose slopes are known.
struct Updates<'a> {
    triplets: &'a Triplets<'a>,
    negatives: &'a [i64],
    slopes: &'a [f64],
    learning_rates: &'a [f64],
    rule: &'a UpdateRule,
}

/// The vectors of steps that threads share, and a block for each thread.
#[derive(Default)]
struct UpdateBuffers<T> {
    steps: Vec<StepBuffers<T>>,
    rows: Vec<u32>,
    blocks: Vec<Block<T>>,
}

impl Updates<'_> {
    fn factor(&self, step: usize) -> f64 {
        self.learning_rates[step] * self.slopes[step]
    }

    fn step<'v>(
        &self,
        step: usize,
        query: &'v SparseVector,
        difference: &'v SparseVector,
    ) -> Step<'v> {
        let (left, right) = self.triplets.order(query, difference);
        Step {
            left,
            right,
            factor: self.factor(step),
            grow: self.rule.grow,
        }
    }

    /// Take the steps; call it within `ThreadTeam::enter`.
    fn apply<T: Stored>(
        &self,
        part: &mut Part<'_, T>,
        state: &mut ShrinkageState,
        buffers: &mut UpdateBuffers<T>,
        team: &ThreadTeam,
    ) {
        if team.threads() == 1 || self.triplets.len() == 1 {
            return self.apply_serially(part, state, buffers);
        }
        for start in (0..self.triplets.len()).step_by(LOADED) {
            let steps = start..self.triplets.len().min(start + LOADED);
            self.load(steps.clone(), buffers, team);
            self.apply_loaded(&steps, part, state, buffers, team);
        }
    }

    fn apply_serially<T: Stored>(
        &self,
        part: &mut Part<'_, T>,
        state: &mut ShrinkageState,
        buffers: &mut UpdateBuffers<T>,
    ) {
        if buffers.steps.is_empty() {
            buffers.steps.push(StepBuffers::default());
        }
        let buffers = &mut buffers.steps[0];
        for step in 0..self.triplets.len() {
            state.step += 1.0;
            if self.factor(step) != 0.0 {
                buffers.load(self.triplets, step, self.negatives[step]);
                let change = self.step(step, &buffers.query, &buffers.difference);
                buffers.block.start(1, change.right);
                part.add(change, state, &mut buffers.block, false);
            }
            end_step(part, self.learning_rates[step], self.rule, state);
        }
    }

    /// Load the vectors of steps, and list the rows that they change.
    fn load<T: Stored>(
        &self,
        steps: Range<usize>,
        buffers: &mut UpdateBuffers<T>,
        team: &ThreadTeam,
    ) {
        while buffers.steps.len() < steps.len() {
            buffers.steps.push(StepBuffers::default());
        }
        let loaded = steps.clone().zip(&mut buffers.steps);
        let loaded = loaded.filter(|(step, _)| self.factor(*step) != 0.0);
        team.run(loaded, |(step, buffers)| {
            buffers.load(self.triplets, *step, self.negatives[*step]);
        });
        buffers.rows.clear();
        for (step, loaded) in steps.zip(&buffers.steps) {
            if self.factor(step) != 0.0 {
                let left = self.step(step, &loaded.query, &loaded.difference).left;
                reserve(&mut buffers.rows, left.columns().len());
                buffers.rows.extend_from_slice(left.columns());
            }
        }
    }

    /// Take loaded steps with all threads, each of which has its own rows and replays the
    /// shrinkage state.
    fn apply_loaded<T: Stored>(
        &self,
        steps: &Range<usize>,
        part: &mut Part<'_, T>,
        state: &mut ShrinkageState,
        buffers: &mut UpdateBuffers<T>,
        team: &ThreadTeam,
    ) {
        buffers.blocks.resize_with(team.threads(), Block::default);
        let loaded = &buffers.steps;
        let parts = balanced(part, &mut buffers.rows, team.threads());
        let parts = parts.into_iter().zip(&mut buffers.blocks);
        let mut parts: Vec<_> = parts.map(|part| (part, *state)).collect();
        team.run(parts.iter_mut(), |((part, block), state)| {
            for (step, loaded) in steps.clone().zip(loaded) {
                state.step += 1.0;
                let change = self.step(step, &loaded.query, &loaded.difference);
                if change.factor != 0.0 {
                    block.start(1, change.right);
                    part.add(change, state, block, false);
                }
                end_step(part, self.learning_rates[step], self.rule, state);
            }
        });
        *state = parts.first().map_or(*state, |(_, replayed)| *replayed);
    }
}

/// Cut a part so that each piece has about as many of the rows that change.
fn balanced<'a, T: Stored>(
    part: &'a mut Part<'_, T>,
    changed: &mut [u32],
    pieces: usize,
) -> Vec<Part<'a, T>> {
    let layout = part.layout;
    for row in changed.iter_mut() {
        *row = u32::try_from(layout.place(*row)).unwrap_or(u32::MAX);
    }
    changed.sort_unstable();
    let mut rest = part.reborrow();
    let mut parts = Vec::with_capacity(pieces);
    for piece in 1..pieces {
        let Some(&place) = changed.get(changed.len() * piece / pieces) else {
            break;
        };
        // A group is not cut.
        let place = place as usize;
        let place = layout
            .group(place)
            .map_or(place, |group| layout.places(group).start);
        let rows = place.saturating_sub(rest.first);
        let (head, tail) = rest.cut(rows);
        parts.push(head);
        rest = tail;
    }
    parts.push(rest);
    parts
}
