//! The half-step with dense embeddings.

use std::ops::Range;

use crate::alternating::chunks::chunks;
use crate::alternating::rule::{Gain, Rule};
use crate::alternating::{AHEAD, LINE};
use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::matrix::{Compressed, Feature, Index, Stored};
use crate::simd::{Eight, Machine, Wide};
use crate::threads::ThreadTeam;

/// Registers of an embedding that are summed at once: 16, less the value and the product.
const TILE: usize = 14;
/// Wide embeddings that are added at a time.
const STREAMS: usize = 8;

/// M and the embeddings of the other side.
#[derive(Clone, Copy)]
struct Product<'a, I, F> {
    matrix: Compressed<'a, I, F>,
    embeddings: &'a [Eight],
    eights: usize,
}

/// Call a method whose constant is a length, so that the compiler knows it.
macro_rules! by_length {
    ($length:expr, $self:ident.$method:ident $arguments:tt, $($known:literal)*) => {
        match $length {
            $($known => $self.$method::<M, $known> $arguments,)*
            _ => {}
        }
    };
}

impl<I: Index, F: Feature> Product<'_, I, F> {
    /// Fill `omega` with the product of a row.
    #[inline(always)]
    fn row<M: Machine>(&self, machine: M, row: usize, omega: &mut [Eight]) {
        if self.eights <= TILE {
            by_length!(
                omega.len(),
                self.narrow(machine, row, omega),
                1 2 3 4 5 6 7 8 9 10 11 12 13 14
            );
        } else {
            self.wide(machine, row, omega);
        }
    }

    /// The product in registers: embeddings have N.
    #[inline(always)]
    fn narrow<M: Machine, const N: usize>(&self, machine: M, row: usize, omega: &mut [Eight]) {
        let mut sums = [Wide::splat(machine, 0.0); N];
        let (indices, data) = self.matrix.line(row);
        let entries = self.matrix.start(row)..;
        for ((index, value), entry) in indices.iter().zip(data).zip(entries) {
            self.prefetch::<M, N>(machine, entry + AHEAD);
            let value = Wide::splat(machine, f32::narrow(value.widen()));
            let from = index.position() * N;
            for (sum, eight) in sums.iter_mut().zip(&self.embeddings[from..from + N]) {
                *sum += value * Wide::new(machine, *eight);
            }
        }
        for (omega, sum) in omega.iter_mut().zip(sums) {
            *omega = sum.array();
        }
    }

    /// Prefetch the embedding of a later entry.
    #[inline(always)]
    fn prefetch<M: Machine, const N: usize>(&self, machine: M, entry: usize) {
        let from = self.matrix.index_at_most(entry) * N;
        for line in (0..N).step_by(LINE / WIDE) {
            machine.prefetch(self.embeddings, from + line);
        }
        machine.prefetch(self.embeddings, from + N);
    }

    /// The product with embeddings that are too wide for registers.
    #[inline(always)]
    fn wide<M: Machine>(&self, machine: M, row: usize, omega: &mut [Eight]) {
        omega.fill([0.0; WIDE]);
        let (indices, data) = self.matrix.line(row);
        for (indices, data) in indices.chunks(STREAMS).zip(data.chunks(STREAMS)) {
            by_length!(
                indices.len(),
                self.streams(machine, indices, data, omega),
                1 2 3 4 5 6 7 8
            );
        }
    }

    /// Add N embeddings to omega, side by side, so that the processor sees N streams, and prefetches
    /// each of them.
    #[inline(always)]
    fn streams<M: Machine, const N: usize>(
        &self,
        machine: M,
        indices: &[I],
        data: &[F],
        omega: &mut [Eight],
    ) {
        let mut rows = [self.embeddings; N];
        let mut values = [Wide::splat(machine, 0.0); N];
        for ((row, value), (index, x)) in rows
            .iter_mut()
            .zip(&mut values)
            .zip(indices.iter().zip(data))
        {
            *row = &self.embeddings[index.position() * self.eights..][..omega.len()];
            *value = Wide::splat(machine, f32::narrow(x.widen()));
        }
        for (at, omega) in omega.iter_mut().enumerate() {
            let mut sum = Wide::new(machine, *omega);
            for (value, row) in values.iter().zip(&rows) {
                sum += *value * Wide::new(machine, row[at]);
            }
            *omega = sum.array();
        }
    }
}

/// Rows that are computed together.
struct Share<'a> {
    rows: Range<usize>,
    out: &'a mut [Eight],
    gains: &'a mut [f64],
}

struct HalfStep<'a, 's, I, F> {
    product: Product<'a, I, F>,
    rule: Rule,
    share: &'s mut Share<'a>,
    omega: &'s mut [Eight],
}

impl<I: Index, F: Feature> Job for HalfStep<'_, '_, I, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Share {
            rows, out, gains, ..
        } = self.share;
        let lines = out.chunks_exact_mut(self.product.eights).zip(&mut **gains);
        for (row, (out, gain)) in rows.clone().zip(lines) {
            self.product.row(machine, row, self.omega);
            let scale = Wide::splat(machine, self.rule.shrink(machine, self.omega, out));
            let mut sums = Gain::new(machine);
            for (out, omega) in out.iter_mut().zip(&*self.omega) {
                let result = Wide::new(machine, *out) * scale;
                *out = result.array();
                sums.add(result, Wide::new(machine, *omega));
            }
            *gain = sums.total(self.rule);
        }
    }
}

/// Fill `out` and `gains` with the half-step over M from `embeddings` of `width` numbers.
pub fn half_step<I: Index, F: Feature>(
    matrix: Compressed<'_, I, F>,
    embeddings: &[f32],
    width: usize,
    rule: Rule,
    out: &mut [f32],
    gains: &mut [f64],
    team: &ThreadTeam,
) {
    let product = Product {
        matrix,
        embeddings: embeddings.as_chunks().0,
        eights: width / WIDE,
    };
    let (mut out, mut gains) = (out.as_chunks_mut().0, gains);
    let shares = chunks(&product.matrix, team).into_iter();
    let shares = shares.map(|rows| {
        let eights = rows.len() * product.eights;
        Share {
            out: out.split_off_mut(..eights).unwrap_or_default(),
            gains: gains.split_off_mut(..rows.len()).unwrap_or_default(),
            rows,
        }
    });
    team.run(shares, |share| {
        let omega = &mut filled(product.eights, [0.0; WIDE]);
        dispatch(HalfStep {
            product,
            rule,
            share,
            omega,
        });
    });
}
