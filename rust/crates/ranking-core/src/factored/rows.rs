//! Updates and projections of the rows of U, V and S, each by one thread.

use std::ops::Range;

use crate::constants::WIDE;
use crate::dispatch::Job;
use crate::factored::occurrences::OccurrenceIndex;
use crate::factored::parameters::{FactoredState, prefetch_row, with_known_width};
use crate::factored::sums::{GROUP, Gradients, Terms, Total, squared, times};
use crate::factored::tables::Table;
use crate::factored::train::RowPenalty;
use crate::simd::{Eight, Machine, Wide, dot_wide};

/// A row is prefetched this many updates ahead.
const AHEAD: usize = 4;

/// Consecutive rows, with their squares and biases.
pub(super) struct Piece<'a> {
    pub(super) rows: &'a mut [Eight],
    /// Adagrad's sums of squares; empty without it.
    pub(super) squares: &'a mut [Eight],
    /// Empty if there are none.
    pub(super) biases: &'a mut [f32],
    pub(super) bias_squares: &'a mut [f32],
    /// The number of the first row.
    pub(super) first: usize,
    /// Registers of a row.
    pub(super) chunks: usize,
}

fn cut<T>(slice: &mut [T], at: usize) -> (&mut [T], &mut [T]) {
    slice.split_at_mut(at.min(slice.len()))
}

impl<'a> Piece<'a> {
    /// All rows of a matrix, without biases.
    fn new(rows: &'a mut [Eight], squares: &'a mut [Eight], chunks: usize) -> Self {
        Self {
            rows,
            squares,
            biases: &mut [],
            bias_squares: &mut [],
            first: 0,
            chunks,
        }
    }

    /// All rows of U, V and S.
    pub(super) fn all(state: &'a mut FactoredState<'_>) -> [Self; 3] {
        let FactoredState { factors, squares } = state;
        let chunks = factors.chunks;
        let v = Self::new(factors.documents, squares.documents, chunks);
        [
            Self::new(factors.queries, squares.queries, chunks),
            Self {
                biases: factors.biases,
                bias_squares: squares.biases,
                ..v
            },
            Self::new(factors.contexts, squares.contexts, chunks),
        ]
    }

    /// Cut it before a row.
    fn cut(self, row: usize) -> (Self, Self) {
        let (first, chunks) = (self.first, self.chunks);
        let at = row.saturating_sub(first).min(self.rows.len() / chunks);
        let rows = cut(self.rows, at * chunks);
        let squares = cut(self.squares, at * chunks);
        let biases = cut(self.biases, at);
        let bias_squares = cut(self.bias_squares, at);
        let earlier = Self {
            rows: rows.0,
            squares: squares.0,
            biases: biases.0,
            bias_squares: bias_squares.0,
            first,
            chunks,
        };
        let later = Self {
            rows: rows.1,
            squares: squares.1,
            biases: biases.1,
            bias_squares: bias_squares.1,
            first: first + at,
            chunks,
        };
        (earlier, later)
    }

    /// Cut it before each of some rows.
    pub(super) fn cut_all(self, cuts: &[usize]) -> Vec<Self> {
        let mut parts = Vec::with_capacity(cuts.len() + 1);
        let mut rest = self;
        for &row in cuts {
            let (part, later) = rest.cut(row);
            parts.push(part);
            rest = later;
        }
        parts.push(rest);
        parts
    }

    /// The numbers of the rows.
    #[inline(always)]
    fn range(&self) -> Range<usize> {
        self.first..self.first + self.rows.len() / self.chunks
    }

    /// Prefetch a row that will be updated.
    #[inline(always)]
    fn prefetch<M: Machine>(&self, machine: M, row: u32) {
        let at = row as usize - self.first;
        prefetch_row(machine, self.rows, at, self.chunks);
        if !self.squares.is_empty() {
            prefetch_row(machine, self.squares, at, self.chunks);
        }
    }

    /// Update a row, and project it.
    #[inline(always)]
    fn update<M: Machine>(
        &mut self,
        machine: M,
        at: usize,
        sums: &impl RowSums,
        update: &RowUpdate,
    ) {
        let places = at * self.chunks..(at + 1) * self.chunks;
        let row = &mut self.rows[places.clone()];
        let squares = if self.squares.is_empty() {
            None
        } else {
            Some(Adagrad {
                squares: &mut self.squares[places],
                learning_rate: update.learning_rate,
                mean: update
                    .rowwise
                    .then(|| mean_square(machine, sums, self.chunks)),
            })
        };
        by_groups(machine, sums, row, squares);
        update.project(machine, row);
        let Some(bias) = self.biases.get_mut(at) else {
            return;
        };
        let total = sums.bias();
        if let Some(square) = self.bias_squares.get_mut(at) {
            *square += total.squares;
            *bias -= (update.learning_rate * total.gradient) / square.sqrt();
        } else {
            *bias -= total.gradient;
        }
    }
}

/// Adagrad's state of a row.
struct Adagrad<'a> {
    squares: &'a mut [Eight],
    learning_rate: f32,
    /// The mean of the squares that are added, if the row has one learning rate.
    mean: Option<f32>,
}

/// The mean of the sums of squares of a row.
#[inline(always)]
#[expect(clippy::cast_precision_loss, reason = "rows are short")]
fn mean_square<M: Machine>(machine: M, sums: &impl RowSums, chunks: usize) -> f32 {
    let mut total = Wide::splat(machine, 0.0);
    for first in 0..chunks {
        let [squares] = sums.total::<M, 1>(machine, first).squares;
        total += squares;
    }
    total.fold() / (chunks * WIDE) as f32
}

/// Subtract sums from a row, by as many registers at a time as the processor has. With Adagrad's
/// squares, each parameter has a learning rate that depends on those of its gradients; without,
/// the gradients include the learning rate.
#[inline(always)]
fn by_groups<M: Machine>(
    machine: M,
    sums: &impl RowSums,
    row: &mut [Eight],
    mut adagrad: Option<Adagrad<'_>>,
) {
    let (groups, rest) = row.as_chunks_mut::<GROUP>();
    let mut first = 0;
    for group in groups {
        let total = sums.total::<M, GROUP>(machine, first);
        subtract(machine, &total, group, first, &mut adagrad);
        first += GROUP;
    }
    for one in rest.as_chunks_mut::<1>().0 {
        let total = sums.total::<M, 1>(machine, first);
        subtract(machine, &total, one, first, &mut adagrad);
        first += 1;
    }
}

/// Subtract gradients from N registers, from the one at `first`.
#[inline(always)]
fn subtract<M: Machine, const N: usize>(
    machine: M,
    total: &Total<[Wide<M>; N]>,
    row: &mut [Eight; N],
    first: usize,
    adagrad: &mut Option<Adagrad<'_>>,
) {
    let Some(adagrad) = adagrad else {
        for (p, y) in row.iter_mut().zip(total.gradient) {
            *p = (Wide::new(machine, *p) - y).array();
        }
        return;
    };
    let learning_rate = Wide::splat(machine, adagrad.learning_rate);
    let mean = adagrad.mean.map(|mean| Wide::splat(machine, mean));
    let squares = &mut adagrad.squares[first..][..N];
    let totals = total.gradient.into_iter().zip(total.squares);
    for ((p, square), (y, q)) in row.iter_mut().zip(squares).zip(totals) {
        let sum = Wide::new(machine, *square) + mean.unwrap_or(q);
        *square = sum.array();
        *p = (Wide::new(machine, *p) - (learning_rate * y) / sum.sqrt()).array();
    }
}

/// What is done to every row that has gradients: Adagrad's learning rate and the projection.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowUpdate {
    /// The learning rate of the batch.
    learning_rate: f32,
    /// The largest norm, if there is one.
    max_norm: Option<f32>,
    /// Whether Adagrad has one learning rate per row.
    rowwise: bool,
}

impl RowUpdate {
    pub(super) fn new(learning_rate: f32, penalty: RowPenalty) -> Self {
        let RowPenalty { max_norm, rowwise } = penalty;
        Self {
            learning_rate,
            max_norm: (max_norm > 0.0).then_some(max_norm),
            rowwise,
        }
    }

    #[inline(always)]
    fn project<M: Machine>(&self, machine: M, row: &mut [Eight]) {
        if let Some(max_norm) = self.max_norm {
            let square = dot_wide(machine, row, row);
            if square > max_norm * max_norm {
                scale(machine, row, max_norm / square.sqrt());
            }
        }
    }
}

#[inline(always)]
fn scale<M: Machine>(machine: M, row: &mut [Eight], factor: f32) {
    let factor = Wide::splat(machine, factor);
    for x in row {
        *x = (Wide::new(machine, *x) * factor).array();
    }
}

/// The sums of one row.
trait RowSums {
    /// N registers, from the one at `first`.
    fn total<M: Machine, const N: usize>(&self, machine: M, first: usize) -> Total<[Wide<M>; N]>;
    /// Those of its bias.
    fn bias(&self) -> Total<f32>;
}

/// A query or document that has a row of its own.
struct Own<'a, T> {
    gradients: &'a Gradients<'a, T>,
    slot: usize,
}

impl<T: Terms> RowSums for Own<'_, T> {
    #[inline(always)]
    fn total<M: Machine, const N: usize>(&self, machine: M, first: usize) -> Total<[Wide<M>; N]> {
        self.gradients.total(machine, self.slot, first)
    }

    #[inline(always)]
    fn bias(&self) -> Total<f32> {
        self.gradients.bias(self.slot)
    }
}

/// A query or document that has a row of its own and occurs once.
struct Once<'a> {
    factor: f32,
    embedding: &'a [Eight],
    slope: f32,
}

impl RowSums for Once<'_> {
    #[inline(always)]
    fn total<M: Machine, const N: usize>(&self, machine: M, first: usize) -> Total<[Wide<M>; N]> {
        let gradient = times(machine, self.factor, self.embedding, first);
        Total {
            gradient,
            squares: squared(gradient),
        }
    }

    #[inline(always)]
    fn bias(&self) -> Total<f32> {
        Total {
            gradient: self.slope,
            squares: self.slope * self.slope,
        }
    }
}

/// Update the rows of queries, or documents, that have one of their own.
pub(super) struct UpdateOwn<'a, T> {
    pub(super) index: &'a mut OccurrenceIndex,
    pub(super) terms: T,
    pub(super) piece: Piece<'a>,
    pub(super) update: RowUpdate,
}

impl<T: Terms> Job for UpdateOwn<'_, T> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        with_known_width!(self.piece.chunks, |chunks| self.of_width(machine, chunks));
    }
}

impl<T: Terms> UpdateOwn<'_, T> {
    #[inline(always)]
    fn of_width<M: Machine>(mut self, machine: M, chunks: usize) {
        self.piece.chunks = chunks;
        let (piece, terms) = (&mut self.piece, self.terms);
        self.index.build(&terms, piece.range());
        let index = &*self.index;
        let gradients = &Gradients { index, terms };
        let entities = index.entities();
        let next = entities.iter().skip(AHEAD).map(Some);
        let next = next.chain(std::iter::repeat(None));
        for ((slot, &entity), next) in entities.iter().enumerate().zip(next) {
            if let Some(&next) = next {
                piece.prefetch(machine, next);
            }
            let row = entity as usize - piece.first;
            let (at, later) = index.occurrences(slot);
            match terms.scaled(at, chunks) {
                Some((factor, embedding)) if later.is_empty() => {
                    let slope = terms.slope(at);
                    let sums = Once {
                        factor,
                        embedding,
                        slope,
                    };
                    piece.update(machine, row, &sums, &self.update);
                }
                _ => {
                    let sums = Own { gradients, slot };
                    piece.update(machine, row, &sums, &self.update);
                }
            }
        }
    }
}

/// Sums by slot, those of a first kind and then those of a second.
#[derive(Clone, Copy)]
pub(super) struct Addends<'a> {
    /// For each slot the sum of gradients, and behind it that of squares.
    pub(super) sums: [&'a [Eight]; 2],
    /// Slots of the first kind.
    pub(super) count: usize,
    pub(super) biases: &'a [[f32; 2]],
    /// Registers of a sum.
    pub(super) width: usize,
    /// Where in a sum the half begins that counts.
    pub(super) start: usize,
}

impl Addends<'_> {
    /// N registers of the sums in a slot, times the value of a feature.
    #[inline(always)]
    fn get<M: Machine, const N: usize>(
        &self,
        machine: M,
        slot: u32,
        value: f32,
        first: usize,
    ) -> Total<[Wide<M>; N]> {
        let slot = slot as usize;
        let (sums, slot) = if slot < self.count {
            (self.sums[0], slot)
        } else {
            (self.sums[1], slot - self.count)
        };
        let sums = &sums[slot * 2 * self.width + self.start..];
        Total {
            gradient: times(machine, value, sums, first),
            squares: times(machine, value * value, sums, self.width + first),
        }
    }
}

/// A row that several queries or documents share.
struct Shared<'a> {
    addends: &'a Addends<'a>,
    entries: &'a [(u32, f32)],
}

impl RowSums for Shared<'_> {
    #[inline(always)]
    fn total<M: Machine, const N: usize>(&self, machine: M, first: usize) -> Total<[Wide<M>; N]> {
        let (slot, value) = self.entries[0];
        let mut total = self.addends.get::<M, N>(machine, slot, value, first);
        for &(slot, value) in &self.entries[1..] {
            let next = self.addends.get::<M, N>(machine, slot, value, first);
            total.add(next.gradient, next.squares);
        }
        total
    }

    #[inline(always)]
    fn bias(&self) -> Total<f32> {
        let get = |&(slot, value): &(u32, f32)| {
            let [gradient, squares] = self.addends.biases[slot as usize];
            [value * gradient, (value * value) * squares]
        };
        let [gradient, squares] = get(&self.entries[0]);
        let mut total = Total { gradient, squares };
        for entry in &self.entries[1..] {
            let [gradient, squares] = get(entry);
            total.gradient += gradient;
            total.squares += squares;
        }
        total
    }
}

/// Update rows that queries, or documents, share.
pub(super) struct UpdateShared<'a> {
    pub(super) addends: Addends<'a>,
    pub(super) table: &'a Table,
    pub(super) piece: Piece<'a>,
    pub(super) update: RowUpdate,
}

impl Job for UpdateShared<'_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) {
        let range = self.piece.range();
        for (place, &row) in self.table.rows.iter().enumerate() {
            if range.contains(&(row as usize)) {
                let sums = Shared {
                    addends: &self.addends,
                    entries: self.table.entries(place),
                };
                let at = row as usize - range.start;
                self.piece.update(machine, at, &sums, &self.update);
            }
        }
    }
}
