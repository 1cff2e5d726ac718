//! The half-step with sparse vectors.

use std::ops::Range;

use crate::alternating::chunks::chunks;
use crate::alternating::rule::{Gain, Rule};
use crate::alternating::{AHEAD, LINE};
use crate::bilinear::{Failure, Stored, filled};
use crate::contract::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::features::Compressed;
use crate::invalid::{Invalid, check_length, check_pointer};
use crate::lanes::{Feature, Index, Machine};
use crate::threads::Crew;
use crate::wide::{Eight, Wide};

/// Vectors by what is not zero in them.
#[derive(Clone, Copy, Debug)]
pub struct Sparse<'a> {
    pointers: &'a [i64],
    dimensions: &'a [i32],
    values: &'a [f32],
    width: usize,
}

impl<'a> Sparse<'a> {
    /// Check vectors of `width` numbers.
    ///
    /// # Errors
    /// When the pointers do not rise to the number of values, or a dimension lies outside.
    pub fn new(
        pointers: &'a [i64],
        dimensions: &'a [i32],
        values: &'a [f32],
        width: usize,
    ) -> Result<Self, Invalid> {
        check_length("dimensions", dimensions.len(), values.len())?;
        let positions = pointers.iter().map(|i| i.position());
        check_pointer(
            "pointers",
            positions,
            pointers.len().max(1) - 1,
            values.len(),
        )?;
        let last = dimensions.iter().map(|i| i.position()).max();
        if last.is_some_and(|last| last >= width) || i32::try_from(width).is_err() {
            return Err(Invalid::new(format!(
                "dimensions must lie below {width}, and not be negative."
            )));
        }
        Ok(Self {
            pointers,
            dimensions,
            values,
            width,
        })
    }

    fn len(&self) -> usize {
        self.pointers.len() - 1
    }

    #[inline(always)]
    fn ask<M: Machine>(&self, machine: M, entry: usize) {
        machine.ask(self.dimensions, entry);
        machine.ask(self.values, entry);
    }

    #[inline(always)]
    fn entries(&self, vector: usize) -> Range<usize> {
        self.pointers[vector].position()..self.pointers[vector + 1].position()
    }
}

/// What a chunk of rows has made.
#[derive(Default)]
struct Chunk {
    dimensions: Vec<i32>,
    values: Vec<f32>,
}

impl Chunk {
    /// Append what is not zero of the numbers from `first` on; zeros have no bit in `bits`.
    #[inline(always)]
    fn append(&mut self, numbers: Eight, first: i32, mut bits: u32) {
        while bits != 0 {
            let lane = bits.trailing_zeros();
            self.dimensions.push(first + lane.cast_signed());
            self.values.push(numbers[lane as usize]);
            bits &= bits - 1;
        }
    }

    fn reserve(&mut self, more: usize) -> Result<(), Failure> {
        self.dimensions.try_reserve(more)?;
        self.values.try_reserve(more)?;
        Ok(())
    }
}

/// The rows of a half-step, by chunks.
pub struct Made(Vec<Chunk>);

impl Made {
    /// How many numbers are not zero.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|chunk| chunk.values.len()).sum()
    }

    /// Copy all to where they are wanted.
    ///
    /// # Errors
    /// When there is not room for `count`, or too much.
    pub fn join(
        self,
        mut dimensions: &mut [i32],
        mut values: &mut [f32],
        crew: &Crew,
    ) -> Result<(), Invalid> {
        check_length("dimensions", dimensions.len(), self.count())?;
        check_length("values", values.len(), self.count())?;
        let mut copies: Vec<_> = self
            .0
            .into_iter()
            .map(|chunk| {
                let length = chunk.values.len();
                (
                    chunk,
                    dimensions.split_off_mut(..length).unwrap_or_default(),
                    values.split_off_mut(..length).unwrap_or_default(),
                )
            })
            .collect();
        crew.enter(|| {
            crew.for_each(&mut copies, |(chunk, dimensions, values)| {
                // Given back as soon as it is copied, so that no two copies of all are held.
                let chunk = std::mem::take(chunk);
                dimensions.copy_from_slice(&chunk.dimensions);
                values.copy_from_slice(&chunk.values);
            });
        });
        Ok(())
    }
}

/// Rows that are made together.
struct Share<'a> {
    rows: Range<usize>,
    counts: &'a mut [i64],
    gains: &'a mut [f64],
    made: Chunk,
    result: Result<(), Failure>,
}

struct HalfStep<'a, 's, I, F> {
    matrix: Compressed<'a, I, F>,
    vectors: Sparse<'a>,
    rule: Rule,
    share: &'s mut Share<'a>,
    /// Room for a row; zero before and after.
    omega: &'s mut [Eight],
    soft: &'s mut [Eight],
}

impl<I: Index, F: Feature> HalfStep<'_, '_, I, F> {
    /// Add the product of a row to `omega`, which is zero.
    #[inline(always)]
    fn scatter<M: Machine>(&mut self, machine: M, row: usize) {
        let (indices, data) = self.matrix.line(row);
        let omega = self.omega.as_flattened_mut();
        let entries = self.matrix.start(row)..;
        for ((index, value), entry) in indices.iter().zip(data).zip(entries) {
            ask(machine, &self.matrix, &self.vectors, entry);
            let (value, part) = (
                f32::narrow(value.widen()),
                self.vectors.entries(index.position()),
            );
            let dimensions = &self.vectors.dimensions[part.clone()];
            for (dimension, x) in dimensions.iter().zip(&self.vectors.values[part]) {
                omega[dimension.position()] += value * x;
            }
        }
    }

    /// Threshold and scale what has been added up, and keep what is not zero; return the gain.
    #[inline(always)]
    fn finish<M: Machine>(&mut self, machine: M) -> f64 {
        let scale = Wide::splat(machine, self.rule.shrink(machine, self.omega, self.soft));
        let mut sums = Gain::new(machine);
        let lines = self.soft.iter().zip(&mut *self.omega);
        for (first, (soft, omega)) in (0..).step_by(WIDE).zip(lines) {
            let made = Wide::new(machine, *soft) * scale;
            sums.add(made, Wide::new(machine, *omega));
            *omega = [0.0; WIDE];
            let made = made.array();
            let bits = !machine.within_singles(&made, 0.0) & 0xFF;
            self.share.made.append(made, first, bits);
        }
        sums.total(self.rule)
    }
}

/// Ask for the vector of an entry to come. Pointers are asked for first, as what they point to
/// cannot be asked for without them. Both ends of a vector are asked for without a look at its
/// length: a short one should cost no branch.
#[inline(always)]
fn ask<M: Machine, I: Index, F: Feature>(
    machine: M,
    matrix: &Compressed<'_, I, F>,
    vectors: &Sparse<'_>,
    entry: usize,
) {
    machine.ask(vectors.pointers, matrix.index_at_most(entry + 2 * AHEAD));
    let Range { start, end } = vectors.entries(matrix.index_at_most(entry + AHEAD));
    vectors.ask(machine, start);
    vectors.ask(machine, end);
    let mut line = start + LINE;
    while line < end {
        vectors.ask(machine, line);
        line += LINE;
    }
}

impl<I: Index, F: Feature> Job for HalfStep<'_, '_, I, F> {
    type Output = Result<(), Failure>;
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Self::Output {
        let first = self.share.rows.start;
        for row in self.share.rows.clone() {
            let before = self.share.made.values.len();
            self.share.made.reserve(self.omega.len() * WIDE)?;
            self.scatter(machine, row);
            self.share.gains[row - first] = self.finish(machine);
            let count = self.share.made.values.len() - before;
            self.share.counts[row - first] = count.try_into().expect("a row is narrow");
        }
        Ok(())
    }
}

/// Take the half-step over M from sparse vectors; fill `indptr` with where each row starts in what
/// is made.
///
/// # Errors
/// When sizes do not fit, or there is no memory for the rows.
pub fn half_step_sparse<I: Index, F: Feature>(
    matrix: Compressed<'_, I, F>,
    vectors: Sparse<'_>,
    rule: Rule,
    indptr: &mut [i64],
    gains: &mut [f64],
    crew: &Crew,
) -> Result<Made, Failure> {
    check_length("vectors", vectors.len(), matrix.length())?;
    check_length("indptr", indptr.len(), matrix.lines() + 1)?;
    check_length("gains", gains.len(), matrix.lines())?;
    let eights = vectors.width.div_ceil(WIDE);
    let (mut counts, mut gains) = (&mut indptr[1..], gains);
    let mut shares: Vec<_> = chunks(&matrix, crew)
        .into_iter()
        .map(|rows| Share {
            counts: counts.split_off_mut(..rows.len()).unwrap_or_default(),
            gains: gains.split_off_mut(..rows.len()).unwrap_or_default(),
            rows,
            made: Chunk::default(),
            result: Ok(()),
        })
        .collect();
    crew.enter(|| {
        crew.for_each(&mut shares, |share| {
            share.result = (|| {
                let mut rows = filled(2 * eights, [0.0; WIDE])?;
                let (omega, soft) = rows.split_at_mut(eights);
                dispatch(HalfStep {
                    matrix,
                    vectors,
                    rule,
                    share: &mut *share,
                    omega,
                    soft,
                })
            })();
        });
    });
    let chunks = shares
        .into_iter()
        .map(|share| share.result.map(|()| share.made));
    let made = Made(chunks.collect::<Result<_, _>>()?);
    add_up(indptr);
    Ok(made)
}

/// Make starts of counts.
fn add_up(indptr: &mut [i64]) {
    indptr[0] = 0;
    for row in 1..indptr.len() {
        indptr[row] += indptr[row - 1];
    }
}
