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
    let mut items: Vec<(u64, i64)> = Vec::new();
    for ends in group_ptr.windows(2) {
        let (start, stop) = (ends[0].position(), ends[1].position());
        items.clear();
        let keys = scores[start..stop].iter().map(|score| score.descending());
        items.extend(keys.zip(ends[0]..));
        items.sort_by_key(|item| item.0);
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
