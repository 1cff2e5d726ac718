//! Steps in no order: threads meet at boundaries, and no two are in one row (or group) at a time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::bilinear::Failure;
use crate::bilinear::groups::Layout;
use crate::bilinear::lens::Clock;
use crate::bilinear::objects::{Tuples, Vector};
use crate::bilinear::part::{Part, Reader, Step};
use crate::bilinear::row::Found;
use crate::bilinear::search::Scratch;
use crate::bilinear::steps::Plan;
use crate::bilinear::stored::Stored;
use crate::contract::HOGWILD_BLOCK;
use crate::threads::Crew;

/// W cut into what is changed as one: rows, or groups of them.
struct Pieces<'a, T> {
    pieces: Vec<Mutex<Part<'a, T>>>,
    layout: &'a Layout,
}

impl<'a, T: Stored> Pieces<'a, T> {
    fn new(part: Part<'a, T>) -> Result<Self, Failure> {
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
                pieces.push(Mutex::new(head.nothing()));
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
}

impl<T: Stored> Reader<T> for Pieces<'_, T> {
    fn read(&self, row: u32, right: &Vector, clock: &Clock, found: Found<'_, T>) -> f64 {
        let place = self.layout.place(row);
        self.lock(place).view().read(row, right, clock, found)
    }
}

/// A thread's room, what it found by step, and how it went.
struct Worker<T> {
    scratch: Scratch<T>,
    found: Vec<(usize, f64, f64)>,
    result: Result<(), Failure>,
}

/// Take steps with all threads.
pub(super) fn steps<T: Stored>(
    part: Part<'_, T>,
    tuples: &Tuples<'_>,
    plan: &Plan<'_>,
    clock: &mut Clock,
    margins: &mut [f64],
    weights: &mut [f64],
    crew: &Crew,
) -> Result<(), Failure> {
    let mut pieces = Pieces::new(part)?;
    let mut workers = Vec::new();
    workers.resize_with(crew.threads(), || Worker {
        scratch: Scratch::default(),
        found: Vec::new(),
        result: Ok(()),
    });
    crew.enter(|| {
        let mut start = 0;
        while start < tuples.len() {
            let stop = meeting(start, tuples.len(), plan, clock);
            let next = AtomicUsize::new(start);
            crew.for_each(&mut workers, |worker| {
                worker.result = (|| {
                    loop {
                        let step = next.fetch_add(1, Ordering::Relaxed);
                        if step >= stop {
                            return Ok(());
                        }
                        worker.step(&pieces, tuples, plan, step, &now(clock, step - start))?;
                    }
                })();
            });
            for worker in &mut workers {
                for (step, margin, weight) in worker.found.drain(..) {
                    (margins[step], weights[step]) = (margin, weight);
                }
                std::mem::replace(&mut worker.result, Ok(()))?;
            }
            for &rate in &plan.rates[start..stop] {
                clock.step += 1.0;
                let parts = pieces.pieces.iter_mut();
                let parts =
                    parts.map(|piece| piece.get_mut().unwrap_or_else(PoisonError::into_inner));
                if clock.tick(rate, &plan.penalty) {
                    parts.for_each(|part| part.restart(clock));
                    clock.restart();
                } else if clock.ends_window(&plan.penalty) {
                    parts.for_each(|part| part.purge(clock));
                }
            }
            start = stop;
        }
        Ok(())
    })
}

/// The step before which threads meet next: after a boundary, if there is a penalty.
fn meeting(start: usize, steps: usize, plan: &Plan<'_>, clock: &Clock) -> usize {
    if plan.penalty.is_none() {
        return steps.min(start + HOGWILD_BLOCK);
    }
    steps.min(start.saturating_add(boundary(clock.step, plan.penalty.every)))
}

/// The clock during a step; its number says to which window the step belongs.
#[expect(
    clippy::cast_precision_loss,
    reason = "there are less than 2**53 steps"
)]
fn now(clock: &Clock, ahead: usize) -> Clock {
    Clock {
        step: clock.step + (ahead + 1) as f64,
        ..*clock
    }
}

/// How many steps there are to the next boundary.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
fn boundary(step: f64, every: f64) -> usize {
    (every - step % every) as usize
}

impl<T: Stored> Worker<T> {
    /// Take a step.
    fn step(
        &mut self,
        pieces: &Pieces<'_, T>,
        tuples: &Tuples<'_>,
        plan: &Plan<'_>,
        step: usize,
        clock: &Clock,
    ) -> Result<(), Failure> {
        let (scratch, layout) = (&mut self.scratch, pieces.layout);
        let found = scratch.search(pieces, layout, tuples, step, &plan.ranks, clock)?;
        self.found.try_reserve(1)?;
        self.found.push((step, found.margin, found.weight));
        let slope = found.weight * plan.form.slope(found.margin);
        let factor = plan.rates[step] * slope;
        if factor == 0.0 {
            return Ok(());
        }
        scratch.load(tuples, step, tuples.get(step)[found.place], layout)?;
        let (left, right) = tuples.sides(&scratch.query, &scratch.apart);
        let change = Step {
            left,
            right,
            factor,
            grow: plan.grow,
        };
        scratch.block.start(1, right)?;
        for (row, a) in left.entries() {
            let place = layout.place(row);
            let mut piece = pieces.lock(place);
            // Another thread may have been here since this one looked.
            piece.add_row(place, a, change, clock, &mut scratch.block, false, 0)?;
        }
        Ok(())
    }
}
