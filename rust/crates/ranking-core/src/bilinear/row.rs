//! A row of W: nothing, a hash table, or an array once that takes no more memory.

use crate::bilinear::buckets::{Buckets, NONE, key};
use crate::bilinear::features::SparseVector;
use crate::bilinear::shrinkage::{Origin, Pending};
use crate::constants::LANES;
use crate::dispatch::{Job, dispatch};
use crate::error::{filled, reserve};
use crate::matrix::Stored;
use crate::simd::{Lanes, Machine, Portable};

/// The entries of a row and when they were rebased.
#[derive(Debug)]
pub(super) struct Row<T> {
    entries: Entries<T>,
    pub(super) origin: Origin,
}

#[derive(Debug)]
enum Entries<T> {
    Hashed(Buckets<T>),
    Dense(Vec<T>),
}

/// The entries of a row at the columns of a vector: values and slots.
#[derive(Debug)]
pub(super) struct RowEntries<'a, T> {
    pub(super) values: &'a mut [T],
    pub(super) slots: &'a mut [u32],
}

impl<T: Stored> Row<T> {
    /// Store entries; zeros are left out.
    pub(super) fn new(
        entries: impl Iterator<Item = (u32, T)> + Clone,
        n_columns: usize,
        origin: Origin,
    ) -> Self {
        let mut row = Self {
            entries: Entries::Hashed(Buckets::default()),
            origin,
        };
        let zero = T::default();
        let count = entries.clone().count();
        row.grow(count, zero, n_columns);
        for (column, value) in entries.filter(|entry| entry.1 != zero) {
            row.insert(column, value, n_columns);
        }
        row
    }

    /// Set an entry that is not stored yet.
    fn insert(&mut self, column: u32, value: T, n_columns: usize) {
        loop {
            match &mut self.entries {
                Entries::Dense(row) => row[column as usize] = value,
                Entries::Hashed(buckets) => {
                    if !buckets.place(Portable, key(column), value, T::default()) {
                        self.grow(1, T::default(), n_columns);
                        continue;
                    }
                }
            }
            return;
        }
    }

    /// The sum in lanes of the row's weights times a vector; the entries are filled.
    pub(super) fn read(
        &self,
        pending: Pending,
        right: &SparseVector,
        entries: RowEntries<'_, T>,
    ) -> f64 {
        dispatch(Read {
            row: self,
            pending,
            right,
            entries,
        })
    }

    /// Subtract `factor` times a vector; return the change of the sum of squares.
    pub(super) fn write(&mut self, change: Change<'_, T>) -> f64 {
        dispatch(Write { row: self, change })
    }

    /// Store the weights themselves; return whether any stored number has changed.
    pub(super) fn rebase(&mut self, pending: Pending) -> bool {
        if pending.is_none() {
            return false;
        }
        let alive = dispatch(Rebase { row: self, pending });
        self.shrink(alive, T::default());
        true
    }

    /// Multiply the stored numbers.
    pub(super) fn scale(&mut self, factor: f64) {
        let scale = |v: &mut T| *v = T::narrow(v.widen() * factor);
        match &mut self.entries {
            Entries::Dense(values) => values.iter_mut().for_each(scale),
            Entries::Hashed(buckets) => buckets.values_mut().flatten().for_each(scale),
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries = Entries::Hashed(Buckets::default());
    }

    /// The entries that are stored, zeros included, in any order.
    fn stored(&self) -> impl Iterator<Item = (u32, T)> {
        let (hashed, dense) = match &self.entries {
            Entries::Hashed(buckets) => (Some(buckets), None),
            Entries::Dense(values) => (None, Some(values)),
        };
        let hashed = hashed.into_iter().flat_map(Buckets::entries);
        let dense = dense.into_iter().flatten().copied();
        hashed.chain((0..).zip(dense))
    }

    /// The number of weights that are not zero.
    pub(super) fn count(&self, pending: Pending) -> usize {
        let weights = self.stored().map(|(_, v)| pending.weight(v.widen()));
        weights.filter(|&w| w != 0.0).count()
    }

    /// Fill `out` with the entries for which a condition holds, by column.
    pub(super) fn sorted(&self, out: &mut Vec<(u32, T)>, holds: impl Fn(f64) -> bool) {
        let found = || self.stored().filter(|entry| holds(entry.1.widen()));
        out.clear();
        reserve(out, found().count());
        out.extend(found());
        if matches!(self.entries, Entries::Hashed(_)) {
            out.sort_unstable_by_key(|entry| entry.0);
        }
    }

    /// The bytes that its entries take.
    pub(super) fn allocated(&self) -> usize {
        match &self.entries {
            Entries::Hashed(buckets) => buckets.allocated(),
            Entries::Dense(values) => values.capacity() * size_of::<T>(),
        }
    }

    #[inline(always)]
    fn gather<M: Machine>(
        &self,
        machine: M,
        right: &SparseVector,
        entries: &mut RowEntries<'_, T>,
    ) {
        match &self.entries {
            Entries::Hashed(buckets) if buckets.len() == 0 => {
                entries.values.fill(T::default());
                entries.slots.fill(NONE);
                return;
            }
            Entries::Hashed(buckets) => {
                buckets.gather(machine, right.keys(), entries.values, entries.slots);
            }
            Entries::Dense(row) => {
                for (value, &column) in entries.values.iter_mut().zip(right.columns()) {
                    *value = row[column as usize];
                }
            }
        }
        entries.values[right.columns().len()..].fill(T::default());
    }

    #[inline(always)]
    fn scatter<M: Machine>(
        &mut self,
        machine: M,
        right: &SparseVector,
        values: &[T],
        slots: &[u32],
        limit: T,
        n_columns: usize,
    ) {
        let mut from = 0;
        loop {
            match &mut self.entries {
                // If it was just built, some have been set already.
                Entries::Dense(row) => {
                    for (&column, &value) in right.columns().iter().zip(values) {
                        row[column as usize] = value;
                    }
                    return;
                }
                Entries::Hashed(buckets) => {
                    from = buckets.scatter(machine, right.keys(), values, slots, from, limit);
                }
            }
            if from == right.columns().len() {
                return;
            }
            self.grow(right.columns().len() - from, limit, n_columns);
        }
    }

    /// Grow the table, for `more` entries if it has fewer; zeros are dropped.
    #[cold]
    #[inline(never)]
    fn grow(&mut self, more: usize, limit: T, n_columns: usize) {
        let Entries::Hashed(buckets) = &self.entries else {
            return;
        };
        if more == 0 {
            return;
        }
        let alive = buckets.alive(limit);
        let least = buckets.len() + buckets.len() / 8 + 1;
        // Many rows of text are changed once, so a new one has no spare slots.
        let wanted = if alive == 0 {
            Buckets::<T>::least(more)
        } else {
            Buckets::<T>::wanted(alive.max(more))
        };
        let buckets = wanted.max(least);
        self.entries = self.rebuilt(buckets, limit, n_columns);
    }

    /// Copy the entries that are not zero to a table of at least so many buckets, or an array.
    fn rebuilt(&self, mut buckets: usize, limit: T, n_columns: usize) -> Entries<T> {
        while Buckets::<T>::bytes(buckets) < n_columns.saturating_mul(size_of::<T>()) {
            let mut table = Buckets::new(buckets);
            let (from, to) = (&self.entries, &mut table);
            if dispatch(Copy { from, to, limit }) {
                return Entries::Hashed(table);
            }
            buckets += buckets / 8 + 1;
        }
        let mut row = filled(n_columns, T::default());
        for (column, value) in self.stored().filter(|entry| !entry.1.is_within(limit)) {
            row[column as usize] = value;
        }
        Entries::Dense(row)
    }

    /// Release the memory of entries that have shrunk to zero, if that is much.
    pub(super) fn purge(&mut self, pending: Pending) {
        if pending.k == 0.0 {
            self.clear();
            return;
        }
        let limit = T::at_most(pending.s);
        let alive = match &self.entries {
            Entries::Hashed(buckets) => buckets.alive(limit),
            Entries::Dense(row) => row.iter().filter(|v| !v.is_within(limit)).count(),
        };
        self.shrink(alive, limit);
    }

    /// Shrink the table if few entries are alive.
    fn shrink(&mut self, alive: usize, limit: T) {
        let wanted = Buckets::<T>::wanted(alive);
        let (too_large, n_columns) = match &self.entries {
            Entries::Hashed(buckets) => (buckets.len() > wanted + wanted / 4, usize::MAX),
            Entries::Dense(row) => (
                Buckets::<T>::bytes(wanted) < size_of_val(&row[..]) / 2,
                row.len(),
            ),
        };
        if alive == 0 {
            self.clear();
        } else if too_large {
            self.entries = self.rebuilt(wanted, limit, n_columns);
        }
    }
}

struct Copy<'a, T> {
    from: &'a Entries<T>,
    to: &'a mut Buckets<T>,
    limit: T,
}

impl<T: Stored> Job for Copy<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> bool {
        match self.from {
            Entries::Hashed(buckets) => self.to.take_over(machine, buckets, self.limit),
            Entries::Dense(row) => (0..).zip(row).all(|(column, &value)| {
                value.is_within(self.limit)
                    || self.to.place(machine, key(column), value, T::default())
            }),
        }
    }
}

struct Read<'a, T> {
    row: &'a Row<T>,
    pending: Pending,
    right: &'a SparseVector,
    entries: RowEntries<'a, T>,
}

impl<T: Stored> Job for Read<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> f64 {
        self.row.gather(machine, self.right, &mut self.entries);
        let mut sum = Lanes::splat(machine, 0.0);
        for (v, b) in lanes(self.entries.values).zip(lanes(self.right.values())) {
            sum += self.pending.weights(Lanes::widen(machine, *v)) * Lanes::new(machine, *b);
        }
        sum.fold()
    }
}

/// Whole lanes of a padded slice.
#[inline(always)]
fn lanes<T>(padded: &[T]) -> std::slice::Iter<'_, [T; LANES]> {
    padded.as_chunks().0.iter()
}

/// A change of a row.
#[derive(Debug)]
pub(super) struct Change<'a, T> {
    pub(super) pending: Pending,
    pub(super) right: &'a SparseVector,
    pub(super) factor: f64,
    /// Whether entries that are zero may change.
    pub(super) grow: bool,
    /// Whether the change of the sum of squares is needed.
    pub(super) squares: bool,
    /// Whether `entries` holds what `Row::read` filled, and the row has not changed since.
    pub(super) known: bool,
    pub(super) entries: RowEntries<'a, T>,
    /// Buffer for the new stored numbers.
    pub(super) stored: &'a mut [T],
    pub(super) n_columns: usize,
}

impl<T: Stored> Change<'_, T> {
    /// The change of the sum of squares.
    fn squares(&self) -> f64 {
        let mut change = 0.0;
        for ((_, b), v) in self.right.entries().zip(self.entries.values.iter()) {
            let w = self.pending.weight(v.widen());
            if self.grow || v.widen().abs() > self.pending.s {
                let new = w - self.factor * b;
                change += new * new - w * w;
            }
        }
        change
    }

    #[inline(always)]
    fn compute<M: Machine>(&mut self, machine: M) {
        let (pending, factor) = (self.pending, Lanes::splat(machine, self.factor));
        let stored = self.stored.as_chunks_mut().0.iter_mut();
        let known = lanes(self.entries.values).zip(lanes(self.right.values()));
        for (out, (v, b)) in stored.zip(known) {
            let v = Lanes::widen(machine, *v);
            let new = pending.weights(v) - factor * Lanes::new(machine, *b);
            let mut entries = pending.entries(new);
            if !self.grow {
                entries = pending.if_nonzero(v, entries, v);
            }
            *out = entries.array().map(T::narrow);
        }
    }
}

struct Write<'a, T> {
    row: &'a mut Row<T>,
    change: Change<'a, T>,
}

impl<T: Stored> Job for Write<'_, T> {
    type Output = f64;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Self::Output {
        let Self { row, mut change } = self;
        if !change.known {
            row.gather(machine, change.right, &mut change.entries);
        }
        let squares = if change.squares {
            change.squares()
        } else {
            0.0
        };
        change.compute(machine);
        row.scatter(
            machine,
            change.right,
            change.stored,
            change.entries.slots,
            T::at_most(change.pending.s),
            change.n_columns,
        );
        squares
    }
}

struct Rebase<'a, T> {
    row: &'a mut Row<T>,
    pending: Pending,
}

impl<T: Stored> Rebase<'_, T> {
    #[inline(always)]
    fn some<M: Machine>(&self, machine: M, values: &mut [[T; LANES]]) -> usize {
        let mut alive = 0;
        for values in values {
            let weights = self.pending.weights(Lanes::widen(machine, *values));
            *values = weights.array().map(T::narrow);
            alive += values.iter().filter(|&&v| v != T::default()).count();
        }
        alive
    }
}

impl<T: Stored> Job for Rebase<'_, T> {
    type Output = usize;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> usize {
        let empty = Entries::Hashed(Buckets::default());
        let mut entries = std::mem::replace(&mut self.row.entries, empty);
        let mut alive = 0;
        match &mut entries {
            Entries::Dense(row) => {
                let (values, rest) = row.as_chunks_mut();
                alive += self.some(machine, values);
                for v in rest {
                    *v = T::narrow(self.pending.weight(v.widen()));
                    alive += usize::from(*v != T::default());
                }
            }
            Entries::Hashed(buckets) => {
                for values in buckets.values_mut() {
                    alive += self.some(machine, values.as_chunks_mut().0);
                }
            }
        }
        self.row.entries = entries;
        alive
    }
}
