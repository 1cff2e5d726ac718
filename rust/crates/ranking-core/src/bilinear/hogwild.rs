//! Steps in no order: threads wait at barriers, and no two are in one row (or group) at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bilinear::features::SparseVector;
use crate::bilinear::groups::Layout;
use crate::bilinear::margins::{Problem, StepBuffers};
use crate::bilinear::part::{Part, Reader, Step};
use crate::bilinear::row::RowEntries;
use crate::bilinear::shrinkage::{ShrinkageState, UpdateRule};
use crate::bilinear::train::{Plan, Training};
use crate::constants::HOGWILD_BLOCK;
use crate::error::Error;
use crate::matrix::Stored;
use crate::pairwise::PairwiseSlope;
use crate::threads::ThreadTeam;

/// W in pieces that change as one: rows, or groups of them.
struct Pieces<'a, T> {
    pieces: Vec<Mutex<Part<'a, T>>>,
    layout: &'a Layout,
}

impl<'a, T: Stored> Pieces<'a, T> {
    fn new(part: Part<'a, T>) -> Result<Self, Error> {
        let layout = part.layout;
        let mut pieces = Vec::new();
        pieces.try_reserve_exact(part.rows.len().max(part.groups.len()))?;
        let mut rest = part;
        while !rest.rows.is_empty() {
            let size = layout
                .group(rest.first)
                .map_or(1, |group| layout.places(group).len());
            let (head, tail) = rest.cut(size);
            // Groups without rows would shift the numbers.
            let number = layout.group(head.first).unwrap_or(head.first);
            while pieces.len() < number {
                pieces.push(Mutex::new(head.empty()));
            }
            pieces.push(Mutex::new(head));
            rest = tail;
        }
        Ok(Self { pieces, layout })
    }

    fn lock(&self, place: usize) -> MutexGuard<'_, Part<'a, T>> {
        let number = self.layout.group(place).unwrap_or(place);
        let piece = &self.pieces[number];
        piece.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// End steps that all threads have taken.
    fn end_steps(&mut self, learning_rates: &[f64], rule: &UpdateRule, state: &mut ShrinkageState) {
        for &learning_rate in learning_rates {
            state.step += 1.0;
            let parts = self.pieces.iter_mut();
            let parts = parts.map(|piece| piece.get_mut().unwrap_or_else(PoisonError::into_inner));
            if state.end_step(learning_rate, rule) {
                parts.for_each(|part| part.rebase_all(state));
                state.reset();
            } else if state.ends_window(rule) {
                parts.for_each(|part| part.purge(state));
            }
        }
    }
}

impl<T: Stored> Reader<T> for Pieces<'_, T> {
    fn read(
        &self,
        row: u32,
        right: &SparseVector,
        state: &ShrinkageState,
        entries: RowEntries<'_, T>,
    ) -> f64 {
        let place = self.layout.place(row);
        self.lock(place).view().read(row, right, state, entries)
    }
}

/// A thread's buffers, and its results by step.
#[derive(Default)]
struct Worker<T> {
    buffers: StepBuffers<T>,
    results: Vec<(usize, f64, f64)>,
}

/// Take steps with all threads.
pub(super) fn train<T: Stored>(
    training: Training<'_, '_, T>,
    slope: impl PairwiseSlope,
    state: &mut ShrinkageState,
    team: &ThreadTeam,
) -> Result<(), Error> {
    let Training {
        part,
        problem,
        plan,
        out,
    } = training;
    let mut pieces = Pieces::new(part)?;
    let mut workers = Vec::new();
    workers.resize_with(team.threads(), Worker::default);
    team.enter(|| {
        let (mut start, length) = (0, problem.triplets.len());
        while start < length {
            let stop = barrier(start, length, plan, state);
            let next = AtomicUsize::new(start);
            let outcome = team.try_for_each(workers.iter_mut(), |worker| {
                loop {
                    let step = next.fetch_add(1, Ordering::Relaxed);
                    if step >= stop {
                        return Ok(());
                    }
                    let state = state_at(state, step - start);
                    worker.step(&pieces, &problem, plan, slope, step, &state)?;
                }
            });
            let results = workers.iter_mut();
            for (step, margin, weight) in results.flat_map(|worker| worker.results.drain(..)) {
                (out.margins[step], out.weights[step]) = (margin, weight);
            }
            outcome?;
            pieces.end_steps(&plan.learning_rates[start..stop], &plan.rule, state);
            start = stop;
        }
        Ok(())
    })
}

/// The step before which threads wait for each other next: that after an application of the
/// penalty, if there is one.
fn barrier(start: usize, steps: usize, plan: &Plan<'_>, state: &ShrinkageState) -> usize {
    if plan.rule.has_no_penalty() {
        return steps.min(start + HOGWILD_BLOCK);
    }
    steps.min(start.saturating_add(steps_left(state.step, plan.rule.prox_interval)))
}

/// The state during a step; its number says to which window the step belongs.
#[expect(
    clippy::cast_precision_loss,
    reason = "there are less than 2**53 steps"
)]
fn state_at(state: &ShrinkageState, ahead: usize) -> ShrinkageState {
    ShrinkageState {
        step: state.step + (ahead + 1) as f64,
        ..*state
    }
}

/// Number of steps to the next application of the penalty.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn steps_left(step: f64, prox_interval: f64) -> usize {
    (prox_interval - step % prox_interval) as usize
}

impl<T: Stored> Worker<T> {
    fn step(
        &mut self,
        pieces: &Pieces<'_, T>,
        problem: &Problem<'_>,
        plan: &Plan<'_>,
        slope: impl PairwiseSlope,
        step: usize,
        state: &ShrinkageState,
    ) -> Result<(), Error> {
        let (buffers, layout) = (&mut self.buffers, pieces.layout);
        let violation = buffers.sample(pieces, layout, problem, step, state)?;
        self.results.try_reserve(1)?;
        self.results
            .push((step, violation.margin, violation.weight));
        let slope = violation.weight * slope.slope(violation.margin);
        let factor = plan.learning_rates[step] * slope;
        if factor == 0.0 {
            return Ok(());
        }
        let triplets = &problem.triplets;
        let negative = triplets.get(step)[violation.position];
        buffers.load(triplets, step, negative, layout)?;
        let (left, right) = triplets.order(&buffers.query, &buffers.difference);
        let step = Step {
            left,
            right,
            factor,
            grow: plan.rule.grow,
        };
        buffers.block.start(1, right)?;
        for (row, a) in left.entries() {
            let place = layout.place(row);
            let mut piece = pieces.lock(place);
            // Another thread may have changed the row since this one read it.
            piece.add_row(place, a, step, state, &mut buffers.block, None)?;
        }
        Ok(())
    }
}
