//! Sampling of triplets by counter: the random numbers of a step are those of a seed of its own.

use std::ops::Range;

use crate::guide_tables::{GuideTable, Lookup};
use crate::matrix::Index;
use crate::random::{below, random_bits};
use crate::simd::Machine;

/// The positive documents of each query; the contract describes the fields.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct Positives<'a> {
    pub queries: &'a [i64],
    pub query_sums: &'a [i64],
    pub list_of: &'a [i64],
    pub member_ptr: &'a [i64],
    pub members: &'a [i64],
    pub member_sums: &'a [i64],
    pub own_document: &'a [i64],
    pub member_weights: &'a [f32],
    pub n_documents: u32,
    pub any_negative: bool,
}

/// Steps first, first + 1, ... of a seed; see [`Positives`].
#[derive(Clone, Copy, Debug)]
pub struct Sampling<'a> {
    seed: u64,
    first: u64,
    positives: Positives<'a>,
    tables: Option<&'a SamplingTables>,
}

/// Guide tables, which pay off if there are many steps.
#[derive(Debug, Default)]
pub(crate) struct SamplingTables {
    /// For each member how many documents before it are not members.
    members: GuideTable,
    /// The cumulative counts of queries.
    queries: GuideTable,
}

/// A step's key, its query and the list of the query.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SampledQuery {
    key: u64,
    pub(crate) query: usize,
    list: usize,
    /// Where the list begins among all members, and its length.
    start: usize,
    size: u32,
    /// The number for the first positive, if the permutation of queries decides it.
    excess: Option<u32>,
}

impl SampledQuery {
    /// The query of a triplet that is not sampled.
    #[inline(always)]
    pub(crate) fn of(query: usize) -> Self {
        Self {
            query,
            ..Self::default()
        }
    }

    /// The positions of the list's members.
    #[inline(always)]
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.size as usize
    }
}

/// Some of the triplets that are sampled side by side.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    /// The queries of all triplets, and their first positives.
    pub(crate) queries: &'a [SampledQuery],
    pub(crate) positives: &'a [u32],
    /// Positions of those that are still sampled.
    pub(crate) open: &'a [u32],
}

impl<'a> Sampling<'a> {
    /// Take the steps from `first` on.
    #[must_use]
    pub fn new(seed: u64, first: u64, positives: Positives<'a>) -> Self {
        Self {
            seed,
            first,
            positives,
            tables: None,
        }
    }

    /// Build the guide tables that pay off for a number of steps.
    pub(crate) fn tables(&self, steps: usize) -> SamplingTables {
        let (members, mut tables) = (self.positives.members, SamplingTables::default());
        let lists = self.positives.member_ptr.windows(2);
        if !self.positives.any_negative && steps >= members.len() / 4 {
            let mut table = GuideTable::with_capacity(lists.len(), members.len());
            for ends in lists {
                let own = &members[ends[0].position()..ends[1].position()];
                let free = (0..).zip(own).map(|(k, member)| member - k);
                let free = free.map(|free| u32::try_from(free).unwrap_or(u32::MAX));
                let bound = self.positives.n_documents.saturating_sub(count(own.len()));
                table.add(free, bound);
            }
            tables.members = table.finish();
        }
        let sums = self.positives.query_sums;
        if !sums.is_empty() && steps >= sums.len() / 4 {
            let mut table = GuideTable::with_capacity(1, sums.len());
            let short = sums
                .iter()
                .map(|&sum| u32::try_from(sum).unwrap_or(u32::MAX));
            table.add(short, last_of(sums));
            tables.queries = table.finish();
        }
        tables
    }

    /// The same, with guide tables.
    pub(crate) fn with_tables<'b>(&self, tables: &'b SamplingTables) -> Sampling<'b>
    where
        'a: 'b,
    {
        Sampling {
            tables: Some(tables),
            ..*self
        }
    }

    /// Sample the queries of the steps from `step` on: first the numbers of all, so that none
    /// waits for the memory that another reads.
    #[inline(always)]
    pub(crate) fn queries<M: Machine>(&self, machine: M, step: usize, out: &mut [SampledQuery]) {
        let sums = self.positives.query_sums;
        let total = last_of(sums);
        for (sampled, k) in out.iter_mut().zip(0..) {
            let step = self.first.wrapping_add(step as u64).wrapping_add(k);
            sampled.key = random_bits(self.seed, step);
            sampled.excess = (!sums.is_empty()).then(|| permuted(self.seed, step, total));
        }
        for sampled in out {
            let at = if let Some(number) = sampled.excess {
                let at = self.first_above(machine, number);
                let before = at.checked_sub(1).map_or(0, |before| sums[before]);
                let excess = i64::from(number).saturating_sub(before);
                sampled.excess = Some(u32::try_from(excess).unwrap_or(0));
                at
            } else {
                let bound = count(self.positives.queries.len());
                below(random_bits(sampled.key, 0), bound) as usize
            };
            sampled.query = self.positives.queries[at].position();
            sampled.list = self.positives.list_of[sampled.query].position();
            let pointer = self.positives.member_ptr;
            let ends = [0, 1].map(|next| pointer[sampled.list + next].position());
            (sampled.start, sampled.size) = (ends[0], count(ends[1] - ends[0]));
            self.prefetch(machine, sampled);
        }
    }

    /// The position of the first query whose cumulative count exceeds a number.
    #[inline(always)]
    fn first_above<M: Machine>(&self, machine: M, number: u32) -> usize {
        let sums = self.positives.query_sums;
        match self.tables {
            Some(SamplingTables { queries, .. }) if !queries.is_empty() => {
                // The bits from which `below` would make the number.
                let bound = last_of(sums);
                let bits = (u64::from(number) << 32).div_ceil(u64::from(bound.max(1)));
                let lookup = Lookup::new(bits << 32, bound, 0, 0, count(sums.len()));
                queries.count(machine, &lookup).min(sums.len() - 1)
            }
            _ => first_above(number, sums),
        }
    }

    /// Sample the k-th number of a triplet, a positive; return its position among all members.
    #[inline(always)]
    pub(crate) fn positive(&self, sampled: &SampledQuery, k: u64) -> usize {
        let excess = sampled.excess.filter(|_| k == 1);
        let number =
            |bound: u32| excess.unwrap_or_else(|| below(random_bits(sampled.key, k), bound));
        if !self.positives.member_sums.is_empty() {
            let sums = &self.positives.member_sums[sampled.range()];
            return sampled.start + first_above(number(last_of(sums)), sums);
        }
        let own = self.positives.own_document[sampled.query];
        let bound = sampled.size - u32::from(own >= 0);
        // Within bounds even if the counts are wrong.
        let mut at = number(bound).min(bound - 1) as usize;
        if own >= 0 {
            let list = &self.positives.members[sampled.range()];
            at += usize::from(at >= list.partition_point(|&member| member < own));
        }
        sampled.start + at
    }

    /// Prefetch the first positive of a triplet, if its position is known.
    #[inline(always)]
    fn prefetch<M: Machine>(&self, machine: M, sampled: &SampledQuery) {
        let is_uniform = self.positives.member_sums.is_empty();
        if let Some(excess) = sampled.excess.filter(|_| is_uniform) {
            machine.prefetch(self.positives.members, sampled.start + excess as usize);
        }
    }

    /// The document at a position among all members.
    #[inline(always)]
    pub(crate) fn member(&self, at: usize) -> usize {
        // Within bounds even if the members are wrong.
        let member = self.positives.members[at].position();
        member.min(self.positives.n_documents as usize - 1)
    }

    /// The weight of the member at a position.
    #[inline(always)]
    pub(crate) fn weight(&self, at: usize) -> f32 {
        let weights = self.positives.member_weights;
        weights.get(at).copied().unwrap_or(1.0)
    }

    /// Sample the k-th number of triplets, negatives, and give each to `take`.
    ///
    /// With guide tables, what all triplets read is prefetched before any reads it; there is a
    /// lookup for each.
    #[inline(always)]
    pub(crate) fn negatives<M: Machine>(
        &self,
        machine: M,
        group: Group<'_>,
        k: u64,
        lookups: &mut [Lookup],
        mut take: impl FnMut(usize, usize),
    ) {
        let members = match self.tables {
            Some(tables) if !tables.members.is_empty() => &tables.members,
            _ => {
                for &at in group.open {
                    let at = at as usize;
                    let positive = group.positives[at] as usize;
                    take(at, self.negative(&group.queries[at], positive, k));
                }
                return;
            }
        };
        let lookups = &mut lookups[..group.open.len()];
        for (&at, lookup) in group.open.iter().zip(&mut *lookups) {
            let SampledQuery {
                key,
                list,
                start,
                size,
                ..
            } = group.queries[at as usize];
            let bound = self.positives.n_documents - size;
            *lookup = Lookup::new(random_bits(key, k), bound, list, start, size);
            members.prefetch_interval(machine, lookup);
        }
        for lookup in &*lookups {
            members.prefetch_numbers(machine, lookup);
        }
        for (&at, lookup) in group.open.iter().zip(&*lookups) {
            let document = lookup.number as usize + members.count(machine, lookup);
            take(at as usize, document);
        }
    }

    /// Sample the k-th number of a triplet, a negative.
    #[inline(always)]
    fn negative(&self, sampled: &SampledQuery, positive: usize, k: u64) -> usize {
        let bits = random_bits(sampled.key, k);
        if self.positives.any_negative {
            return self.other(bits, self.positives.own_document[sampled.query], positive);
        }
        let list = &self.positives.members[sampled.range()];
        let u = below(bits, self.positives.n_documents - sampled.size);
        u as usize + members_before(list, i64::from(u))
    }

    /// A document that is neither the positive nor the query's own.
    #[inline(always)]
    fn other(&self, bits: u64, own: i64, positive: usize) -> usize {
        let n_documents = self.positives.n_documents;
        let Ok(own) = usize::try_from(own) else {
            let u = below(bits, n_documents - 1) as usize;
            return u + usize::from(positive <= u);
        };
        let (low, high) = (own.min(positive), own.max(positive));
        if low == high {
            let u = below(bits, n_documents - 1) as usize;
            return u + usize::from(low <= u);
        }
        let u = below(bits, n_documents - 2) as usize;
        u + usize::from(low <= u) + usize::from(high - 1 <= u)
    }
}

/// A length as a bound of random numbers; 0 if it is too large.
#[inline(always)]
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(0)
}

/// The last of cumulative counts.
#[inline(always)]
fn last_of(sums: &[i64]) -> u32 {
    sums.last()
        .map_or(0, |&last| u32::try_from(last).unwrap_or(0))
}

/// The first position whose cumulative count exceeds a number.
#[inline(always)]
fn first_above(number: u32, sums: &[i64]) -> usize {
    let at = sums.partition_point(|&sum| sum <= i64::from(number));
    at.min(sums.len() - 1)
}

/// The number of a step: every pass over 0..size is a permutation of its own.
///
/// A Feistel network of four rounds permutes the numbers of 2 h bits, h the smallest with
/// 2^(2 h) >= size; a number that is too large is permuted again.
#[inline(always)]
fn permuted(seed: u64, step: u64, size: u32) -> u32 {
    let size = u64::from(size.max(1));
    let (key, mut number) = (random_bits(seed, step / size), step % size);
    let half = (64 - (size - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1_u64 << half) - 1;
    loop {
        let (mut high, mut low) = (number >> half, number & mask);
        for round in 0..4_u64 {
            let bits = random_bits(key, round << 32 | low);
            (high, low) = (low, high ^ (bits >> 32 & mask));
        }
        number = high << half | low;
        if number < size {
            return u32::try_from(number).unwrap_or(0);
        }
    }
}

/// How many members of a list come before the u-th document that is not a member: before list[k]
/// there are list[k] - k, so the u-th is u + k.
#[inline(always)]
fn members_before(list: &[i64], u: i64) -> usize {
    let (mut first, mut end) = (0, list.len());
    while first < end {
        let middle = usize::midpoint(first, end);
        if list[middle].wrapping_sub_unsigned(middle as u64) <= u {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    first
}
