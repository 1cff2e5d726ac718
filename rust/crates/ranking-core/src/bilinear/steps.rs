//! Steps: one by one, or a batch's margins by tuple and then its changes by row.

use crate::bilinear::lens::{Clock, Penalty};
use crate::bilinear::objects::{Tuples, Vector};
use crate::bilinear::part::{Block, Part, Step};
use crate::bilinear::search::{Form, Ranks, Scratch, margins};
use crate::bilinear::store::Store;
use crate::bilinear::stored::Stored;
use crate::bilinear::{Failure, filled, hogwild};
use crate::invalid::{Invalid, check_length};
use crate::threads::Crew;

/// Steps whose vectors are held at a time, when threads share the rows.
const HELD: usize = 256;

/// How steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// One a step.
    pub rates: &'a [f64],
    /// The loss.
    pub form: Form,
    /// The weights of violations.
    pub ranks: Ranks<'a>,
    /// The penalty.
    pub penalty: Penalty,
    /// Entries that are zero move, too.
    pub grow: bool,
    /// Tuples whose margins are taken at the same W.
    pub batch: usize,
    /// Threads take steps in no order.
    pub hogwild: bool,
}

/// How passive-aggressive steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct PassivePlan<'a> {
    /// The hinge or its square.
    pub form: Form,
    /// C.
    pub aggressiveness: f64,
    /// L(rank).
    pub rank_weights: &'a [f64],
    /// How many there are to be ranked, one a step.
    pub n_documents: &'a [i64],
    /// Entries that are zero move, too.
    pub grow: bool,
}

impl<T: Stored> Store<T> {
    /// Fill margins, violation weights and chosen negatives of tuples at the current W.
    ///
    /// # Errors
    /// When sizes do not fit, or there is no memory.
    pub fn margins(
        &self,
        tuples: &Tuples<'_>,
        ranks: &Ranks<'_>,
        clock: &Clock,
        out_margins: &mut [f64],
        weights: &mut [f64],
        negatives: &mut [i64],
        crew: &Crew,
    ) -> Result<(), Failure> {
        crew.enter(|| {
            margins(
                self.view(),
                tuples,
                ranks,
                clock,
                out_margins,
                weights,
                negatives,
                &mut Vec::new(),
                crew,
            )
        })
    }

    /// Take steps with given slopes, in order.
    ///
    /// # Errors
    /// When sizes do not fit, or there is no memory; some steps may then have been taken.
    pub fn update(
        &mut self,
        tuples: &Tuples<'_>,
        negatives: &[i64],
        slopes: &[f64],
        rates: &[f64],
        penalty: &Penalty,
        grow: bool,
        clock: &mut Clock,
        crew: &Crew,
    ) -> Result<(), Failure> {
        check_length("negatives", negatives.len(), tuples.len())?;
        check_length("slopes", slopes.len(), tuples.len())?;
        check_length("rates", rates.len(), tuples.len())?;
        let mut part = self.part();
        let changes = Changes {
            tuples,
            negatives,
            slopes,
            rates,
            penalty,
            grow,
        };
        crew.enter(|| changes.take(&mut part, clock, &mut Held::default(), crew))
    }

    /// Take margins and steps, batch after batch; margins and violation weights are filled.
    ///
    /// # Errors
    /// When sizes do not fit, or there is no memory; some steps may then have been taken.
    pub fn steps(
        &mut self,
        tuples: &Tuples<'_>,
        plan: &Plan<'_>,
        clock: &mut Clock,
        margins: &mut [f64],
        weights: &mut [f64],
        crew: &Crew,
    ) -> Result<(), Failure> {
        check_length("rates", plan.rates.len(), tuples.len())?;
        check_length("margins", margins.len(), tuples.len())?;
        check_length("weights", weights.len(), tuples.len())?;
        if plan.batch == 0 {
            return Err(Invalid::new("batch is 0; it must be at least 1.").into());
        }
        let part = self.part();
        if plan.hogwild && crew.threads() > 1 {
            return hogwild::steps(part, tuples, plan, clock, margins, weights, crew);
        }
        if plan.batch == 1 {
            return one_by_one(part, tuples, plan, clock, margins, weights);
        }
        crew.enter(|| batches(part, tuples, plan, clock, margins, weights, crew))
    }

    /// Take passive-aggressive steps, one by one; margins, violation weights and rates are filled.
    ///
    /// # Errors
    /// When sizes do not fit, or there is no memory; some steps may then have been taken.
    pub fn passive(
        &mut self,
        tuples: &Tuples<'_>,
        plan: &PassivePlan<'_>,
        clock: &mut Clock,
        margins: &mut [f64],
        weights: &mut [f64],
        rates: &mut [f64],
    ) -> Result<(), Failure> {
        check_length("n_documents", plan.n_documents.len(), tuples.len())?;
        check_length("margins", margins.len(), tuples.len())?;
        check_length("weights", weights.len(), tuples.len())?;
        check_length("rates", rates.len(), tuples.len())?;
        if !matches!(plan.form, Form::Hinge | Form::SquaredHinge) {
            return Err(Invalid::new("the loss must be the hinge or its square.").into());
        }
        let penalty = Penalty::new(1.0, 0.0, 0.0)?;
        let mut part = self.part();
        let mut scratch = Scratch::default();
        for step in 0..tuples.len() {
            let layout = part.layout;
            let n_documents = usize::try_from(plan.n_documents[step]).unwrap_or(0);
            let ranks = Ranks::new(plan.rank_weights, n_documents)?;
            let (found, known) = scratch.find(&part.view(), layout, tuples, step, &ranks, clock)?;
            let (left, right) = tuples.sides(&scratch.query, &scratch.apart);
            let mut rate = 0.0;
            if found.margin < 1.0 {
                let n = if plan.grow {
                    left.squares() * right.squares()
                } else {
                    let block = &mut scratch.block;
                    part.view().squares(left, right, clock, block, known)
                };
                let most = plan.aggressiveness * found.weight;
                rate = plan.form.passive_rate(found.margin, n, most);
            }
            (margins[step], weights[step], rates[step]) = (found.margin, found.weight, rate);
            clock.step += 1.0;
            if rate != 0.0 {
                let change = Step {
                    left,
                    right,
                    factor: -rate,
                    grow: plan.grow,
                };
                part.add(change, clock, &mut scratch.block, known)?;
            }
            tick(&mut part, rate, &penalty, clock);
        }
        Ok(())
    }
}

/// Take steps each of which sees the one before.
fn one_by_one<T: Stored>(
    mut part: Part<'_, T>,
    tuples: &Tuples<'_>,
    plan: &Plan<'_>,
    clock: &mut Clock,
    margins: &mut [f64],
    weights: &mut [f64],
) -> Result<(), Failure> {
    let mut scratch = Scratch::default();
    for step in 0..tuples.len() {
        let layout = part.layout;
        let (found, known) =
            scratch.find(&part.view(), layout, tuples, step, &plan.ranks, clock)?;
        (margins[step], weights[step]) = (found.margin, found.weight);
        clock.step += 1.0;
        let slope = found.weight * plan.form.slope(found.margin);
        let factor = plan.rates[step] * slope;
        if factor != 0.0 {
            let (left, right) = tuples.sides(&scratch.query, &scratch.apart);
            let change = Step {
                left,
                right,
                factor,
                grow: plan.grow,
            };
            part.add(change, clock, &mut scratch.block, known)?;
        }
        tick(&mut part, plan.rates[step], &plan.penalty, clock);
    }
    Ok(())
}

/// End a step.
pub(super) fn tick<T: Stored>(
    part: &mut Part<'_, T>,
    rate: f64,
    penalty: &Penalty,
    clock: &mut Clock,
) {
    if clock.tick(rate, penalty) {
        part.restart(clock);
        clock.restart();
    }
    if clock.ends_window(penalty) {
        part.purge(clock);
    }
}

fn batches<T: Stored>(
    mut part: Part<'_, T>,
    tuples: &Tuples<'_>,
    plan: &Plan<'_>,
    clock: &mut Clock,
    all_margins: &mut [f64],
    weights: &mut [f64],
    crew: &Crew,
) -> Result<(), Failure> {
    let most = plan.batch.min(tuples.len());
    let (mut negatives, mut slopes) = (filled(most, 0)?, filled(most, 0.0)?);
    let (mut scratches, mut held) = (Vec::new(), Held::default());
    for start in (0..tuples.len()).step_by(plan.batch) {
        let steps = start..tuples.len().min(start.saturating_add(plan.batch));
        let tuples = tuples.part(steps.clone());
        let (negatives, slopes) = (&mut negatives[..tuples.len()], &mut slopes[..tuples.len()]);
        let (found, weights) = (&mut all_margins[steps.clone()], &mut weights[steps.clone()]);
        margins(
            part.view(),
            &tuples,
            &plan.ranks,
            clock,
            found,
            weights,
            negatives,
            &mut scratches,
            crew,
        )?;
        for ((slope, &weight), &margin) in slopes.iter_mut().zip(&*weights).zip(&*found) {
            *slope = weight * plan.form.slope(margin);
        }
        let changes = Changes {
            tuples: &tuples,
            negatives,
            slopes,
            rates: &plan.rates[steps],
            penalty: &plan.penalty,
            grow: plan.grow,
        };
        changes.take(&mut part, clock, &mut held, crew)?;
    }
    Ok(())
}

/// Steps whose slopes are known.
struct Changes<'a> {
    tuples: &'a Tuples<'a>,
    negatives: &'a [i64],
    slopes: &'a [f64],
    rates: &'a [f64],
    penalty: &'a Penalty,
    grow: bool,
}

/// The vectors of steps that threads share, and each thread's room.
struct Held<T> {
    steps: Vec<(Scratch<T>, Result<(), Failure>)>,
    rows: Vec<u32>,
    blocks: Vec<Block<T>>,
}

impl<T: Stored> Default for Held<T> {
    fn default() -> Self {
        Self {
            steps: Vec::new(),
            rows: Vec::new(),
            blocks: Vec::new(),
        }
    }
}

impl Changes<'_> {
    fn factor(&self, step: usize) -> f64 {
        self.rates[step] * self.slopes[step]
    }

    fn step<'v>(&self, step: usize, query: &'v Vector, apart: &'v Vector) -> Step<'v> {
        let (left, right) = self.tuples.sides(query, apart);
        Step {
            left,
            right,
            factor: self.factor(step),
            grow: self.grow,
        }
    }

    /// Take the steps; call it within `Crew::enter`.
    fn take<T: Stored>(
        &self,
        part: &mut Part<'_, T>,
        clock: &mut Clock,
        held: &mut Held<T>,
        crew: &Crew,
    ) -> Result<(), Failure> {
        if crew.threads() == 1 || self.tuples.len() == 1 {
            return self.take_alone(part, clock, held);
        }
        for start in (0..self.tuples.len()).step_by(HELD) {
            let stop = self.tuples.len().min(start + HELD);
            self.take_together(start..stop, part, clock, held, crew)?;
        }
        Ok(())
    }

    fn take_alone<T: Stored>(
        &self,
        part: &mut Part<'_, T>,
        clock: &mut Clock,
        held: &mut Held<T>,
    ) -> Result<(), Failure> {
        if held.steps.is_empty() {
            held.steps.push((Scratch::default(), Ok(())));
        }
        let scratch = &mut held.steps[0].0;
        for step in 0..self.tuples.len() {
            clock.step += 1.0;
            if self.factor(step) != 0.0 {
                scratch.load(self.tuples, step, self.negatives[step], part.layout)?;
                let change = self.step(step, &scratch.query, &scratch.apart);
                scratch.block.start(1, change.right)?;
                part.add(change, clock, &mut scratch.block, false)?;
            }
            tick(part, self.rates[step], self.penalty, clock);
        }
        Ok(())
    }

    /// Take some steps with all threads, each of which has its own rows and replays the clock.
    fn take_together<T: Stored>(
        &self,
        steps: std::ops::Range<usize>,
        part: &mut Part<'_, T>,
        clock: &mut Clock,
        held: &mut Held<T>,
        crew: &Crew,
    ) -> Result<(), Failure> {
        let layout = part.layout;
        while held.steps.len() < steps.len() {
            held.steps.push((Scratch::default(), Ok(())));
        }
        let mut loaded: Vec<_> = steps.clone().zip(&mut held.steps).collect();
        crew.for_each(&mut loaded, |(step, (scratch, result))| {
            *result = if self.factor(*step) == 0.0 {
                Ok(())
            } else {
                scratch.load(self.tuples, *step, self.negatives[*step], layout)
            };
        });
        for (_, (_, result)) in &mut loaded {
            std::mem::replace(result, Ok(()))?;
        }
        let changes = || {
            let changes = steps.clone().zip(&held.steps);
            changes.map(|(step, (held, _))| self.step(step, &held.query, &held.apart))
        };
        let mine = |change: &Step<'_>| change.factor != 0.0;
        held.rows.clear();
        for change in changes().filter(mine) {
            held.rows.try_reserve(change.left.at().len())?;
            held.rows.extend_from_slice(change.left.at());
        }
        held.blocks.resize_with(crew.threads(), Block::default);
        let parts = shared_out(part, &mut held.rows, crew.threads());
        let mut parts: Vec<_> = parts
            .into_iter()
            .zip(&mut held.blocks)
            .map(|(part, block)| (part, block, *clock, Ok(())))
            .collect();
        crew.for_each(&mut parts, |(part, block, clock, result)| {
            *result = (|| {
                for (step, change) in steps.clone().zip(changes()) {
                    clock.step += 1.0;
                    if change.factor != 0.0 {
                        block.start(1, change.right)?;
                        part.add(change, clock, block, false)?;
                    }
                    tick(part, self.rates[step], self.penalty, clock);
                }
                Ok::<_, Failure>(())
            })();
        });
        for (_, _, replayed, result) in parts {
            *clock = replayed;
            result?;
        }
        Ok(())
    }
}

/// Cut a part so that each piece has about as many of the rows that are touched.
fn shared_out<'a, T: Stored>(
    part: &'a mut Part<'_, T>,
    touched: &mut [u32],
    pieces: usize,
) -> Vec<Part<'a, T>> {
    let layout = part.layout;
    for row in touched.iter_mut() {
        *row = u32::try_from(layout.place(*row)).unwrap_or(u32::MAX);
    }
    touched.sort_unstable();
    let mut rest = part.whole();
    let mut parts = Vec::with_capacity(pieces);
    for piece in 1..pieces {
        let Some(&place) = touched.get(touched.len() * piece / pieces) else {
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
