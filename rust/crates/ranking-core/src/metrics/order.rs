//! Sorting lists by score.

use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;
use crate::metrics::LISTS;
use crate::threads::Crew;

/// A score, in the precision in which it is compared.
pub trait Score: Copy + Send + Sync {
    /// How many bits a key has.
    const BITS: u32;

    /// A key that rises as the score falls; -0.0 has the key of 0.0.
    fn descending(self) -> u64;
}

impl Score for f64 {
    const BITS: u32 = 64;

    #[inline]
    fn descending(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        if bits >> 63 == 1 {
            bits
        } else {
            !bits ^ (1 << 63)
        }
    }
}

impl Score for f32 {
    const BITS: u32 = 32;

    #[inline]
    fn descending(self) -> u64 {
        let bits = (self + 0.0).to_bits();
        u64::from(if bits >> 31 == 1 {
            bits
        } else {
            !bits ^ (1 << 31)
        })
    }
}

/// What is sorted by a key: the key itself, or with where it was.
pub(super) trait Keyed: Copy + Default {
    fn key(self) -> u64;
}

impl Keyed for u64 {
    #[inline]
    fn key(self) -> u64 {
        self
    }
}

impl Keyed for (u64, i64) {
    #[inline]
    fn key(self) -> u64 {
        self.0
    }
}

/// So many are sorted faster by comparing than by counting digits.
const FEW: usize = 48;
/// From so many on it pays to count the longer digits.
const MANY: usize = 4096;
const DIGIT: u32 = 11;
const SHORT_DIGIT: u32 = 8;

/// Sort by the bits of the key from `shift` on, stable, digit by digit from the lowest bit that
/// differs.
pub(super) fn sort<T: Keyed>(items: &mut Vec<T>, spare: &mut Vec<T>, mut shift: u32) {
    let n = items.len();
    if n <= FEW {
        items.sort_by_key(|item| item.key() >> shift);
        return;
    }
    let first = items[0].key();
    let differs = items.iter().fold(0, |all, item| all | (item.key() ^ first)) >> shift << shift;
    if differs == 0 {
        return;
    }
    let end = 64 - differs.leading_zeros();
    shift = differs.trailing_zeros();
    let passes = (end - shift).div_ceil(if n < MANY { SHORT_DIGIT } else { DIGIT });
    let digit = (end - shift).div_ceil(passes);
    let mut starts = [0_usize; 1 << DIGIT];
    let starts = &mut starts[..1 << digit];
    let mask = (1_u64 << digit) - 1;
    spare.resize(n, T::default());
    while shift < end {
        let bucket = |item: T| usize::try_from(item.key() >> shift & mask).unwrap_or(0);
        starts.fill(0);
        for &item in items.iter() {
            starts[bucket(item)] += 1;
        }
        let mut total = 0;
        for start in starts.iter_mut() {
            total += std::mem::replace(start, total);
        }
        for &item in items.iter() {
            let start = &mut starts[bucket(item)];
            spare[*start] = item;
            *start += 1;
        }
        std::mem::swap(items, spare);
        shift += digit;
    }
}

struct Part<'a> {
    first: usize,
    order: &'a mut [i64],
    tied: &'a mut [u8],
}

/// Fill `order` with the row at each place, and `tied` with 1 where a place has the score of the
/// place before it in its list.
///
/// # Errors
/// When sizes do not fit.
pub fn rank_lists<S: Score>(
    group_ptr: &[i64],
    scores: &[S],
    order: &mut [i64],
    tied: &mut [u8],
    crew: &Crew,
) -> Result<(), Invalid> {
    let lists = group_ptr.len().saturating_sub(1);
    let positions = group_ptr.iter().map(|at| at.position());
    check_pointer("group_ptr", positions, lists, scores.len())?;
    check_length("order", order.len(), scores.len())?;
    check_length("tied", tied.len(), scores.len())?;
    let (mut order, mut tied) = (order, tied);
    let mut parts = Vec::with_capacity(lists.div_ceil(LISTS));
    for first in (0..lists).step_by(LISTS) {
        let last = lists.min(first + LISTS);
        let rows = group_ptr[last].position() - group_ptr[first].position();
        let (mine, others) = order.split_at_mut(rows);
        let (flags, rest) = tied.split_at_mut(rows);
        (order, tied) = (others, rest);
        parts.push(Part {
            first,
            order: mine,
            tied: flags,
        });
    }
    crew.enter(|| {
        crew.for_each(&mut parts, |part| {
            let lists = &group_ptr[part.first..=lists.min(part.first + LISTS)];
            rank_some(lists, scores, part.order, part.tied);
        });
    });
    Ok(())
}

fn rank_some<S: Score>(group_ptr: &[i64], scores: &[S], order: &mut [i64], tied: &mut [u8]) {
    let base = group_ptr[0].position();
    let mut scratch = Scratch::default();
    for ends in group_ptr.windows(2) {
        let (start, stop) = (ends[0].position(), ends[1].position());
        let scores = &scores[start..stop];
        let order = &mut order[start - base..stop - base];
        let tied = &mut tied[start - base..stop - base];
        if S::BITS == 32 && u32::try_from(scores.len()).is_ok() {
            scratch.rank_words(ends[0], scores, order, tied);
        } else {
            scratch.rank_pairs(ends[0], scores, order, tied);
        }
    }
}

/// Kept from one list to the next.
#[derive(Default)]
struct Scratch {
    words: Vec<u64>,
    spare_words: Vec<u64>,
    pairs: Vec<(u64, i64)>,
    spare_pairs: Vec<(u64, i64)>,
}

impl Scratch {
    /// A key of 32 bits leaves room for the place in the same word: half as much to move.
    fn rank_words<S: Score>(
        &mut self,
        first: i64,
        scores: &[S],
        order: &mut [i64],
        tied: &mut [u8],
    ) {
        self.words.clear();
        let keys = scores.iter().map(|score| score.descending() << 32);
        self.words.extend(keys.zip(0..).map(|(key, i)| key | i));
        sort(&mut self.words, &mut self.spare_words, 32);
        for (place, word) in order.iter_mut().zip(&self.words) {
            *place = first + (word & u64::from(u32::MAX)).cast_signed();
        }
        mark_ties(tied, self.words.iter().map(|word| word >> 32));
    }

    fn rank_pairs<S: Score>(
        &mut self,
        first: i64,
        scores: &[S],
        order: &mut [i64],
        tied: &mut [u8],
    ) {
        self.pairs.clear();
        let keys = scores.iter().map(|score| score.descending());
        self.pairs.extend(keys.zip(first..));
        sort(&mut self.pairs, &mut self.spare_pairs, 0);
        for (place, item) in order.iter_mut().zip(&self.pairs) {
            *place = item.1;
        }
        mark_ties(tied, self.pairs.iter().map(|item| item.0));
    }
}

fn mark_ties(tied: &mut [u8], keys: impl Iterator<Item = u64>) {
    let mut before = None;
    for (flag, key) in tied.iter_mut().zip(keys) {
        *flag = u8::from(before == Some(key));
        before = Some(key);
    }
}
