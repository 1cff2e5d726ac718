//! Guides to where a number stands among numbers that rise.
//!
//! A number below a bound is made of 32 bits, and rises with them. So all numbers whose bits fall
//! into one of some equal parts have their counts between two numbers, which a guide holds: a part
//! for every four of what is counted, which is copied as short as it can be. So a count looks at
//! two places in memory, and both can be asked for long before.

use std::collections::TryReserveError;

use crate::contract::WIDE;
use crate::lanes::Machine;
use crate::rng::below;

/// Numbers that are compared at a time.
const TOGETHER: usize = WIDE;

/// Lists of numbers that rise, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Guide {
    rising: Vec<u32>,
    /// For each list and part how many numbers are not above the first of the part.
    starts: Vec<u32>,
    lists: usize,
}

/// A number, and where its count is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place {
    pub(crate) number: u32,
    /// Where the list begins.
    list: usize,
    start: usize,
}

impl Place {
    /// Make a number below a bound from a draw, to be looked up in list `number`, which has so
    /// many numbers from `start` on among those of all lists.
    #[inline(always)]
    pub(crate) fn new(draw: u64, bound: u32, number: usize, start: usize, size: u32) -> Self {
        Self {
            number: below(draw, bound),
            list: start,
            start: first_part(start, number) + below(draw, parts(size)) as usize,
        }
    }
}

#[inline(always)]
fn parts(size: u32) -> u32 {
    size / 4 + 1
}

/// Where the parts are of list `number`, if so many numbers are in the lists before.
#[inline(always)]
fn first_part(before: usize, number: usize) -> usize {
    before / 4 + 2 * number
}

impl Guide {
    /// Make room for lists that have so many numbers in all.
    pub(crate) fn with_room(lists: usize, numbers: usize) -> Result<Self, TryReserveError> {
        let mut guide = Self::default();
        guide.rising.try_reserve_exact(numbers + TOGETHER)?;
        guide.starts.try_reserve_exact(first_part(numbers, lists))?;
        Ok(guide)
    }

    /// Add a list, in which numbers below a bound are looked up.
    pub(crate) fn add(&mut self, numbers: impl Iterator<Item = u32>, bound: u32) {
        let before = self.rising.len();
        self.rising.extend(numbers);
        let own = &self.rising[before..];
        self.starts.resize(first_part(before, self.lists), 0);
        let size = u32::try_from(own.len()).unwrap_or(u32::MAX);
        let (parts, mut count) = (parts(size), 0);
        for part in 0..parts {
            let bits = (u64::from(part) << 32).div_ceil(u64::from(parts));
            let number = below(bits << 32, bound);
            count += own[count..].iter().take_while(|&&x| x <= number).count();
            self.starts.push(u32::try_from(count).unwrap_or(u32::MAX));
        }
        self.starts.push(size);
        self.lists += 1;
    }

    /// There are no more lists.
    pub(crate) fn finish(mut self) -> Self {
        self.rising.extend([u32::MAX; TOGETHER]);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lists == 0
    }

    /// Ask for what `ask_more` and `count` read first.
    #[inline(always)]
    pub(crate) fn ask<M: Machine>(&self, machine: M, place: &Place) {
        machine.ask(&self.starts, place.start);
    }

    /// Ask for what `count` reads then.
    #[inline(always)]
    pub(crate) fn ask_more<M: Machine>(&self, machine: M, place: &Place) {
        let start = self.starts[place.start] as usize;
        machine.ask(&self.rising, place.list + start);
    }

    /// How many numbers of the list are not above the one at a place.
    #[inline(always)]
    pub(crate) fn count<M: Machine>(&self, machine: M, place: &Place) -> usize {
        let Some(&[start, end]) = self.starts[place.start..].first_chunk::<2>() else {
            return 0;
        };
        let (start, end) = (start as usize, end as usize);
        let rising = &self.rising[place.list + start..];
        let mut count = start + count_some(machine, rising, end - start, place.number);
        // More than eight are rare.
        for first in (start + TOGETHER..end).step_by(TOGETHER) {
            let rising = &self.rising[place.list + first..];
            count += count_some(machine, rising, end - first, place.number);
        }
        count
    }
}

/// How many of the first `size` numbers, no more than eight, are not above a limit.
#[inline(always)]
fn count_some<M: Machine>(machine: M, rising: &[u32], size: usize, limit: u32) -> usize {
    let Some(rising) = rising.first_chunk::<TOGETHER>() else {
        return 0;
    };
    let counted = !(u32::MAX << size.min(TOGETHER));
    (machine.at_most(*rising, limit) & counted).count_ones() as usize
}
