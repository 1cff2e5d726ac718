//! Guide tables: how many numbers of a sorted list are at most a random number.
//!
//! A random number below a bound is made from 32 bits, and rises with them. Cut the range of these
//! bits into equal intervals, one for every four numbers of the list: the counts of an interval lie
//! between two numbers, which the guide table holds. The list is copied as 32-bit integers. So a
//! count reads two places in memory, and both can be prefetched early.

use crate::constants::WIDE;
use crate::error::reserve;
use crate::random::below;
use crate::simd::Machine;

/// Sorted lists of numbers, one after the other, and their guide tables.
#[derive(Debug, Default)]
pub(crate) struct GuideTable {
    numbers: Vec<u32>,
    /// For each list and interval, how many numbers are at most the first one of the interval.
    starts: Vec<u32>,
    lists: usize,
}

/// A random number, and where its count is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lookup {
    pub(crate) number: u32,
    /// Position of the list.
    list: usize,
    /// Position in `starts`.
    interval: usize,
}

impl Lookup {
    /// Make a number below a bound from random bits, for list `number`, which has `size` numbers
    /// from `start` on among those of all lists.
    #[inline(always)]
    pub(crate) fn new(bits: u64, bound: u32, number: usize, start: usize, size: u32) -> Self {
        Self {
            number: below(bits, bound),
            list: start,
            interval: first_interval(start, number) + below(bits, intervals(size)) as usize,
        }
    }
}

#[inline(always)]
fn intervals(size: u32) -> u32 {
    size / 4 + 1
}

/// Position of the intervals of list `number`, given how many numbers the lists before it have.
#[inline(always)]
fn first_interval(before: usize, number: usize) -> usize {
    before / 4 + 2 * number
}

impl GuideTable {
    /// Allocate so many lists, which have so many numbers in total.
    pub(crate) fn with_capacity(lists: usize, numbers: usize) -> Self {
        let mut table = Self::default();
        reserve(&mut table.numbers, numbers + WIDE);
        let length = first_interval(numbers, lists);
        reserve(&mut table.starts, length);
        table
    }

    /// Add a list, in which numbers below a bound are looked up.
    pub(crate) fn add(&mut self, numbers: impl Iterator<Item = u32>, bound: u32) {
        let before = self.numbers.len();
        self.numbers.extend(numbers);
        let own = &self.numbers[before..];
        self.starts.resize(first_interval(before, self.lists), 0);
        let size = u32::try_from(own.len()).unwrap_or(u32::MAX);
        let (intervals, mut count) = (intervals(size), 0);
        for interval in 0..intervals {
            let bits = (u64::from(interval) << 32).div_ceil(u64::from(intervals));
            let number = below(bits << 32, bound);
            count += own[count..].iter().take_while(|&&x| x <= number).count();
            self.starts.push(u32::try_from(count).unwrap_or(u32::MAX));
        }
        self.starts.push(size);
        self.lists += 1;
    }

    /// Finish after the last list.
    pub(crate) fn finish(mut self) -> Self {
        self.numbers.extend([u32::MAX; WIDE]);
        self
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lists == 0
    }

    /// Prefetch what `prefetch_numbers` and `count` read first.
    #[inline(always)]
    pub(crate) fn prefetch_interval<M: Machine>(&self, machine: M, lookup: &Lookup) {
        machine.prefetch(&self.starts, lookup.interval);
    }

    /// Prefetch what `count` reads then.
    #[inline(always)]
    pub(crate) fn prefetch_numbers<M: Machine>(&self, machine: M, lookup: &Lookup) {
        let start = self.starts[lookup.interval] as usize;
        machine.prefetch(&self.numbers, lookup.list + start);
    }

    /// How many numbers of the list are at most the one of a lookup.
    #[inline(always)]
    pub(crate) fn count<M: Machine>(&self, machine: M, lookup: &Lookup) -> usize {
        let Some(&[start, end]) = self.starts[lookup.interval..].first_chunk::<2>() else {
            return 0;
        };
        let (start, end) = (start as usize, end as usize);
        let numbers = &self.numbers[lookup.list + start..];
        let mut count = start + count_eight(machine, numbers, end - start, lookup.number);
        // More than eight are rare.
        for first in (start + WIDE..end).step_by(WIDE) {
            let numbers = &self.numbers[lookup.list + first..];
            count += count_eight(machine, numbers, end - first, lookup.number);
        }
        count
    }
}

/// How many of the first `size` numbers, of which only eight are read, are at most a limit.
#[inline(always)]
fn count_eight<M: Machine>(machine: M, numbers: &[u32], size: usize, limit: u32) -> usize {
    let Some(numbers) = numbers.first_chunk::<WIDE>() else {
        return 0;
    };
    let counted = !(u32::MAX << size.min(WIDE));
    (machine.at_most(*numbers, limit) & counted).count_ones() as usize
}
