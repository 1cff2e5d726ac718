//! A hash table of columns: two buckets of eight in which a column may be, and no others.
//!
//! So a column is found, or known to be absent, by two comparisons of eight keys, without a loop
//! whose end cannot be predicted. An entry that has died (|v| <= limit) needs no tombstone: its slot
//! is free for another column, and a bucket's free slots are seen by one comparison of its values.

use std::collections::TryReserveError;

use crate::bilinear::filled;
use crate::bilinear::stored::Stored;
use crate::contract::GAMMA;
use crate::lanes::{EIGHT, Machine, Portable};

/// The slot of a column that is not there.
pub(super) const NONE: u32 = u32::MAX;
/// The key of a slot that was never taken; no column is so large.
const EMPTY: u32 = u32::MAX;

/// Eight columns and their values; in single precision, a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<T> {
    keys: [u32; EIGHT],
    values: [T; EIGHT],
}

/// The buckets of a row.
#[derive(Debug, Default)]
pub(super) struct Buckets<T>(Vec<Bucket<T>>);

/// The two buckets of a column.
#[inline(always)]
fn homes(column: u32, buckets: usize) -> (usize, usize) {
    let hash = u64::from(column).wrapping_mul(GAMMA);
    (
        share(hash >> 32, buckets),
        share(hash & u64::from(u32::MAX), buckets),
    )
}

/// A 32-bit number as one below `buckets`.
#[inline(always)]
fn share(hash: u64, buckets: usize) -> usize {
    ((hash * buckets as u64) >> 32) as usize
}

/// The place of a bit in a mask; 32 if there is none.
#[inline(always)]
fn lowest(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are less than 2**31")]
fn slot_of(bucket: usize, lane: usize) -> u32 {
    (bucket * EIGHT + lane) as u32
}

impl<T: Stored> Buckets<T> {
    pub(super) fn new(buckets: usize) -> Result<Self, TryReserveError> {
        let empty = Bucket {
            keys: [EMPTY; EIGHT],
            values: [T::default(); EIGHT],
        };
        Ok(Self(filled(buckets, empty)?))
    }

    /// Buckets in which so many entries leave some room for more.
    pub(super) fn wanted(entries: usize) -> usize {
        (entries + entries / 2 + entries / 16).div_ceil(EIGHT)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(buckets: usize) -> usize {
        buckets.saturating_mul(size_of::<Bucket<T>>())
    }

    pub(super) fn taken(&self) -> usize {
        Self::bytes(self.0.capacity())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, T)> + Clone {
        let buckets = self.0.iter();
        buckets.flat_map(|bucket| bucket.keys.into_iter().zip(bucket.values))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut [T; EIGHT]> {
        self.0.iter_mut().map(|bucket| &mut bucket.values)
    }

    /// How many entries are alive.
    pub(super) fn alive(&self, limit: T) -> usize {
        let alive = self.entries().filter(|entry| !entry.1.is_within(limit));
        alive.count()
    }

    /// Find columns: their slots and, zero where there is none, their values.
    #[inline(always)]
    pub(super) fn gather<M: Machine>(
        &self,
        machine: M,
        columns: &[u32],
        values: &mut [T],
        slots: &mut [u32],
    ) {
        let buckets = &self.0[..];
        for ((&column, value), slot) in columns.iter().zip(values).zip(slots) {
            let (one, other) = homes(column, buckets.len());
            let (first, second) = (&buckets[one], &buckets[other]);
            let low = machine.equal(&first.keys, column);
            let high = machine.equal(&second.keys, column);
            // Chosen, not branched to: whether a column is there cannot be predicted.
            let lane = lowest(low | high) % EIGHT;
            let bucket = if low == 0 { other } else { one };
            let found = if low == 0 {
                second.values[lane]
            } else {
                first.values[lane]
            };
            let absent = low | high == 0;
            *value = if absent { T::default() } else { found };
            *slot = if absent { NONE } else { slot_of(bucket, lane) };
        }
    }

    #[inline(always)]
    fn find<M: Machine>(&self, machine: M, column: u32) -> u32 {
        let (mut value, mut slot) = ([T::default()], [NONE]);
        self.gather(machine, &[column], &mut value, &mut slot);
        slot[0]
    }

    /// Set columns found by `gather`, from number `from` on; return the number of the first for
    /// which there was no room, or how many there are.
    #[inline(always)]
    pub(super) fn scatter<M: Machine>(
        &mut self,
        machine: M,
        columns: &[u32],
        values: &[T],
        slots: &[u32],
        from: usize,
        limit: T,
    ) -> usize {
        let all = columns.iter().zip(values).zip(slots).enumerate().skip(from);
        for (number, ((&column, &value), &slot)) in all {
            if slot != NONE {
                // The slot may have been given to a column before this one, or been moved.
                if self.set(slot, column, value) {
                    continue;
                }
                let slot = self.find(machine, column);
                if self.set(slot, column, value) {
                    continue;
                }
            }
            if !value.is_within(limit) && !self.place(machine, column, value, limit) {
                return number;
            }
        }
        columns.len()
    }

    /// Set the value of a slot, if it is this column's.
    #[inline(always)]
    fn set(&mut self, slot: u32, column: u32, value: T) -> bool {
        let (bucket, lane) = (slot as usize / EIGHT, slot as usize % EIGHT);
        match self.0.get_mut(bucket) {
            Some(bucket) if bucket.keys[lane] == column => {
                bucket.values[lane] = value;
                true
            }
            _ => false,
        }
    }

    /// Give a column that is not there a slot, if there is one.
    #[inline(always)]
    pub(super) fn place<M: Machine>(
        &mut self,
        machine: M,
        column: u32,
        value: T,
        limit: T,
    ) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let (one, other) = homes(column, self.0.len());
        let low = T::within(machine, &self.0[one].values, limit);
        let high = T::within(machine, &self.0[other].values, limit);
        // The emptier one, which keeps both from overflowing for long.
        let more = high.count_ones() > low.count_ones();
        let (bucket, free) = if more { (other, high) } else { (one, low) };
        if free == 0 {
            return self.displace(one, other, column, value, limit);
        }
        let (bucket, lane) = (&mut self.0[bucket], lowest(free) % EIGHT);
        bucket.keys[lane] = column;
        bucket.values[lane] = value;
        true
    }

    /// Give a column the slot of an entry that finds room in its other bucket.
    #[cold]
    #[inline(never)]
    fn displace(&mut self, one: usize, other: usize, column: u32, value: T, limit: T) -> bool {
        for bucket in [one, other] {
            for lane in 0..EIGHT {
                let moved = self.0[bucket].keys[lane];
                let (a, b) = homes(moved, self.0.len());
                let to = if a == bucket { b } else { a };
                let free = T::within(Portable, &self.0[to].values, limit);
                if free == 0 {
                    continue;
                }
                let from = &mut self.0[bucket];
                let old = from.values[lane];
                (from.keys[lane], from.values[lane]) = (column, value);
                let (to, lane) = (&mut self.0[to], lowest(free) % EIGHT);
                (to.keys[lane], to.values[lane]) = (moved, old);
                return true;
            }
        }
        false
    }
}
