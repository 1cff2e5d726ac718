//! The source of triplets: an array, or sampling on demand.

use crate::guide_tables::Lookup;
use crate::matrix::{Index, short};
use crate::sampling::{Group, SampledQuery, Sampling, SamplingTables};
use crate::simd::Machine;

/// Triplets of a training call: given ones, or a sampling.
#[derive(Clone, Copy, Debug)]
pub struct TripletSource<'a> {
    /// Queries, positives and negatives, triplet after triplet; not read if there is a sampling.
    pub triplets: &'a [i64],
    /// Numbers of a triplet.
    pub width: usize,
    /// Where triplets are sampled from.
    pub sampling: Option<Sampling<'a>>,
    /// How many of a triplet's numbers are positives.
    pub n_positives: usize,
    /// Which of the positives is used, by score, from 0 (the best).
    pub positive_rank: usize,
}

impl TripletSource<'_> {
    /// Build the guide tables that pay off for a number of steps.
    pub(super) fn tables(&self, count: usize) -> SamplingTables {
        let sampling = self.sampling.as_ref();
        sampling.map_or_else(SamplingTables::default, |sampling| sampling.tables(count))
    }

    /// The number of negatives.
    pub(super) fn max_trials(&self) -> usize {
        self.width - 1 - self.n_positives
    }

    #[inline(always)]
    fn number(&self, triplet: usize, at: usize) -> u32 {
        short(self.triplets[triplet * self.width + at].position())
    }

    /// Find the queries of triplets from one on.
    #[inline(always)]
    pub(super) fn queries<M: Machine>(&self, machine: M, triplet: usize, out: &mut [SampledQuery]) {
        if let Some(sampling) = &self.sampling {
            return sampling.queries(machine, triplet, out);
        }
        for (query, triplet) in out.iter_mut().zip(triplet..) {
            *query = SampledQuery::of(self.number(triplet, 0) as usize);
        }
    }

    /// A positive, from 0, and its weight.
    #[inline(always)]
    pub(super) fn positive(&self, query: &SampledQuery, triplet: usize, at: usize) -> (u32, f32) {
        let Some(sampling) = &self.sampling else {
            return (self.number(triplet, 1 + at), 1.0);
        };
        let place = sampling.positive(query, 1 + at as u64);
        (short(sampling.member(place)), sampling.weight(place))
    }

    /// Sample the negatives of a trial, from 0, of a group of the triplets from `first` on, and
    /// give each to `take`.
    #[inline(always)]
    pub(super) fn negatives<M: Machine>(
        &self,
        machine: M,
        first: usize,
        group: Group<'_>,
        trial: usize,
        lookups: &mut [Lookup],
        mut take: impl FnMut(usize, u32),
    ) {
        let number = 1 + self.n_positives + trial;
        if let Some(sampling) = &self.sampling {
            sampling.negatives(
                machine,
                group,
                number as u64,
                lookups,
                #[inline(always)]
                |at, negative| take(at, short(negative)),
            );
            return;
        }
        for &at in group.open {
            let at = at as usize;
            take(at, self.number(first + at, number));
        }
    }
}
