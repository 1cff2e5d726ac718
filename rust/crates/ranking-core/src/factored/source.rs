//! Where tuples come from: they are given, or drawn when they are looked at.

use std::collections::TryReserveError;

use crate::draws::{Begun, Guides, MatchLists};
use crate::factored::parameters::Sides;
use crate::guides::Place;
use crate::invalid::{Invalid, check_length};
use crate::lanes::{Index, Machine};

/// Tuples, given or drawn.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// Queries, positives and negatives, tuple after tuple.
    Given(&'a [i64]),
    /// The steps of a seed from the first on.
    Drawn {
        /// The seed.
        seed: u64,
        /// The first step.
        first: u64,
        /// What is drawn from.
        lists: MatchLists<'a>,
    },
}

/// What a tuple consists of, and which document of it is the better.
#[derive(Clone, Copy, Debug)]
pub struct Trials<'a> {
    /// Where tuples come from.
    pub source: Source<'a>,
    /// Numbers of a tuple.
    pub numbers: usize,
    /// How many of them are positives.
    pub positives: usize,
    /// Which of the positives, best first, is the better.
    pub place: usize,
    /// L(rank); ranks beyond the end have the last one.
    pub rank_weights: &'a [f32],
    /// Documents that can be ranked.
    pub n_documents: usize,
}

/// What is known of a tuple before its numbers are.
pub(super) type Start = Begun;

impl Trials<'_> {
    pub(super) fn check(&self, sides: &Sides<'_>, count: usize) -> Result<(), Invalid> {
        let least = self.positives.saturating_add(2);
        if self.place >= self.positives || self.numbers < least {
            return Err(Invalid::new(
                "a tuple is a query, its positives and at least one negative.",
            ));
        }
        if self.rank_weights.is_empty() {
            return Err(Invalid::new("rank_weights must have at least one."));
        }
        match &self.source {
            Source::Given(tuples) => {
                check_length("tuples", tuples.len(), count.saturating_mul(self.numbers))
            }
            Source::Drawn { lists, .. } => {
                check_length("lists", lists.n_queries(), sides.queries.len())?;
                check_length("documents", sides.documents.len(), lists.n_documents())?;
                if lists.is_empty() && count > 0 {
                    return Err(Invalid::new("there is no query to draw from."));
                }
                Ok(())
            }
        }
    }

    /// Refuse numbers of given tuples that are not there.
    pub(super) fn check_numbers(
        &self,
        tuples: std::ops::Range<usize>,
        sides: &Sides<'_>,
    ) -> Result<(), Invalid> {
        let Source::Given(given) = self.source else {
            return Ok(());
        };
        let given = &given[tuples.start * self.numbers..tuples.end * self.numbers];
        let (mut query, mut document) = (0, 0);
        for tuple in given.chunks_exact(self.numbers) {
            query = query.max(tuple[0].position());
            for number in &tuple[1..] {
                document = document.max(number.position());
            }
        }
        if given.is_empty() || (query < sides.queries.len() && document < sides.documents.len()) {
            return Ok(());
        }
        Err(Invalid::new(
            "tuples must have numbers of queries and documents.",
        ))
    }

    /// What makes draws faster, if there are enough of them to make up for it.
    pub(super) fn guides(&self, count: usize) -> Result<Guides, TryReserveError> {
        match &self.source {
            Source::Drawn { lists, .. } => lists.guides(count),
            Source::Given(_) => Ok(Guides::default()),
        }
    }

    /// How many negatives there are.
    pub(super) fn trials(&self) -> usize {
        self.numbers - 1 - self.positives
    }

    /// The weight of a violation by trial, from 0.
    pub(super) fn weights(&self) -> Vec<f32> {
        let last = self.rank_weights.len() - 1;
        let rank = |trial: usize| self.n_documents.saturating_sub(1) / trial;
        let weight = |trial: usize| self.rank_weights[rank(trial).min(last)];
        (1..=self.trials()).map(weight).collect()
    }

    #[inline(always)]
    fn given(&self, tuples: &[i64], tuple: usize, at: usize) -> u32 {
        short(tuples[tuple * self.numbers + at].position())
    }

    /// Begin tuples from one on: their queries are known then.
    #[inline(always)]
    pub(super) fn begin<M: Machine>(&self, machine: M, tuple: usize, starts: &mut [Start]) {
        match &self.source {
            Source::Given(tuples) => {
                for (start, tuple) in starts.iter_mut().zip(tuple..) {
                    *start = Start::given(self.given(tuples, tuple, 0) as usize);
                }
            }
            Source::Drawn { seed, first, lists } => {
                lists.begin_all(machine, *seed, first.wrapping_add(tuple as u64), starts);
            }
        }
    }

    /// A positive, from 0, and how much it counts.
    #[inline(always)]
    pub(super) fn positive(&self, start: &Start, tuple: usize, at: usize) -> (u32, f32) {
        match &self.source {
            Source::Given(tuples) => (self.given(tuples, tuple, 1 + at), 1.0),
            Source::Drawn { lists, .. } => {
                let place = lists.positive(start, 1 + at as u64);
                (short(lists.member(place)), lists.weight(place))
            }
        }
    }

    /// Draw the negatives of a trial, from 0, of some tuples of those from `first` on, of which
    /// `firsts` are the first positives, and give each to `take`.
    #[inline(always)]
    pub(super) fn negatives<M: Machine>(
        &self,
        machine: M,
        starts: &[Start],
        first: usize,
        firsts: &[u32],
        tuples: &[u32],
        trial: usize,
        places: &mut [Place],
        mut take: impl FnMut(usize, u32),
    ) {
        let number = 1 + self.positives + trial;
        match &self.source {
            Source::Given(given) => {
                for &at in tuples {
                    let at = at as usize;
                    take(at, self.given(given, first + at, number));
                }
            }
            Source::Drawn { lists, .. } => {
                lists.negatives(
                    machine,
                    starts,
                    firsts,
                    tuples,
                    number as u64,
                    places,
                    #[inline(always)]
                    |at, worse| take(at, short(worse)),
                );
            }
        }
    }
}

#[inline(always)]
fn short(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
