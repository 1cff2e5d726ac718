//! Search and update, apart or block after block.

use crate::bilinear::{Failure, Form, filled};
use crate::factored::block::Blocks;
use crate::factored::parameters::{Factors, Sides};
use crate::factored::rows::Change;
use crate::factored::search::{Chosen, Slopes};
use crate::factored::source::{Source, Trials};
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;
use crate::pace::{Pace, TRY};
use crate::threads::Crew;

/// A block of fewer tuples is not worth the meetings of several threads.
const LEAST: usize = 16;

/// What is done to rows beside their steps.
#[derive(Clone, Copy, Debug)]
pub struct Shrinking {
    /// The largest norm of a row, or 0.
    pub max_norm: f32,
    /// The penalty.
    pub l2: f32,
}

/// How steps are taken.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// One a tuple.
    pub rates: &'a [f32],
    /// The loss.
    pub form: Form,
    /// What is done beside.
    pub shrinking: Shrinking,
    /// Tuples that are searched at the same parameters.
    pub block: usize,
}

/// Steps of one block.
#[derive(Clone, Copy, Debug)]
pub struct Steps<'a> {
    /// The query of each.
    pub queries: &'a [i64],
    /// Step i has the documents, and slopes, pointers[i]..pointers[i + 1].
    pub pointers: &'a [i64],
    /// The documents of all steps.
    pub documents: &'a [i64],
    /// One a document.
    pub slopes: &'a [f32],
}

impl Steps<'_> {
    fn check(&self, sides: &Sides<'_>) -> Result<(), Invalid> {
        let pointers = self.pointers.iter().map(|at| at.position());
        check_pointer(
            "step_ptr",
            pointers,
            self.queries.len(),
            self.documents.len(),
        )?;
        check_length("slopes", self.slopes.len(), self.documents.len())?;
        let last = |numbers: &[i64]| numbers.iter().map(|number| number.position()).max();
        let fits = |numbers: &[i64], count: usize| last(numbers).is_none_or(|last| last < count);
        if fits(self.queries, sides.queries.len()) && fits(self.documents, sides.documents.len()) {
            return Ok(());
        }
        Err(Invalid::new(
            "steps must have numbers of queries and documents.",
        ))
    }

    /// Those from share * size on, `size` at most.
    pub(super) fn share(&self, share: usize, size: usize) -> Self {
        let count = self.queries.len();
        let [first, end] = [share, share + 1].map(|share| count.min(share * size));
        Self {
            queries: &self.queries[first..end],
            pointers: &self.pointers[first..=end],
            ..*self
        }
    }

    /// How many documents they have.
    pub(super) fn n_documents(&self) -> usize {
        let ends = [self.pointers.first(), self.pointers.last()];
        let [first, end] = ends.map(|end| end.map_or(0, |end| end.position()));
        end - first
    }

    /// Their queries.
    pub(super) fn queries(&self) -> impl ExactSizeIterator<Item = u32> {
        self.queries.iter().copied().map(short)
    }

    /// The documents of all.
    pub(super) fn documents(&self) -> impl ExactSizeIterator<Item = u32> {
        let first = self.pointers.first().map_or(0, |first| first.position());
        let documents = self.documents[first..][..self.n_documents()].iter();
        documents.copied().map(short)
    }

    /// The steps that are not zero.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, impl Iterator<Item = (u32, f32)>)> {
        let steps = self.queries.iter().zip(self.pointers.windows(2));
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

/// The crew, unless there is too little to do for it.
fn enough(tuples: usize, crew: &Crew) -> Crew {
    if tuples < LEAST {
        Crew::alone()
    } else {
        crew.clone()
    }
}

fn check_size(block: usize) -> Result<(), Invalid> {
    // Two documents of a tuple are numbered.
    let most = u32::MAX as usize / 2;
    if block <= most {
        return Ok(());
    }
    Err(Invalid::new(format!("blocks are limited to {most}.")))
}

/// Fill query, better and worse of tuples, margins and violation weights.
///
/// # Errors
/// When sizes do not fit, or there is no memory.
pub fn factored_search(
    sides: &Sides<'_>,
    factors: &Factors<'_>,
    trials: &Trials<'_>,
    chosen: &mut [i64],
    margins: &mut [f32],
    weights: &mut [f32],
    crew: &Crew,
) -> Result<(), Failure> {
    let count = margins.len();
    factors.check(sides)?;
    trials.check(sides, count)?;
    check_size(count)?;
    check_length("chosen", chosen.len(), count.saturating_mul(3))?;
    check_length("weights", weights.len(), count)?;
    let crew = &enough(count, crew);
    crew.enter(|| {
        let mut found = filled(count, Chosen::default())?;
        let mut blocks = Blocks::new(sides, factors, count, crew)?;
        let by_trial = trials.weights();
        blocks.search(
            factors, trials, &by_trial, 0, &mut found, margins, weights, None,
        )?;
        for (chosen, found) in chosen.iter_mut().zip(found.as_flattened()) {
            *chosen = i64::from(*found);
        }
        Ok(())
    })
}

/// Take the steps of one block.
///
/// # Errors
/// When sizes do not fit, or there is no memory.
pub fn factored_update(
    sides: &Sides<'_>,
    factors: &mut Factors<'_>,
    squares: &mut Factors<'_>,
    steps: &Steps<'_>,
    rate: f32,
    shrinking: Shrinking,
    crew: &Crew,
) -> Result<(), Failure> {
    factors.check(sides)?;
    factors.check_squares(squares)?;
    steps.check(sides)?;
    check_size(steps.queries.len().max(steps.documents.len()))?;
    let crew = &enough(steps.queries.len(), crew);
    crew.enter(|| {
        let mut blocks = Blocks::new(sides, factors, steps.queries.len(), crew)?;
        blocks.note(factors, steps)?;
        let change = Change::new(rate, shrinking.max_norm, shrinking.l2);
        blocks.take(factors, squares, change)
    })
}

/// Take a step for each tuple, by blocks; margins and violation weights are filled.
///
/// # Errors
/// When sizes do not fit, or there is no memory; some steps may then have been taken.
pub fn factored_steps(
    sides: &Sides<'_>,
    factors: &mut Factors<'_>,
    squares: &mut Factors<'_>,
    trials: &Trials<'_>,
    plan: &Plan<'_>,
    margins: &mut [f32],
    weights: &mut [f32],
    crew: &Crew,
) -> Result<(), Failure> {
    let count = plan.rates.len();
    factors.check(sides)?;
    factors.check_squares(squares)?;
    trials.check(sides, count)?;
    check_length("margins", margins.len(), count)?;
    check_length("weights", weights.len(), count)?;
    let size = plan.block.min(count);
    check_size(size)?;
    if plan.block == 0 {
        return Err(Invalid::new("block is 0; it must be at least 1.").into());
    }
    let crew = &enough(size, crew);
    let one = &Crew::alone();
    crew.enter_awake(|| {
        let mut together = Blocks::new(sides, factors, size, crew)?;
        let mut alone = if crew.threads() > 1 && size < TRY {
            Some(Blocks::new(sides, factors, size, one)?)
        } else {
            None
        };
        let mut pace = Pace::new();
        let (mut trials, guides) = (*trials, trials.guides(count)?);
        if let Source::Drawn { lists, .. } = &mut trials.source {
            *lists = lists.guided(&guides);
        }
        let trials = &trials;
        let mut chosen = filled(size, Chosen::default())?;
        let by_trial = trials.weights();
        let adagrad = !squares.u.is_empty();
        let outputs = margins.chunks_mut(plan.block);
        let outputs = outputs.zip(weights.chunks_mut(plan.block));
        let parts = plan.rates.chunks(plan.block).zip(outputs);
        for (number, (rates, (margins, weights))) in parts.enumerate() {
            let (first, chosen) = (number * plan.block, &mut chosen[..rates.len()]);
            let blocks = match &mut alone {
                Some(alone) if pace.is_alone() => alone,
                _ => &mut together,
            };
            let slopes = Slopes {
                form: plan.form,
                rates: if adagrad { &[] } else { rates },
            };
            blocks.search(
                factors,
                trials,
                &by_trial,
                first,
                chosen,
                margins,
                weights,
                Some(slopes),
            )?;
            let Shrinking { max_norm, l2 } = plan.shrinking;
            blocks.take(factors, squares, Change::new(rates[0], max_norm, l2))?;
            pace.count(rates.len());
        }
        Ok(())
    })
}
