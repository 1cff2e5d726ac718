//! The half-step with sparse embeddings.

use std::ops::Range;

use crate::alternating::chunks::chunks;
use crate::alternating::rule::{Gain, Rule};
use crate::alternating::{AHEAD, LINE};
use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::error::{filled, reserve};
use crate::matrix::{Compressed, Feature, Index, Stored};
use crate::simd::{Eight, Machine, Wide};
use crate::threads::ThreadTeam;

/// Sparse embeddings.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct Sparse<'a> {
    pub indptr: &'a [i64],
    pub indices: &'a [i32],
    pub data: &'a [f32],
}

impl Sparse<'_> {
    #[inline(always)]
    fn prefetch<M: Machine>(&self, machine: M, entry: usize) {
        machine.prefetch(self.indices, entry);
        machine.prefetch(self.data, entry);
    }

    #[inline(always)]
    fn entries(&self, row: usize) -> Range<usize> {
        self.indptr[row].position()..self.indptr[row + 1].position()
    }
}

/// The new rows of a chunk.
#[derive(Default)]
struct Chunk {
    dimensions: Vec<i32>,
    values: Vec<f32>,
}

impl Chunk {
    /// Append the numbers from `first` on that have a bit in `bits`, which zeros have not.
    #[inline(always)]
    fn append(&mut self, numbers: Eight, first: i32, mut bits: u32) {
        while bits != 0 {
            let lane = bits.trailing_zeros();
            self.dimensions.push(first + lane.cast_signed());
            self.values.push(numbers[lane as usize]);
            bits &= bits - 1;
        }
    }

    fn reserve(&mut self, more: usize) {
        reserve(&mut self.dimensions, more);
        reserve(&mut self.values, more);
    }
}

/// The rows of a half-step, by chunks.
pub struct SparseEmbeddings(Vec<Chunk>);

impl SparseEmbeddings {
    /// The number of non-zeros.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.iter().map(|chunk| chunk.values.len()).sum()
    }

    /// Copy all rows to one place.
    pub fn join(self, mut dimensions: &mut [i32], mut values: &mut [f32], team: &ThreadTeam) {
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
        team.enter(|| {
            team.for_each(&mut copies, |(chunk, dimensions, values)| {
                // Dropped as soon as it is copied, so that there are never two copies of all.
                let chunk = std::mem::take(chunk);
                dimensions.copy_from_slice(&chunk.dimensions);
                values.copy_from_slice(&chunk.values);
            });
        });
    }
}

/// Rows that are computed together.
struct Share<'a> {
    rows: Range<usize>,
    counts: &'a mut [i64],
    gains: &'a mut [f64],
    output: Chunk,
}

struct HalfStep<'a, 's, I, F> {
    matrix: Compressed<'a, I, F>,
    embeddings: Sparse<'a>,
    rule: Rule,
    share: &'s mut Share<'a>,
    /// A row; zero before and after.
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
            prefetch(machine, &self.matrix, &self.embeddings, entry);
            let (value, part) = (
                f32::narrow(value.widen()),
                self.embeddings.entries(index.position()),
            );
            let dimensions = &self.embeddings.indices[part.clone()];
            for (dimension, x) in dimensions.iter().zip(&self.embeddings.data[part]) {
                omega[dimension.position()] += value * x;
            }
        }
    }

    /// Threshold and scale the sums, and store what is not zero; return the gain.
    #[inline(always)]
    fn finish<M: Machine>(&mut self, machine: M) -> f64 {
        let scale = Wide::splat(machine, self.rule.shrink(machine, self.omega, self.soft));
        let mut sums = Gain::new(machine);
        let lines = self.soft.iter().zip(&mut *self.omega);
        for (first, (soft, omega)) in (0..).step_by(WIDE).zip(lines) {
            let result = Wide::new(machine, *soft) * scale;
            sums.add(result, Wide::new(machine, *omega));
            *omega = [0.0; WIDE];
            let result = result.array();
            let bits = !machine.within_wide(&result, 0.0) & 0xFF;
            self.share.output.append(result, first, bits);
        }
        sums.total(self.rule)
    }
}

/// Prefetch the embedding of a later entry. Pointers are prefetched even earlier, because they are
/// needed for the rest. Both ends of an embedding are prefetched whatever its length: a short one
/// should cost no branch.
#[inline(always)]
fn prefetch<M: Machine, I: Index, F: Feature>(
    machine: M,
    matrix: &Compressed<'_, I, F>,
    embeddings: &Sparse<'_>,
    entry: usize,
) {
    machine.prefetch(embeddings.indptr, matrix.index_at_most(entry + 2 * AHEAD));
    let Range { start, end } = embeddings.entries(matrix.index_at_most(entry + AHEAD));
    embeddings.prefetch(machine, start);
    embeddings.prefetch(machine, end);
    let mut line = start + LINE;
    while line < end {
        embeddings.prefetch(machine, line);
        line += LINE;
    }
}

impl<I: Index, F: Feature> Job for HalfStep<'_, '_, I, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) -> Self::Output {
        let first = self.share.rows.start;
        for row in self.share.rows.clone() {
            let before = self.share.output.values.len();
            self.share.output.reserve(self.omega.len() * WIDE);
            self.scatter(machine, row);
            self.share.gains[row - first] = self.finish(machine);
            let count = self.share.output.values.len() - before;
            self.share.counts[row - first] =
                count.try_into().expect("a row has at most 2**31 numbers");
        }
    }
}

/// Compute the half-step over M from sparse embeddings; fill `indptr` with the start of each new
/// row.
pub fn half_step_sparse<I: Index, F: Feature>(
    matrix: Compressed<'_, I, F>,
    embeddings: Sparse<'_>,
    width: usize,
    rule: Rule,
    indptr: &mut [i64],
    gains: &mut [f64],
    team: &ThreadTeam,
) -> SparseEmbeddings {
    let eights = width.div_ceil(WIDE);
    let (mut counts, mut gains) = (&mut indptr[1..], gains);
    let mut shares: Vec<_> = chunks(&matrix, team)
        .into_iter()
        .map(|rows| Share {
            counts: counts.split_off_mut(..rows.len()).unwrap_or_default(),
            gains: gains.split_off_mut(..rows.len()).unwrap_or_default(),
            rows,
            output: Chunk::default(),
        })
        .collect();
    team.run(shares.iter_mut(), |share| {
        let mut rows = filled(2 * eights, [0.0; WIDE]);
        let (omega, soft) = rows.split_at_mut(eights);
        dispatch(HalfStep {
            matrix,
            embeddings,
            rule,
            share,
            omega,
            soft,
        });
    });
    let chunks = shares.into_iter().map(|share| share.output).collect();
    // From counts to starts.
    indptr[0] = 0;
    for row in 1..indptr.len() {
        indptr[row] += indptr[row - 1];
    }
    SparseEmbeddings(chunks)
}
