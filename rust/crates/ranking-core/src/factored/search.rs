//! The search for negatives at the start of a block, and what is to be subtracted then.

use crate::bilinear::{Failure, Form, Stored, filled};
use crate::dispatch::Job;
use crate::factored::objects::{Objects, compose};
use crate::invalid::Invalid;
use crate::lanes::{Index, Machine};
use crate::wide::{Eight, Wide, dot_wide};

/// Queries or documents, and the parameters of their features.
#[derive(Clone, Copy)]
pub(super) struct Side<'a> {
    pub(super) objects: &'a Objects<'a>,
    pub(super) matrix: &'a [Eight],
    pub(super) biases: &'a [f32],
    /// Registers of a vector.
    pub(super) chunks: usize,
}

/// Tuples that are searched side by side.
pub(super) const RUN: usize = 256;
/// Objects that are composed together.
const TOGETHER: usize = 32;

/// The vectors and biases of objects, where features have to be added up for them.
#[derive(Debug, Default)]
pub(super) struct Composed {
    vectors: Vec<Eight>,
    biases: Vec<f32>,
    /// Is the vector of an object known in this block? Empty if vectors are not kept.
    is_known: Vec<bool>,
    /// Objects that were composed, and where.
    known: Vec<(usize, usize)>,
    /// Features and values of those that are composed together.
    entries: Vec<(u32, f32)>,
}

impl Composed {
    /// Make room for `places` vectors, or for each object's if they are `kept` within a block.
    pub(super) fn new(side: &Side<'_>, places: usize, kept: bool) -> Result<Self, Failure> {
        if !side.objects.are_composed() {
            return Ok(Self::default());
        }
        let n_objects = side.objects.len();
        let places = if kept { n_objects } else { places };
        Ok(Self {
            vectors: filled(places * side.chunks, Eight::default())?,
            biases: filled(places, 0.0)?,
            is_known: filled(if kept { n_objects } else { 0 }, false)?,
            known: Vec::new(),
            entries: Vec::new(),
        })
    }

    /// Parameters have changed.
    fn forget(&mut self) {
        for (object, _) in self.known.drain(..) {
            if let Some(is_known) = self.is_known.get_mut(object) {
                *is_known = false;
            }
        }
    }

    /// Where the vector of an object is, if it was loaded for `place`.
    #[inline(always)]
    fn place(&self, side: &Side<'_>, object: usize, place: usize) -> usize {
        if side.objects.are_composed() && self.is_known.is_empty() {
            place
        } else {
            object
        }
    }

    /// Have the vectors of objects at hand, each for a place.
    ///
    /// Those that are missing are listed first, then some objects' features are, and then these
    /// are composed: the shorter a loop and the fewer its branches, the more loads overlap.
    #[inline(always)]
    fn load<M: Machine>(
        &mut self,
        machine: M,
        side: &Side<'_>,
        wanted: impl ExactSizeIterator<Item = (usize, usize)>,
    ) -> Result<(), Failure> {
        if !side.objects.are_composed() {
            return Ok(());
        }
        if self.is_known.is_empty() {
            self.known.clear();
        }
        let first = self.known.len();
        self.known.try_reserve(wanted.len())?;
        for (object, place) in wanted {
            if self.is_known.is_empty() {
                self.known.push((object, place));
            } else if !self.is_known[object] {
                self.is_known[object] = true;
                self.known.push((object, object));
            }
        }
        let entries = &mut self.entries;
        for some in self.known[first..].chunks(TOGETHER) {
            entries.clear();
            let mut ends = [0; TOGETHER];
            for (&(object, _), end) in some.iter().zip(&mut ends) {
                entries.try_reserve(side.objects.count(object))?;
                side.objects.for_entries(object, |feature, value| {
                    entries.push((u32::try_from(feature).unwrap_or(u32::MAX), value));
                });
                *end = entries.len();
            }
            let mut start = 0;
            for (&(_, place), &end) in some.iter().zip(&ends) {
                let entries = entries[start..end].iter();
                let entries = entries.map(|&(feature, value)| (feature as usize, value));
                let out = &mut self.vectors[place * side.chunks..][..side.chunks];
                compose(machine, &entries, side.matrix, out);
                if !side.biases.is_empty() {
                    let mut total = 0.0;
                    for (feature, value) in entries {
                        total += value * side.biases[feature];
                    }
                    self.biases[place] = total;
                }
                start = end;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn vector<'a>(&'a self, side: &Side<'a>, place: usize) -> &'a [Eight] {
        let all = if side.objects.are_composed() {
            &self.vectors
        } else {
            side.matrix
        };
        &all[place * side.chunks..][..side.chunks]
    }

    #[inline(always)]
    fn score<M: Machine>(&self, machine: M, side: &Side<'_>, u: &[Eight], place: usize) -> f32 {
        let score = dot_wide(machine, u, self.vector(side, place));
        if side.biases.is_empty() {
            score
        } else if side.objects.are_composed() {
            score + self.biases[place]
        } else {
            score + side.biases[place]
        }
    }
}

/// factor * vector is to be subtracted from a row, and the factor from its bias.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change {
    pub(super) row: u32,
    /// The step whose vector it is.
    pub(super) step: u32,
    pub(super) factor: f32,
}

/// Rows of U and V from which another thread takes over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cuts<'a> {
    pub(super) queries: &'a [usize],
    pub(super) documents: &'a [usize],
}

/// Who takes a row?
#[inline(always)]
fn taker(cuts: &[usize], row: usize) -> usize {
    cuts.iter().map(|&cut| usize::from(row >= cut)).sum()
}

/// What a share of a block's tuples came to.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// For each step that is not zero its u and v+ - v-.
    vectors: Vec<Eight>,
    /// And its rate.
    pub(super) rates: Vec<f32>,
    /// Changes of U, by who takes their rows.
    pub(super) of_queries: Vec<Vec<Change>>,
    /// Changes of V, by who takes their rows.
    pub(super) of_documents: Vec<Vec<Change>>,
}

impl Found {
    pub(super) fn new(takers: usize) -> Self {
        Self {
            of_queries: vec![Vec::new(); takers],
            of_documents: vec![Vec::new(); takers],
            ..Self::default()
        }
    }

    /// The vectors of steps, u or v+ - v-, each followed by what is not asked for.
    pub(super) fn vectors(&self, apart: bool, chunks: usize) -> &[Eight] {
        let first = if apart { chunks } else { 0 };
        self.vectors.get(first..).unwrap_or_default()
    }

    pub(super) fn clear(&mut self) {
        self.vectors.clear();
        self.rates.clear();
        let lists = self.of_queries.iter_mut().chain(&mut self.of_documents);
        lists.for_each(Vec::clear);
    }
}

/// What a thread needs to search, kept from block to block.
#[derive(Debug, Default)]
pub(super) struct Room {
    queries: Composed,
    documents: Composed,
    /// The scores of the positives.
    highs: Vec<f32>,
    /// The trials at which searches ended, from 0.
    trials: Vec<usize>,
    /// g, by tuple.
    slopes: Vec<f32>,
    /// Tuples that are still to be searched; then those with a step that is not zero.
    open: Vec<usize>,
}

impl Room {
    /// Make room; if `kept`, for the vectors of all documents.
    pub(super) fn new(
        queries: &Side<'_>,
        documents: &Side<'_>,
        kept: bool,
    ) -> Result<Self, Failure> {
        Ok(Self {
            queries: Composed::new(queries, RUN, false)?,
            documents: Composed::new(documents, 2 * RUN, kept)?,
            highs: vec![0.0; RUN],
            trials: vec![0; RUN],
            slopes: vec![0.0; RUN],
            open: Vec::with_capacity(RUN),
        })
    }
}

/// What is the same for all tuples.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) form: Form,
    /// L by trial.
    pub(super) by_trial: &'a [f32],
    pub(super) adagrad: bool,
}

impl Rules<'_> {
    /// The derivative of the loss; the logistic one in double precision.
    #[inline(always)]
    fn slope(&self, margin: f32) -> f32 {
        match self.form {
            Form::Logistic => f32::narrow(Form::Logistic.slope(f64::from(margin))),
            Form::Hinge if margin < 1.0 => -1.0,
            Form::SquaredHinge if margin < 1.0 => -2.0 * (1.0 - margin),
            _ => 0.0,
        }
    }
}

/// A share of a block's tuples.
pub(super) struct Search<'a, 'o> {
    pub(super) queries: Side<'a>,
    pub(super) documents: Side<'a>,
    pub(super) rules: Rules<'a>,
    pub(super) cuts: Cuts<'a>,
    pub(super) tuples: &'a [i64],
    pub(super) rates: &'a [f32],
    pub(super) margins: &'o mut [f32],
    pub(super) weights: &'o mut [f32],
    pub(super) room: &'o mut Room,
    pub(super) found: &'o mut Found,
}

impl Job for Search<'_, '_> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Result<(), Failure> {
        self.found.clear();
        self.room.queries.forget();
        self.room.documents.forget();
        for first in (0..self.rates.len()).step_by(RUN) {
            let run = Run {
                first,
                size: RUN.min(self.rates.len() - first),
            };
            self.check(run)?;
            self.search(machine, run)?;
            self.weigh(run);
            self.write_down(machine, run)?;
        }
        Ok(())
    }
}

/// Tuples that are searched side by side, one trial after the other.
#[derive(Clone, Copy)]
struct Run {
    first: usize,
    size: usize,
}

impl Search<'_, '_> {
    /// The number at a place of a tuple.
    #[inline(always)]
    fn number(&self, tuple: usize, place: usize) -> usize {
        self.tuples[tuple * (self.rules.by_trial.len() + 2) + place].position()
    }

    fn check(&self, run: Run) -> Result<(), Failure> {
        let numbers = self.rules.by_trial.len() + 2;
        let tuples = &self.tuples[run.first * numbers..][..run.size * numbers];
        let (mut query, mut document) = (0, 0);
        for tuple in tuples.chunks_exact(numbers) {
            query = query.max(tuple[0].position());
            for drawn in &tuple[1..] {
                document = document.max(drawn.position());
            }
        }
        if query < self.queries.objects.len() && document < self.documents.objects.len() {
            return Ok(());
        }
        Err(Invalid::new("tuples must have numbers of queries and documents.").into())
    }

    /// Fill margins, weights and trials.
    #[inline(always)]
    fn search<M: Machine>(&mut self, machine: M, run: Run) -> Result<(), Failure> {
        let (queries, documents) = (self.queries, self.documents);
        let Run { first, size } = run;
        let (tuples, numbers) = (self.tuples, self.rules.by_trial.len() + 2);
        let number = |at: usize, place: usize| tuples[(first + at) * numbers + place].position();
        let room = &mut *self.room;
        let wanted = (0..size).map(|at| (number(at, 0), at));
        room.queries.load(machine, &queries, wanted)?;
        let wanted = (0..size).map(|at| (number(at, 1), at));
        room.documents.load(machine, &documents, wanted)?;
        for (at, high) in room.highs[..size].iter_mut().enumerate() {
            let u = room.queries.place(&queries, number(at, 0), at);
            let u = room.queries.vector(&queries, u);
            let better = room.documents.place(&documents, number(at, 1), at);
            *high = room.documents.score(machine, &documents, u, better);
        }
        room.open.clear();
        room.open.extend(0..size);
        let (margins, weights) = (&mut self.margins[first..], &mut self.weights[first..]);
        for (trial, &weight) in self.rules.by_trial.iter().enumerate() {
            let wanted = room.open.iter();
            let wanted = wanted.map(|&at| (number(at, 2 + trial), RUN + at));
            room.documents.load(machine, &documents, wanted)?;
            let mut still_open = 0;
            for step in 0..room.open.len() {
                let at = room.open[step];
                let u = room.queries.place(&queries, number(at, 0), at);
                let u = room.queries.vector(&queries, u);
                let worse = number(at, 2 + trial);
                let worse = room.documents.place(&documents, worse, RUN + at);
                let low = room.documents.score(machine, &documents, u, worse);
                let margin = room.highs[at] - low;
                let ends = numbers == 3 || margin < 1.0;
                margins[at] = margin;
                weights[at] = if ends { weight } else { 0.0 };
                room.trials[at] = trial;
                room.open[still_open] = at;
                still_open += usize::from(!ends);
            }
            room.open.truncate(still_open);
        }
        Ok(())
    }

    /// Fill slopes, and list the steps that are not zero.
    #[inline(always)]
    fn weigh(&mut self, run: Run) {
        let room = &mut *self.room;
        room.open.clear();
        room.open.resize(run.size, 0);
        let mut count = 0;
        for at in 0..run.size {
            let tuple = run.first + at;
            let mut g = self.weights[tuple] * self.rules.slope(self.margins[tuple]);
            if !self.rules.adagrad {
                g *= self.rates[tuple];
            }
            room.slopes[at] = g;
            room.open[count] = at;
            count += usize::from(g != 0.0);
        }
        room.open.truncate(count);
    }

    /// Copy the vectors of steps and list the changes.
    #[inline(always)]
    fn write_down<M: Machine>(&mut self, machine: M, run: Run) -> Result<(), Failure> {
        let (queries, documents) = (self.queries, self.documents);
        let steps = self.room.open.len();
        self.found.vectors.try_reserve(2 * steps * queries.chunks)?;
        self.found.rates.try_reserve(steps)?;
        for step in 0..steps {
            let at = self.room.open[step];
            let (tuple, g) = (run.first + at, self.room.slopes[at]);
            let query = self.number(tuple, 0);
            let better = self.number(tuple, 1);
            let worse = self.number(tuple, 2 + self.room.trials[at]);
            let (room, found) = (&*self.room, &mut *self.found);
            let step = u32::try_from(found.rates.len()).unwrap_or(u32::MAX);
            found.rates.push(self.rates[tuple]);
            let place = room.queries.place(&queries, query, at);
            let u = room.queries.vector(&queries, place);
            found.vectors.extend_from_slice(u);
            let near = &room.documents;
            let plus = near.vector(&documents, near.place(&documents, better, at));
            let minus = near.vector(&documents, near.place(&documents, worse, RUN + at));
            for (plus, minus) in plus.iter().zip(minus) {
                let apart = Wide::new(machine, *plus) - Wide::new(machine, *minus);
                found.vectors.push(apart.array());
            }
            let list = &mut found.of_queries;
            write_down(list, self.cuts.queries, &queries, query, step, g)?;
            let list = &mut found.of_documents;
            write_down(list, self.cuts.documents, &documents, better, step, g)?;
            write_down(list, self.cuts.documents, &documents, worse, step, -g)?;
        }
        Ok(())
    }
}

/// Write down the changes of the features of an object.
#[inline(always)]
fn write_down(
    lists: &mut [Vec<Change>],
    cuts: &[usize],
    side: &Side<'_>,
    object: usize,
    step: u32,
    g: f32,
) -> Result<(), Failure> {
    let count = side.objects.count(object);
    for list in lists.iter_mut() {
        list.try_reserve(count)?;
    }
    side.objects.for_entries(object, |row, value| {
        lists[taker(cuts, row)].push(Change {
            row: u32::try_from(row).unwrap_or(u32::MAX),
            step,
            factor: g * value,
        });
    });
    Ok(())
}
