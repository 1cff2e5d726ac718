//! Margins: of a tuple as it is, or of the first negative that comes too close.

use crate::bilinear::Failure;
use crate::bilinear::groups::Layout;
use crate::bilinear::lens::Clock;
use crate::bilinear::objects::{Tuples, Vector};
use crate::bilinear::part::{Block, Reader, View};
use crate::bilinear::stored::Stored;
use crate::exp;
use crate::invalid::{Invalid, check_length};
use crate::native::Slope;
use crate::threads::Crew;

/// The losses of a margin whose slopes are inlined, and any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// max(1 - z, 0)
    Hinge,
    /// max(1 - z, 0)**2
    SquaredHinge,
    /// log(1 + exp(-z))
    Logistic,
    /// A function of a plugin.
    Native(Slope),
}

impl TryFrom<i64> for Form {
    type Error = Invalid;

    fn try_from(form: i64) -> Result<Self, Invalid> {
        match form {
            0 => Ok(Self::Hinge),
            1 => Ok(Self::SquaredHinge),
            2 => Ok(Self::Logistic),
            _ => Err(Invalid::new(format!("there is no form {form}."))),
        }
    }
}

impl Form {
    /// The tau of least tau**2 n / 2 + most * loss(margin + tau n), of the hinge or its square.
    pub(super) fn passive_rate(self, margin: f64, n: f64, most: f64) -> f64 {
        if n == 0.0 {
            return 0.0;
        }
        let (slack, most) = match self {
            Self::SquaredHinge => (1.0 / (2.0 * most), f64::INFINITY),
            _ => (0.0, most),
        };
        let rate = (1.0 - margin) / (n + slack);
        if rate < most { rate } else { most }
    }

    /// The derivative of the loss.
    pub(crate) fn slope(self, margin: f64) -> f64 {
        match self {
            Self::Native(slope) => slope.at(margin),
            Self::Logistic => -1.0 / (1.0 + exp::one(margin)),
            Self::Hinge if margin < 1.0 => -1.0,
            Self::SquaredHinge if margin < 1.0 => -2.0 * (1.0 - margin),
            _ => 0.0,
        }
    }
}

/// L(rank), and the number of documents that can be ranked.
#[derive(Clone, Copy, Debug)]
pub struct Ranks<'a> {
    weights: &'a [f64],
    last: f64,
    n_documents: usize,
}

impl<'a> Ranks<'a> {
    /// Take the weights of ranks; those beyond the end have the last one.
    ///
    /// # Errors
    /// When there is none.
    pub fn new(weights: &'a [f64], n_documents: usize) -> Result<Self, Invalid> {
        let Some(&last) = weights.last() else {
            return Err(Invalid::new("rank_weights must have at least one."));
        };
        Ok(Self {
            weights,
            last,
            n_documents,
        })
    }

    /// The weight if the negative was found at a trial, from 1.
    fn weight(&self, trial: usize) -> f64 {
        let rank = self.n_documents.saturating_sub(1) / trial;
        self.weights.get(rank).copied().unwrap_or(self.last)
    }
}

/// A margin, the weight of its violation and the place of the negative in the tuple.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) margin: f64,
    pub(super) weight: f64,
    pub(super) place: usize,
}

/// Room for what a step needs.
#[derive(Debug, Default)]
pub(super) struct Scratch<T> {
    pub(super) query: Vector,
    better: Vector,
    worse: Vector,
    /// The difference of the documents.
    pub(super) apart: Vector,
    pub(super) block: Block<T>,
}

impl<T: Stored> Scratch<T> {
    /// Load the query and the difference of two documents.
    pub(super) fn load(
        &mut self,
        tuples: &Tuples<'_>,
        step: usize,
        negative: i64,
        layout: &Layout,
    ) -> Result<(), Failure> {
        let chosen = tuples.get(step);
        let (on_query, on_document) = layout.lengths(tuples.transposed);
        tuples.queries.load(chosen[0], on_query, &mut self.query)?;
        let documents = tuples.documents;
        documents.load(chosen[1], on_document, &mut self.better)?;
        documents.load(negative, on_document, &mut self.worse)?;
        self.apart.difference(&self.better, &self.worse)?;
        tuples.sort(&mut self.query, &mut self.apart)
    }

    /// Search a tuple for its negative. With one trial, `query` and `apart` are then loaded and
    /// `block` holds what was found of W.
    pub(super) fn search(
        &mut self,
        reader: &impl Reader<T>,
        layout: &Layout,
        tuples: &Tuples<'_>,
        step: usize,
        ranks: &Ranks<'_>,
        clock: &Clock,
    ) -> Result<Found, Failure> {
        let chosen = tuples.get(step);
        if chosen.len() == 3 {
            self.load(tuples, step, chosen[2], layout)?;
            let (left, right) = tuples.sides(&self.query, &self.apart);
            self.block.start(left.at().len(), right)?;
            let margin = score(reader, left, right, clock, &mut self.block, true);
            return Ok(Found {
                margin,
                weight: ranks.weight(1),
                place: 2,
            });
        }
        let (on_query, on_document) = layout.lengths(tuples.transposed);
        tuples.queries.load(chosen[0], on_query, &mut self.query)?;
        let mut of = |document: i64| {
            let vector = &mut self.worse;
            tuples.documents.load(document, on_document, vector)?;
            tuples.sort(&mut self.query, vector)?;
            let (left, right) = tuples.sides(&self.query, vector);
            self.block.start(1, right)?;
            let score = score(reader, left, right, clock, &mut self.block, false);
            Ok::<_, Failure>(score)
        };
        let high = of(chosen[1])?;
        let mut margin = 0.0;
        for (trial, &document) in (1..).zip(&chosen[2..]) {
            margin = high - of(document)?;
            if margin < 1.0 {
                return Ok(Found {
                    margin,
                    weight: ranks.weight(trial),
                    place: 1 + trial,
                });
            }
        }
        Ok(Found {
            margin,
            weight: 0.0,
            place: chosen.len() - 1,
        })
    }

    /// Search a tuple, and load what a step needs if there is one: say whether `block` then holds
    /// what was found of W.
    pub(super) fn find(
        &mut self,
        reader: &impl Reader<T>,
        layout: &Layout,
        tuples: &Tuples<'_>,
        step: usize,
        ranks: &Ranks<'_>,
        clock: &Clock,
    ) -> Result<(Found, bool), Failure> {
        let found = self.search(reader, layout, tuples, step, ranks, clock)?;
        let chosen = tuples.get(step);
        let known = chosen.len() == 3;
        if !known && found.margin < 1.0 {
            self.load(tuples, step, chosen[found.place], layout)?;
            let (_, right) = tuples.sides(&self.query, &self.apart);
            self.block.start(1, right)?;
        }
        Ok((found, known))
    }
}

/// left' W right; with `keep`, the block keeps what was found of each row.
fn score<T: Stored>(
    reader: &impl Reader<T>,
    left: &Vector,
    right: &Vector,
    clock: &Clock,
    block: &mut Block<T>,
    keep: bool,
) -> f64 {
    let mut total = 0.0;
    for (number, (row, a)) in left.entries().enumerate() {
        let found = block.found(if keep { number } else { 0 }, right);
        total += a * reader.read(row, right, clock, found);
    }
    total
}

/// The tuples that one thread takes, and where it writes.
struct Share<'a, T> {
    first: usize,
    margins: &'a mut [f64],
    weights: &'a mut [f64],
    negatives: &'a mut [i64],
    scratch: &'a mut Scratch<T>,
    result: Result<(), Failure>,
}

/// Fill margins, weights and negatives of tuples; call it within `Crew::enter`.
pub(super) fn margins<T: Stored>(
    view: View<'_, T>,
    tuples: &Tuples<'_>,
    ranks: &Ranks<'_>,
    clock: &Clock,
    margins: &mut [f64],
    weights: &mut [f64],
    negatives: &mut [i64],
    scratches: &mut Vec<Scratch<T>>,
    crew: &Crew,
) -> Result<(), Failure> {
    check_length("margins", margins.len(), tuples.len())?;
    check_length("weights", weights.len(), tuples.len())?;
    check_length("negatives", negatives.len(), tuples.len())?;
    // Some for each thread, because a search may take long.
    let shares = if crew.threads() == 1 {
        1
    } else {
        4 * crew.threads()
    };
    let size = tuples.len().div_ceil(shares).max(1);
    scratches.resize_with(shares, Scratch::default);
    let outputs = margins.chunks_mut(size).zip(weights.chunks_mut(size));
    let outputs = outputs.zip(negatives.chunks_mut(size)).zip(scratches);
    let shares = outputs.enumerate();
    let mut shares: Vec<_> = shares
        .map(
            |(share, (((margins, weights), negatives), scratch))| Share {
                first: share * size,
                margins,
                weights,
                negatives,
                scratch,
                result: Ok(()),
            },
        )
        .collect();
    crew.for_each(&mut shares, |share| {
        share.result = (|| {
            for at in 0..share.margins.len() {
                let step = share.first + at;
                let found = share
                    .scratch
                    .search(&view, view.layout, tuples, step, ranks, clock)?;
                share.margins[at] = found.margin;
                share.weights[at] = found.weight;
                share.negatives[at] = tuples.get(step)[found.place];
            }
            Ok(())
        })();
    });
    shares.into_iter().try_for_each(|share| share.result)
}
