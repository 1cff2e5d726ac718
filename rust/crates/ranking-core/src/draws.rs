//! Tuples by counter: the draws of a step are those of a seed that is the step's own draw.

use std::collections::TryReserveError;
use std::ops::Range;

use crate::guides::{Guide, Place};
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::{Index, Machine, Portable};
use crate::rng::{below, draw};

/// Which documents match which query; `ranking/kernels/match_lists.py` says what each field is.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are described there")]
pub struct MatchFields<'a> {
    pub queries: &'a [i64],
    pub query_sums: &'a [i64],
    pub list_of: &'a [i64],
    pub list_ptr: &'a [i64],
    pub members: &'a [i64],
    pub member_sums: &'a [i64],
    pub itself: &'a [i64],
    pub member_weights: &'a [f32],
    pub n_documents: u32,
    pub any_other: bool,
}

/// Lists that can be drawn from.
#[derive(Clone, Copy, Debug)]
pub struct MatchLists<'a>(MatchFields<'a>, Option<&'a Guides>);

/// What makes draws faster, if there are enough of them to make up for it.
#[derive(Debug, Default)]
pub(crate) struct Guides {
    /// For each member how many documents before it are none.
    members: Guide,
    /// The running sums of queries.
    queries: Guide,
}

/// A step's key and query, and where the query's list is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Begun {
    key: u64,
    pub(crate) query: usize,
    list: usize,
    /// Where the list begins among all members, and how long it is.
    start: usize,
    size: u32,
    /// What was dealt for the first positive, if it is not to be drawn.
    rest: Option<u32>,
}

impl Begun {
    /// A tuple that is not drawn.
    #[inline(always)]
    pub(crate) fn given(query: usize) -> Self {
        Self {
            query,
            ..Self::default()
        }
    }

    /// The places of the list's members.
    #[inline(always)]
    fn places(&self) -> Range<usize> {
        self.start..self.start + self.size as usize
    }
}

impl<'a> MatchLists<'a> {
    /// Check what drawing could not bear; that values rise is trusted.
    ///
    /// # Errors
    /// When sizes or positions do not fit, or a query to draw has nothing to be drawn.
    pub fn new(fields: MatchFields<'a>) -> Result<Self, Invalid> {
        let (lists, members) = (fields.list_ptr.len().max(1) - 1, fields.members.len());
        let all_or_none = |length: usize, wanted: usize| if length == 0 { 0 } else { wanted };
        check_length("itself", fields.itself.len(), fields.list_of.len())?;
        let sums = fields.query_sums.len();
        check_length("query_sums", sums, all_or_none(sums, fields.queries.len()))?;
        let sums = fields.member_sums.len();
        check_length("member_sums", sums, all_or_none(sums, members))?;
        let weights = fields.member_weights.len();
        check_length("member_weights", weights, all_or_none(weights, members))?;
        let pointers = fields.list_ptr.iter().map(|at| at.position());
        check_pointer("list_ptr", pointers, lists, members)?;
        let made = Self(fields, None);
        let all_fit = || fields.queries.iter().all(|&query| made.can_draw(query));
        if u32::try_from(fields.queries.len()).is_ok() && all_fit() {
            return Ok(made);
        }
        Err(Invalid::new(
            "every query to draw needs a document that matches and one that not.",
        ))
    }

    fn can_draw(&self, query: i64) -> bool {
        let fits = || {
            let list = self.0.list_of.get(query.position())?.position();
            let start = self.0.list_ptr.get(list)?.position();
            let stop = self.0.list_ptr.get(list.checked_add(1)?)?.position();
            let taken = u32::from(*self.0.itself.get(query.position())? >= 0);
            let size = u32::try_from(stop - start).ok()?;
            let barred = if self.0.any_other { 1 + taken } else { size };
            Some(size > taken && barred < self.0.n_documents)
        };
        fits() == Some(true)
    }

    /// What makes so many draws faster.
    pub(crate) fn guides(&self, draws: usize) -> Result<Guides, TryReserveError> {
        let (members, mut guides) = (self.0.members, Guides::default());
        let lists = self.0.list_ptr.windows(2);
        if !self.0.any_other && draws >= members.len() / 4 {
            let mut guide = Guide::with_room(lists.len(), members.len())?;
            for ends in lists {
                let own = &members[ends[0].position()..ends[1].position()];
                let free = (0..).zip(own).map(|(k, member)| member - k);
                let free = free.map(|free| u32::try_from(free).unwrap_or(u32::MAX));
                guide.add(free, self.0.n_documents.saturating_sub(count(own.len())));
            }
            guides.members = guide.finish();
        }
        let sums = self.0.query_sums;
        if !sums.is_empty() && draws >= sums.len() / 4 {
            let mut guide = Guide::with_room(1, sums.len())?;
            let short = sums
                .iter()
                .map(|&sum| u32::try_from(sum).unwrap_or(u32::MAX));
            guide.add(short, last_of(sums));
            guides.queries = guide.finish();
        }
        Ok(guides)
    }

    /// The same with guides at hand.
    pub(crate) fn guided(&self, guides: &'a Guides) -> Self {
        Self(self.0, Some(guides))
    }

    pub(crate) fn n_documents(&self) -> usize {
        self.0.n_documents as usize
    }

    /// How many queries have lists, drawn from or not.
    pub(crate) fn n_queries(&self) -> usize {
        self.0.list_of.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.queries.is_empty()
    }

    /// Draw the query of a step, or deal it.
    fn begin(&self, seed: u64, step: u64) -> Begun {
        let mut begun = [Begun::default()];
        self.begin_all(Portable, seed, step, &mut begun);
        begun[0]
    }

    /// Draw the queries of steps from `first` on, or deal them: first the numbers of all, so that
    /// none waits for what another's number stands for.
    #[inline(always)]
    pub(crate) fn begin_all<M: Machine>(
        &self,
        machine: M,
        seed: u64,
        first: u64,
        all: &mut [Begun],
    ) {
        let sums = self.0.query_sums;
        let total = last_of(sums);
        for (begun, k) in all.iter_mut().zip(0..) {
            let step = first.wrapping_add(k);
            begun.key = draw(seed, step);
            begun.rest = (!sums.is_empty()).then(|| shuffled(seed, step, total));
        }
        for begun in all {
            let at = if let Some(number) = begun.rest {
                let at = self.counted_query(machine, number);
                let before = at.checked_sub(1).map_or(0, |before| sums[before]);
                let rest = i64::from(number).saturating_sub(before);
                begun.rest = Some(u32::try_from(rest).unwrap_or(0));
                at
            } else {
                below(draw(begun.key, 0), count(self.0.queries.len())) as usize
            };
            begun.query = self.0.queries[at].position();
            begun.list = self.0.list_of[begun.query].position();
            let ends = [0, 1].map(|next| self.0.list_ptr[begun.list + next].position());
            (begun.start, begun.size) = (ends[0], count(ends[1] - ends[0]));
            self.ask(machine, begun);
        }
    }

    /// The place of the query whose running sum is the first to exceed a number.
    #[inline(always)]
    fn counted_query<M: Machine>(&self, machine: M, number: u32) -> usize {
        let sums = self.0.query_sums;
        match self.1 {
            Some(Guides { queries, .. }) if !queries.is_empty() => {
                // The bits that would have been drawn for the number.
                let bound = last_of(sums);
                let bits = (u64::from(number) << 32).div_ceil(u64::from(bound.max(1)));
                let place = Place::new(bits << 32, bound, 0, 0, count(sums.len()));
                queries.count(machine, &place).min(sums.len() - 1)
            }
            _ => counted(number, sums),
        }
    }

    /// Draw the k-th number of a tuple, a positive; return its place among all members.
    #[inline(always)]
    pub(crate) fn positive(&self, begun: &Begun, k: u64) -> usize {
        let dealt = begun.rest.filter(|_| k == 1);
        let number = |bound: u32| dealt.unwrap_or_else(|| below(draw(begun.key, k), bound));
        if !self.0.member_sums.is_empty() {
            let sums = &self.0.member_sums[begun.places()];
            return begun.start + counted(number(last_of(sums)), sums);
        }
        let itself = self.0.itself[begun.query];
        let bound = begun.size - u32::from(itself >= 0);
        // Smaller than what is there, whatever was trusted.
        let mut at = number(bound).min(bound - 1) as usize;
        if itself >= 0 {
            let own = &self.0.members[begun.places()];
            at += usize::from(at >= own.partition_point(|&member| member < itself));
        }
        begun.start + at
    }

    /// Ask for the first positive of a tuple, if it is known where it is.
    #[inline(always)]
    fn ask<M: Machine>(&self, machine: M, begun: &Begun) {
        if let Some(rest) = begun.rest.filter(|_| self.0.member_sums.is_empty()) {
            machine.ask(self.0.members, begun.start + rest as usize);
        }
    }

    /// The document at a place among all members.
    #[inline(always)]
    pub(crate) fn member(&self, place: usize) -> usize {
        // Smaller than what is counted, whatever was trusted.
        self.0.members[place]
            .position()
            .min(self.0.n_documents as usize - 1)
    }

    /// How much the member at a place counts.
    #[inline(always)]
    pub(crate) fn weight(&self, place: usize) -> f32 {
        self.0.member_weights.get(place).copied().unwrap_or(1.0)
    }

    /// Draw the k-th number of tuples, negatives, and give each to `take`; `positives` are the
    /// tuples' first documents.
    ///
    /// With guides, what all tuples read is asked for before any reads it; there is a place for
    /// each.
    #[inline(always)]
    pub(crate) fn negatives<M: Machine>(
        &self,
        machine: M,
        begun: &[Begun],
        positives: &[u32],
        tuples: &[u32],
        k: u64,
        places: &mut [Place],
        mut take: impl FnMut(usize, usize),
    ) {
        let members = match self.1 {
            Some(guides) if !guides.members.is_empty() => &guides.members,
            _ => {
                for &at in tuples {
                    let at = at as usize;
                    take(at, self.negative(&begun[at], positives[at] as usize, k));
                }
                return;
            }
        };
        let places = &mut places[..tuples.len()];
        for (&at, place) in tuples.iter().zip(&mut *places) {
            let Begun {
                key,
                list,
                start,
                size,
                ..
            } = begun[at as usize];
            let bound = self.0.n_documents - size;
            *place = Place::new(draw(key, k), bound, list, start, size);
            members.ask(machine, place);
        }
        for place in &*places {
            members.ask_more(machine, place);
        }
        for (&at, place) in tuples.iter().zip(&*places) {
            take(
                at as usize,
                place.number as usize + members.count(machine, place),
            );
        }
    }

    /// Draw the k-th number of a tuple, a negative.
    #[inline(always)]
    fn negative(&self, begun: &Begun, positive: usize, k: u64) -> usize {
        let bits = draw(begun.key, k);
        if self.0.any_other {
            return self.other(bits, self.0.itself[begun.query], positive);
        }
        let own = &self.0.members[begun.places()];
        let u = below(bits, self.0.n_documents - begun.size);
        u as usize + passed(own, i64::from(u))
    }

    /// A document that is neither the positive nor the query itself.
    #[inline(always)]
    fn other(&self, bits: u64, itself: i64, positive: usize) -> usize {
        let Ok(itself) = usize::try_from(itself) else {
            let u = below(bits, self.0.n_documents - 1) as usize;
            return u + usize::from(positive <= u);
        };
        let (low, high) = (itself.min(positive), itself.max(positive));
        if low == high {
            let u = below(bits, self.0.n_documents - 1) as usize;
            return u + usize::from(low <= u);
        }
        let u = below(bits, self.0.n_documents - 2) as usize;
        u + usize::from(low <= u) + usize::from(high - 1 <= u)
    }
}

/// A length that fits, or nothing to draw from.
#[inline(always)]
fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(0)
}

/// The last of running sums.
#[inline(always)]
fn last_of(sums: &[i64]) -> u32 {
    sums.last()
        .map_or(0, |&last| u32::try_from(last).unwrap_or(0))
}

/// The first place whose running sum exceeds a number.
#[inline(always)]
fn counted(number: u32, sums: &[i64]) -> usize {
    let at = sums.partition_point(|&sum| sum <= i64::from(number));
    at.min(sums.len() - 1)
}

/// The number that a step is dealt: every pass over 0..size is a permutation of its own.
///
/// A Feistel network of four rounds permutes the numbers of 2 h bits, h the smallest with
/// 2^(2 h) >= size; a number that is too large is sent through again.
#[inline(always)]
fn shuffled(seed: u64, step: u64, size: u32) -> u32 {
    let size = u64::from(size.max(1));
    let (key, mut number) = (draw(seed, step / size), step % size);
    let half = (64 - (size - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1_u64 << half) - 1;
    loop {
        let (mut high, mut low) = (number >> half, number & mask);
        for turn in 0..4_u64 {
            (high, low) = (low, high ^ (draw(key, turn << 32 | low) >> 32 & mask));
        }
        number = high << half | low;
        if number < size {
            return u32::try_from(number).unwrap_or(0);
        }
    }
}

/// How many members of a list come before the u-th document that is none: before own[k] there
/// are own[k] - k, so the u-th is u + k.
#[inline(always)]
fn passed(own: &[i64], u: i64) -> usize {
    let (mut first, mut end) = (0, own.len());
    while first < end {
        let middle = usize::midpoint(first, end);
        if own[middle].wrapping_sub_unsigned(middle as u64) <= u {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    first
}

/// Fill `out` with tuples of `width` numbers: query, positives, negatives.
///
/// # Errors
/// When `out` does not consist of whole tuples, or there is no query.
pub fn draw_tuples(
    seed: u64,
    first: u64,
    lists: &MatchLists<'_>,
    positives: usize,
    width: usize,
    out: &mut [i64],
) -> Result<(), Invalid> {
    let fits = positives > 0 && width >= positives.saturating_add(2);
    if !fits || !out.len().is_multiple_of(width) || (lists.is_empty() && !out.is_empty()) {
        return Err(Invalid::new(
            "a tuple is a query, its positives and at least one negative.",
        ));
    }
    let number = |at: usize| i64::try_from(at).unwrap_or(i64::MAX);
    for (step, tuple) in (0..).zip(out.chunks_exact_mut(width)) {
        let begun = lists.begin(seed, first.wrapping_add(step));
        tuple[0] = number(begun.query);
        let (chosen, negatives) = tuple[1..].split_at_mut(positives);
        for (k, positive) in (1..).zip(chosen.iter_mut()) {
            *positive = number(lists.member(lists.positive(&begun, k)));
        }
        let better = chosen[0].position();
        for (k, negative) in (1 + positives as u64..).zip(negatives) {
            *negative = number(lists.negative(&begun, better, k));
        }
    }
    Ok(())
}
