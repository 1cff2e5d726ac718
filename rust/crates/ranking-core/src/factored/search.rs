//! The search for negatives, at the parameters as they are.

use crate::bilinear::{Failure, lengthen};
use crate::dispatch::Job;
use crate::factored::nearby::Near;
use crate::factored::parameters::{Side, View};
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
#[derive(Debug, Default)]
pub(super) struct Room {
    starts: Vec<Start>,
    /// The first of a tuple's positives.
    firsts: Vec<u32>,
    /// The score of the better, and how much it counts.
    highs: Vec<(f32, f32)>,
    /// All positives of a tuple: the document, how much it counts, and its score.
    positives: Vec<(u32, f32, f32)>,
    /// Tuples that are still to be searched.
    open: Vec<u32>,
    places: Vec<Place>,
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
}

impl Job for Search<'_, '_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Result<(), Failure> {
        for start in (0..self.chosen.len()).step_by(RUN) {
            let run = start..self.chosen.len().min(start + RUN);
            self.begin(machine, run.clone())?;
            self.weigh_positives(machine, run.clone())?;
            self.search(machine, run)?;
        }
        Ok(())
    }
}

type Run = std::ops::Range<usize>;

impl Search<'_, '_> {
    /// Find the queries of tuples.
    #[inline(always)]
    fn begin<M: Machine>(&mut self, machine: M, run: Run) -> Result<(), Failure> {
        let room = &mut *self.room;
        lengthen(&mut room.starts, RUN, Start::default())?;
        let starts = &mut room.starts[..run.len()];
        self.trials.begin(machine, self.first + run.start, starts);
        for (start, chosen) in starts.iter().zip(&mut self.chosen[run.clone()]) {
            chosen[0] = u32::try_from(start.query).unwrap_or(u32::MAX);
            self.queries.ask(machine, chosen[0]);
        }
        let wanted = self.chosen[run].iter().map(|chosen| chosen[0]);
        self.near_queries.load(machine, &self.queries, wanted)
    }

    /// Find the better document of tuples, and its score.
    #[inline(always)]
    fn weigh_positives<M: Machine>(&mut self, machine: M, run: Run) -> Result<(), Failure> {
        let Trials {
            positives, place, ..
        } = *self.trials;
        let room = &mut *self.room;
        room.positives.clear();
        room.positives.try_reserve(run.len() * positives)?;
        for (tuple, start) in (self.first + run.start..).zip(&room.starts[..run.len()]) {
            for at in 0..positives {
                let (document, weight) = self.trials.positive(start, tuple, at);
                self.documents.ask(machine, document);
                room.positives.push((document, weight, 0.0));
            }
        }
        let wanted = room.positives.iter().map(|positive| positive.0);
        self.near_documents.load(machine, &self.documents, wanted)?;
        let queries = self.near_queries.view(&self.queries);
        let documents = self.near_documents.view(&self.documents);
        room.firsts.clear();
        room.firsts.try_reserve(RUN)?;
        room.highs.clear();
        room.highs.try_reserve(RUN)?;
        let chosen = self.chosen[run].iter_mut();
        for (chosen, some) in chosen.zip(room.positives.chunks_exact_mut(positives)) {
            let u = queries.vector(chosen[0] as usize);
            for (document, _, high) in some.iter_mut() {
                *high = score(machine, &documents, u, *document);
            }
            let (better, weight, high) = some[ranked(some, place)];
            chosen[1] = better;
            room.firsts.push(some[0].0);
            room.highs.push((high, weight));
        }
        Ok(())
    }

    /// Look for violations: fill the worse, margins and weights.
    #[inline(always)]
    fn search<M: Machine>(&mut self, machine: M, run: Run) -> Result<(), Failure> {
        let room = &mut *self.room;
        let chosen = &mut self.chosen[run.clone()];
        let margins = &mut self.margins[run.clone()];
        let weights = &mut self.weights[run.clone()];
        lengthen(&mut room.places, RUN, Place::default())?;
        room.open.clear();
        room.open.extend((0..).take(run.len()));
        let only = self.by_trial.len() == 1;
        for (trial, &weight) in self.by_trial.iter().enumerate() {
            self.trials.negatives(
                machine,
                &room.starts,
                self.first + run.start,
                &room.firsts,
                &room.open,
                trial,
                &mut room.places,
                chosen,
            );
            for &at in &room.open {
                self.documents.ask(machine, chosen[at as usize][2]);
            }
            let wanted = room.open.iter().map(|&at| chosen[at as usize][2]);
            self.near_documents.load(machine, &self.documents, wanted)?;
            let queries = self.near_queries.view(&self.queries);
            let documents = self.near_documents.view(&self.documents);
            let mut still_open = 0;
            for step in 0..room.open.len() {
                let at = room.open[step] as usize;
                let [query, _, worse] = chosen[at];
                let u = queries.vector(query as usize);
                let (high, counts) = room.highs[at];
                let margin = high - score(machine, &documents, u, worse);
                let ends = only || margin < 1.0;
                margins[at] = margin;
                weights[at] = if ends { weight } else { 0.0 } * counts;
                room.open[still_open] = room.open[step];
                still_open += usize::from(!ends);
            }
            room.open.truncate(still_open);
        }
        Ok(())
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
