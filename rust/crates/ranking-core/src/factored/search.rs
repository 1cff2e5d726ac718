//! The search for negatives, at the parameters as they are.

use crate::bilinear::{Failure, Form, Stored};
use crate::dispatch::Job;
use crate::factored::nearby::Near;
use crate::factored::notes::Notes;
use crate::factored::parameters::{Side, View, WIDTHS};
use crate::factored::source::{Start, Trials};
use crate::guides::Place;
use crate::lanes::Machine;
use crate::wide::dot_wide;

/// Tuples that are searched side by side, one trial after the other: so many that their lists stay
/// in the fastest cache.
const RUN: usize = 32;

/// Query, better and worse document.
pub type Chosen = [u32; 3];

/// What a thread needs to search, kept from block to block.
#[derive(Debug)]
pub(super) struct Room {
    starts: [Start; RUN],
    /// The first of a tuple's positives.
    firsts: [u32; RUN],
    /// The score of the better, and how much it counts.
    highs: [(f32, f32); RUN],
    /// All positives of a tuple: the document, how much it counts, and its score.
    positives: Vec<(u32, f32, f32)>,
    /// Tuples that are still to be searched.
    open: [u32; RUN],
    places: [Place; RUN],
    worse: [u32; RUN],
    margins: [f32; RUN],
    weights: [f32; RUN],
}

impl Default for Room {
    fn default() -> Self {
        Self {
            starts: [Start::default(); RUN],
            firsts: [0; RUN],
            highs: [(0.0, 0.0); RUN],
            positives: Vec::new(),
            open: [0; RUN],
            places: [Place::default(); RUN],
            worse: [0; RUN],
            margins: [0.0; RUN],
            weights: [0.0; RUN],
        }
    }
}

/// How margins become steps.
#[derive(Clone, Copy)]
pub(super) struct Slopes<'a> {
    pub(super) form: Form,
    /// One a tuple; none if a row's rate is its own.
    pub(super) rates: &'a [f32],
}

impl Slopes<'_> {
    #[inline(always)]
    fn slope(&self, at: usize, margin: f32, weight: f32) -> f32 {
        let slope = weight * single_slope(self.form, margin);
        self.rates.get(at).map_or(slope, |rate| rate * slope)
    }
}

/// The derivative of the loss; the logistic one and a plugin's in double precision.
#[inline(always)]
fn single_slope(form: Form, margin: f32) -> f32 {
    match form {
        Form::Logistic | Form::Native(_) => f32::narrow(form.slope(f64::from(margin))),
        Form::Hinge if margin < 1.0 => -1.0,
        Form::SquaredHinge if margin < 1.0 => -2.0 * (1.0 - margin),
        _ => 0.0,
    }
}

/// A share of a block's tuples.
pub(super) struct Search<'a, 'o> {
    pub(super) trials: &'a Trials<'a>,
    /// L by trial.
    pub(super) by_trial: &'a [f32],
    pub(super) queries: Side<'a>,
    pub(super) documents: Side<'a>,
    pub(super) near_queries: Near<'o>,
    pub(super) near_documents: Near<'o>,
    /// The number of the first tuple.
    pub(super) first: usize,
    pub(super) chosen: &'o mut [Chosen],
    pub(super) margins: &'o mut [f32],
    pub(super) weights: &'o mut [f32],
    pub(super) room: &'o mut Room,
    /// If steps are taken: how, and where they are written down.
    pub(super) steps: Option<(Slopes<'a>, Notes<'o>)>,
}

impl Job for Search<'_, '_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Result<(), Failure> {
        let is_plain = [&self.queries, &self.documents].map(Side::is_plain);
        let known = WIDTHS.map(|width| is_plain == [true; 2] && self.queries.chunks == width);
        match known {
            [true, ..] => self.plain(machine, WIDTHS[0]),
            [_, true, _] => self.plain(machine, WIDTHS[1]),
            [.., true] => self.plain(machine, WIDTHS[2]),
            _ => self.all(machine, is_plain),
        }
    }
}

type Run = std::ops::Range<usize>;

impl Search<'_, '_> {
    /// Search where all vectors are rows of a width that is known.
    #[inline(always)]
    fn plain<M: Machine>(mut self, machine: M, chunks: usize) -> Result<(), Failure> {
        (self.queries.chunks, self.documents.chunks) = (chunks, chunks);
        (self.near_queries, self.near_documents) = (Near::Plain, Near::Plain);
        self.all(machine, [true; 2])
    }

    #[inline(always)]
    fn all<M: Machine>(mut self, machine: M, is_plain: [bool; 2]) -> Result<(), Failure> {
        for start in (0..self.chosen.len()).step_by(RUN) {
            let run = start..self.chosen.len().min(start + RUN);
            self.begin(machine, is_plain[0], run.clone())?;
            self.find_positives(machine, is_plain[1], run.clone())?;
            self.search(machine, is_plain[1], run.clone())?;
            self.note(machine, run);
        }
        Ok(())
    }

    /// Find the queries of tuples.
    #[inline(always)]
    fn begin<M: Machine>(&mut self, machine: M, is_plain: bool, run: Run) -> Result<(), Failure> {
        let starts = &mut self.room.starts[..run.len()];
        self.trials.begin(machine, self.first + run.start, starts);
        for (start, chosen) in starts.iter().zip(&mut self.chosen[run.clone()]) {
            chosen[0] = u32::try_from(start.query).unwrap_or(u32::MAX);
            self.queries.ask(machine, is_plain, chosen[0]);
        }
        let wanted = self.chosen[run].iter().map(|chosen| chosen[0]);
        self.near_queries.load(machine, &self.queries, wanted)
    }

    /// Find the positives of tuples.
    #[inline(always)]
    fn find_positives<M: Machine>(
        &mut self,
        machine: M,
        is_plain: bool,
        run: Run,
    ) -> Result<(), Failure> {
        let room = &mut *self.room;
        room.positives.clear();
        room.positives
            .try_reserve(run.len() * self.trials.positives)?;
        let tuples = (self.first + run.start..).zip(&room.starts[..run.len()]);
        for ((tuple, start), first) in tuples.zip(&mut room.firsts) {
            for at in 0..self.trials.positives {
                let (document, weight) = self.trials.positive(start, tuple, at);
                self.documents.ask(machine, is_plain, document);
                room.positives.push((document, weight, 0.0));
                if at == 0 {
                    *first = document;
                }
            }
        }
        let wanted = room.positives.iter().map(|positive| positive.0);
        self.near_documents.load(machine, &self.documents, wanted)
    }

    /// Choose the better of the positives, and look for violations: fill the worse, margins and
    /// weights.
    #[inline(always)]
    fn search<M: Machine>(&mut self, machine: M, is_plain: bool, run: Run) -> Result<(), Failure> {
        let room = &mut *self.room;
        let (documents, mut left) = (self.documents, run.len());
        for (open, at) in room.open.iter_mut().zip(0..) {
            *open = at;
        }
        let only = self.by_trial.len() == 1;
        for (trial, &weight) in self.by_trial.iter().enumerate() {
            if left == 0 {
                break;
            }
            let open = &mut room.open[..left];
            self.trials.negatives(
                machine,
                &room.starts,
                self.first + run.start,
                &room.firsts,
                open,
                trial,
                &mut room.places,
                #[inline(always)]
                |at, worse| {
                    documents.ask(machine, is_plain, worse);
                    room.worse[at % RUN] = worse;
                },
            );
            let wanted = open.iter().map(|&at| room.worse[at as usize % RUN]);
            self.near_documents.load(machine, &self.documents, wanted)?;
            let queries = self.near_queries.view(&self.queries);
            let documents = self.near_documents.view(&self.documents);
            // Not before there are negatives: what was asked for takes a while to come.
            if trial == 0 {
                let positives = room.positives.chunks_exact_mut(self.trials.positives);
                let outputs = self.chosen[run.clone()].iter_mut().zip(&mut room.highs);
                for (some, (chosen, high)) in positives.zip(outputs) {
                    let u = queries.vector(chosen[0] as usize);
                    for (document, _, high) in some.iter_mut() {
                        *high = score(machine, &documents, u, *document);
                    }
                    let (better, weight, best) = some[ranked(some, self.trials.place)];
                    (chosen[1], *high) = (better, (best, weight));
                }
            }
            left = 0;
            for step in 0..open.len() {
                let at = open[step] as usize % RUN;
                let u = queries.vector(room.starts[at].query);
                let margin = room.highs[at].0 - score(machine, &documents, u, room.worse[at]);
                let ends = only || margin < 1.0;
                room.margins[at] = margin;
                room.weights[at] = if ends { weight } else { 0.0 };
                open[left] = open[step];
                left += usize::from(!ends);
            }
        }
        let found = room.worse.iter().zip(&room.margins);
        let found = found.zip(room.weights.iter().zip(&room.highs));
        let outputs = self.margins[run.clone()].iter_mut();
        let outputs = outputs.zip(&mut self.weights[run.clone()]);
        let outputs = self.chosen[run].iter_mut().zip(outputs);
        for ((chosen, (to_margin, to_weight)), ((&worse, &margin), (&weight, &(_, counts)))) in
            outputs.zip(found)
        {
            chosen[2] = worse;
            (*to_margin, *to_weight) = (margin, weight * counts);
        }
        Ok(())
    }

    /// Write the steps down that are not zero.
    #[inline(always)]
    fn note<M: Machine>(&mut self, machine: M, run: Run) {
        let Some((slopes, notes)) = &mut self.steps else {
            return;
        };
        let queries = self.near_queries.view(&self.queries);
        let documents = self.near_documents.view(&self.documents);
        let found = self.margins[run.clone()].iter();
        let found = found.zip(&self.weights[run.clone()]);
        let found = self.chosen[run.clone()].iter().zip(found);
        for ((&[query, better, worse], (&margin, &weight)), at) in found.zip(run) {
            let slope = slopes.slope(at, margin, weight);
            if slope != 0.0 {
                let pulls = [(better, slope), (worse, -slope)];
                notes.take(machine, [queries, documents], query, pulls.into_iter());
            }
        }
    }
}

#[inline(always)]
fn score<M: Machine>(
    machine: M,
    documents: &View<'_>,
    u: &[crate::wide::Eight],
    document: u32,
) -> f32 {
    let place = documents.place(document as usize);
    let v = &documents.vectors[place * documents.width..][..documents.width];
    let score = dot_wide(machine, u, v);
    if documents.biases.is_empty() {
        score
    } else {
        score + documents.biases[place]
    }
}

/// The positive at a place, best first and of equal ones the first drawn.
#[inline(always)]
fn ranked(positives: &[(u32, f32, f32)], place: usize) -> usize {
    if positives.len() == 1 {
        return 0;
    }
    let rank = |at: usize, high: f32| {
        let before = positives.iter().enumerate();
        let before = before.filter(|&(other, x)| x.2 > high || (x.2 == high && other < at));
        before.count()
    };
    let mut numbered = positives.iter().enumerate();
    // There is one, unless a score is not a number.
    numbered
        .position(|(at, x)| rank(at, x.2) == place)
        .unwrap_or(0)
}
