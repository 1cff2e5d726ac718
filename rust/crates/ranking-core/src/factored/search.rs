//! The search for negatives at the start of a block, and what is to be subtracted then.

use crate::bilinear::{Failure, Form, Stored, filled};
use crate::dispatch::Job;
use crate::factored::objects::Objects;
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

/// The vectors and biases of objects, where features have to be added up for them.
#[derive(Debug, Default)]
pub(super) struct Composed {
    vectors: Vec<Eight>,
    biases: Vec<f32>,
    /// Is the vector of an object known in this block? Empty if a vector has a given place.
    is_known: Vec<bool>,
    known: Vec<usize>,
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
        })
    }

    fn forget(&mut self) {
        for object in self.known.drain(..) {
            self.is_known[object] = false;
        }
    }

    /// Have the vector of an object at hand, and return where: at `place`, if it can choose.
    #[inline(always)]
    fn load<M: Machine>(
        &mut self,
        machine: M,
        side: &Side<'_>,
        object: i64,
        place: usize,
    ) -> Result<usize, Failure> {
        let at = object.position();
        if at >= side.objects.len() {
            return Err(missing(object));
        }
        if !side.objects.are_composed() {
            return Ok(at);
        }
        let place = if self.is_known.is_empty() {
            place
        } else if self.is_known[at] {
            return Ok(at);
        } else {
            self.is_known[at] = true;
            self.known.push(at);
            at
        };
        let out = &mut self.vectors[place * side.chunks..][..side.chunks];
        side.objects.compose(machine, at, side.matrix, out);
        if !side.biases.is_empty() {
            self.biases[place] = side.objects.bias(at, side.biases);
        }
        Ok(place)
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

#[cold]
fn missing(object: i64) -> Failure {
    Invalid::new(format!("there is no row {object}.")).into()
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
    pub(super) query: Composed,
    pub(super) documents: Composed,
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
        self.room.query.forget();
        self.room.documents.forget();
        let numbers = self.rules.by_trial.len() + 2;
        for (at, tuple) in self.tuples.chunks_exact(numbers).enumerate() {
            self.search(machine, at, tuple)?;
        }
        Ok(())
    }
}

impl Search<'_, '_> {
    #[inline(always)]
    fn search<M: Machine>(&mut self, machine: M, at: usize, tuple: &[i64]) -> Result<(), Failure> {
        let (queries, documents) = (&self.queries, &self.documents);
        let place = self.room.query.load(machine, queries, tuple[0], 0)?;
        let u = self.room.query.vector(queries, place);
        let near = &mut self.room.documents;
        let better = near.load(machine, documents, tuple[1], 0)?;
        let high = near.score(machine, documents, u, better);
        let (mut worse, mut negative) = (better, tuple[1]);
        let (mut margin, mut weight) = (0.0, 0.0);
        for (&drawn, &of_trial) in tuple[2..].iter().zip(self.rules.by_trial) {
            negative = drawn;
            worse = near.load(machine, documents, drawn, 1)?;
            margin = high - near.score(machine, documents, u, worse);
            if self.rules.by_trial.len() == 1 || margin < 1.0 {
                weight = of_trial;
                break;
            }
        }
        self.margins[at] = margin;
        self.weights[at] = weight;
        let mut g = weight * self.rules.slope(margin);
        if !self.rules.adagrad {
            g *= self.rates[at];
        }
        if g == 0.0 {
            return Ok(());
        }
        let found = &mut *self.found;
        let step = u32::try_from(found.rates.len()).unwrap_or(u32::MAX);
        found.rates.push(self.rates[at]);
        found.vectors.try_reserve(2 * queries.chunks)?;
        found.vectors.extend_from_slice(u);
        let better = near.vector(documents, better);
        let worse = near.vector(documents, worse);
        found.vectors.extend(better.iter().zip(worse).map(|(a, b)| {
            let apart = Wide::new(machine, *a) - Wide::new(machine, *b);
            apart.array()
        }));
        let list = &mut found.of_queries;
        write_down(list, self.cuts.queries, queries, tuple[0], step, g)?;
        let list = &mut found.of_documents;
        write_down(list, self.cuts.documents, documents, tuple[1], step, g)?;
        write_down(list, self.cuts.documents, documents, negative, step, -g)
    }
}

/// Write down the changes of the features of an object.
#[inline(always)]
fn write_down(
    lists: &mut [Vec<Change>],
    cuts: &[usize],
    side: &Side<'_>,
    object: i64,
    step: u32,
    g: f32,
) -> Result<(), Failure> {
    let object = object.position();
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
