//! A hash table of columns: two neighbouring buckets of eight in which a column may be, no others.
//!
//! So a column is found, or known to be absent, by two comparisons of eight keys, without a loop
//! of unpredictable length. A key is its column's hash, and a bucket's number rises with it: a
//! vector with sorted keys reads every table from front to back, which suits the memory. An entry
//! that has shrunk to zero (|v| <= limit) needs no tombstone: its slot is free for another column,
//! and one comparison of a bucket's values shows its free slots.

use crate::constants::WIDE;
use crate::error::filled;
use crate::matrix::Stored;
use crate::simd::{Machine, Portable};

/// The slot of a column that is not there.
pub(super) const NONE: u32 = u32::MAX;
/// Odd, so that a key has one column, which is its product with the inverse.
const HASH: u32 = 0x9E37_79B1;
const INVERSE: u32 = inverse(HASH);
/// The key of a slot that was never used; no column is so large.
const EMPTY: u32 = key(u32::MAX);
/// Entries that may be moved by one bucket each to free a slot for one.
const REACH: usize = 16;

/// The inverse modulo 2**32, by Newton's iteration.
const fn inverse(odd: u32) -> u32 {
    let (mut result, mut bits) = (odd, 3);
    while bits < 32 {
        result = result.wrapping_mul(2_u32.wrapping_sub(odd.wrapping_mul(result)));
        bits *= 2;
    }
    result
}

/// The key of a column.
#[inline(always)]
pub(super) const fn key(column: u32) -> u32 {
    column.wrapping_mul(HASH)
}

/// The column of a key.
#[inline(always)]
const fn column(key: u32) -> u32 {
    key.wrapping_mul(INVERSE)
}

/// Eight columns and their values; in single precision, a cache line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket<T> {
    keys: [u32; WIDE],
    values: [T; WIDE],
}

/// The buckets of a row.
#[derive(Debug, Default)]
pub(super) struct Buckets<T>(Vec<Bucket<T>>);

/// The first of a key's two buckets.
#[inline(always)]
fn home(key: u32, buckets: usize) -> usize {
    // With less than two, there is none, and no table has one.
    let homes = buckets.wrapping_sub(1) as u64;
    ((u64::from(key) * homes) >> 32) as usize
}

/// The place of a bit in a mask; 32 if there is none.
#[inline(always)]
fn lowest(mask: u32) -> usize {
    mask.trailing_zeros() as usize
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "there are less than 2**31")]
fn slot_of(bucket: usize, lane: usize) -> u32 {
    (bucket * WIDE + lane) as u32
}

impl<T: Stored> Buckets<T> {
    /// Allocate buckets; the last one is no key's first bucket.
    pub(super) fn new(buckets: usize) -> Self {
        let empty = Bucket {
            keys: [EMPTY; WIDE],
            values: [T::default(); WIDE],
        };
        Self(filled(buckets.max(2), empty))
    }

    /// Number of buckets in which so many entries leave slots for more.
    pub(super) fn wanted(entries: usize) -> usize {
        (entries + entries / 4 * 3).div_ceil(WIDE) + 1
    }

    /// Number of buckets in which so many entries just fit.
    pub(super) fn least(entries: usize) -> usize {
        (entries + entries / 4).div_ceil(WIDE) + 1
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(buckets: usize) -> usize {
        buckets.saturating_mul(size_of::<Bucket<T>>())
    }

    pub(super) fn allocated(&self) -> usize {
        Self::bytes(self.0.capacity())
    }

    pub(super) fn entries(&self) -> impl Iterator<Item = (u32, T)> {
        let buckets = self.0.iter();
        buckets.flat_map(|bucket| bucket.keys.map(column).into_iter().zip(bucket.values))
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut [T; WIDE]> {
        self.0.iter_mut().map(|bucket| &mut bucket.values)
    }

    /// The number of entries that are not zero.
    pub(super) fn alive(&self, limit: T) -> usize {
        let dead = |bucket: &Bucket<T>| T::within(Portable, &bucket.values, limit).count_ones();
        let alive = self.0.iter().map(|bucket| WIDE - dead(bucket) as usize);
        alive.sum()
    }

    /// Find keys, each with its place in a vector: fill in slots and, zero where there is none,
    /// values.
    #[inline(always)]
    pub(super) fn gather<M: Machine>(
        &self,
        machine: M,
        keys: &[(u32, u32)],
        values: &mut [T],
        slots: &mut [u32],
    ) {
        for &(key, place) in keys {
            let (slot, value) = self.find(machine, key);
            slots[place as usize] = slot;
            values[place as usize] = value;
        }
    }

    #[inline(always)]
    fn find<M: Machine>(&self, machine: M, key: u32) -> (u32, T) {
        let first = home(key, self.0.len());
        let [low, high] = [&self.0[first], &self.0[first + 1]];
        let mask = machine.equal(&low.keys, key) | machine.equal(&high.keys, key) << WIDE;
        if mask == 0 {
            return (NONE, T::default());
        }
        let lane = lowest(mask);
        let bucket = if lane < WIDE { low } else { high };
        (slot_of(first, lane), bucket.values[lane % WIDE])
    }

    /// Set what `gather` found, from number `from` on; return the number of the first that has no
    /// slot, or how many there are.
    #[inline(always)]
    pub(super) fn scatter<M: Machine>(
        &mut self,
        machine: M,
        keys: &[(u32, u32)],
        values: &[T],
        slots: &[u32],
        from: usize,
        limit: T,
    ) -> usize {
        for (number, &(key, place)) in keys.iter().enumerate().skip(from) {
            let (value, slot) = (values[place as usize], slots[place as usize]);
            // An earlier key may have got the slot, or its entry may have moved.
            if slot != NONE
                && (self.set(slot, key, value) || self.set(self.find(machine, key).0, key, value))
            {
                continue;
            }
            if !value.is_within(limit) && !self.place(machine, key, value, limit) {
                return number;
            }
        }
        keys.len()
    }

    /// Set the value of a slot, if it is this key's.
    #[inline(always)]
    fn set(&mut self, slot: u32, key: u32, value: T) -> bool {
        let (bucket, lane) = (slot as usize / WIDE, slot as usize % WIDE);
        match self.0.get_mut(bucket) {
            Some(bucket) if bucket.keys[lane] == key => {
                bucket.values[lane] = value;
                true
            }
            _ => false,
        }
    }

    /// Insert a key that is absent; return whether there was a slot.
    #[inline(always)]
    pub(super) fn place<M: Machine>(&mut self, machine: M, key: u32, value: T, limit: T) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let first = home(key, self.0.len());
        let low = T::within(machine, &self.0[first].values, limit);
        let high = T::within(machine, &self.0[first + 1].values, limit);
        // The emptier one, which keeps both from overflowing for long.
        let second = high.count_ones() > low.count_ones();
        let (bucket, free) = if second {
            (first + 1, high)
        } else {
            (first, low)
        };
        if free == 0 {
            return self.insert_by_moving(first, key, value, limit);
        }
        self.put(bucket, lowest(free) % WIDE, (key, value));
        true
    }

    /// Insert the non-zero entries of another table; return whether they fit.
    #[inline(always)]
    pub(super) fn take_over<M: Machine>(&mut self, machine: M, other: &Self, limit: T) -> bool {
        for bucket in &other.0 {
            for (&key, &value) in bucket.keys.iter().zip(&bucket.values) {
                if !value.is_within(limit) && !self.place(machine, key, value, T::default()) {
                    return false;
                }
            }
        }
        true
    }

    #[inline(always)]
    fn put(&mut self, bucket: usize, lane: usize, entry: (u32, T)) {
        let bucket = &mut self.0[bucket];
        (bucket.keys[lane], bucket.values[lane]) = entry;
    }

    fn get(&self, bucket: usize, lane: usize) -> (u32, T) {
        (self.0[bucket].keys[lane], self.0[bucket].values[lane])
    }

    #[cold]
    #[inline(never)]
    fn insert_by_moving(&mut self, first: usize, key: u32, value: T, limit: T) -> bool {
        for bucket in [first, first + 1] {
            for up in [true, false] {
                if let Some(lane) = self.free_slot(bucket, up, limit) {
                    self.put(bucket, lane, (key, value));
                    return true;
                }
            }
        }
        false
    }

    /// Move entries up, or down, by one bucket each until one finds a free slot; return the slot
    /// that this leaves free in `bucket`.
    fn free_slot(&mut self, bucket: usize, up: bool, limit: T) -> Option<usize> {
        let neighbour = |at: usize| if up { Some(at + 1) } else { at.checked_sub(1) };
        let (mut at, mut path) = (bucket, [(0, 0); REACH]);
        for depth in 0..REACH {
            let to = neighbour(at).filter(|&to| to < self.0.len())?;
            // An entry's first bucket is the lower one.
            let low = at.min(to);
            let movable = |key: &u32| home(*key, self.0.len()) == low;
            let lane = self.0[at].keys.iter().position(movable)?;
            path[depth] = (at, lane);
            let free = T::within(Portable, &self.0[to].values, limit);
            if free != 0 {
                let mut hole = (to, lowest(free) % WIDE);
                for &(at, lane) in path[..=depth].iter().rev() {
                    let moved = self.get(at, lane);
                    self.put(hole.0, hole.1, moved);
                    hole = (at, lane);
                }
                return Some(hole.1);
            }
            at = to;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_column() {
        for number in [0, 1, 2, 9_999, 2_147_483_646, u32::MAX] {
            assert_eq!(column(key(number)), number);
        }
    }

    #[test]
    fn a_table_fills_most_of_its_slots_and_loses_nothing() {
        let mut table = Buckets::<f32>::new(Buckets::<f32>::wanted(1000));
        let mut count = 0;
        while table.place(Portable, key(count * 7), 1.0, 0.0) {
            count += 1;
        }
        let slots = table.len() * WIDE;
        assert!(count as usize > slots * 8 / 10, "{count} of {slots}");
        let mut columns: Vec<_> = table.entries().filter(|entry| entry.1 == 1.0).collect();
        columns.sort_by_key(|entry| entry.0);
        let wanted: Vec<_> = (0..count).map(|number| (number * 7, 1.0)).collect();
        assert_eq!(columns, wanted);
        for number in 0..count {
            assert_ne!(table.find(Portable, key(number * 7)).0, NONE);
        }
    }
}
