//! Sorting lists by score.

use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::Index;
use crate::metrics::LISTS;
use crate::threads::Crew;

/// A score, in the precision in which it is compared.
pub trait Score: Copy + Send + Sync {
    /// A key that rises as the score falls; -0.0 has the key of 0.0.
    fn descending(self) -> u64;
}

impl Score for f64 {
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

/// So many are sorted faster by comparing than by counting digits.
const FEW: usize = 64;
const DIGIT: u32 = 11;

/// Sort by key, stable, digit by digit from the lowest bit that differs.
pub(super) fn sort(items: &mut Vec<(u64, i64)>, spare: &mut Vec<(u64, i64)>) {
    let n = items.len();
    if n <= FEW {
        items.sort_by_key(|item| item.0);
        return;
    }
    let differs = items
        .iter()
        .fold(0, |all, item| all | (item.0 ^ items[0].0));
    if differs == 0 {
        return;
    }
    let (mut shift, end) = (differs.trailing_zeros(), 64 - differs.leading_zeros());
    let passes = (end - shift).div_ceil(if n < 512 { 8 } else { DIGIT });
    let digit = (end - shift).div_ceil(passes);
    let mut starts = [0_usize; 1 << DIGIT];
    let starts = &mut starts[..1 << digit];
    let mask = (1_u64 << digit) - 1;
    spare.clear();
    spare.resize(n, (0, 0));
    while shift < end {
        let bucket = |key: u64| usize::try_from(key >> shift & mask).unwrap_or(0);
        starts.fill(0);
        for item in items.iter() {
            starts[bucket(item.0)] += 1;
        }
        let mut total = 0;
        for start in starts.iter_mut() {
            total += std::mem::replace(start, total);
        }
        for &item in items.iter() {
            let start = &mut starts[bucket(item.0)];
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
    let (mut items, mut spare) = (Vec::new(), Vec::new());
    for ends in group_ptr.windows(2) {
        let (start, stop) = (ends[0].position(), ends[1].position());
        items.clear();
        let keys = scores[start..stop].iter().map(|score| score.descending());
        items.extend(keys.zip(ends[0]..));
        sort(&mut items, &mut spare);
        let mut before = None;
        let places = order[start - base..stop - base]
            .iter_mut()
            .zip(&mut tied[start - base..stop - base]);
        for ((place, flag), &(key, row)) in places.zip(&items) {
            *place = row;
            *flag = u8::from(before == Some(key));
            before = Some(key);
        }
    }
}
