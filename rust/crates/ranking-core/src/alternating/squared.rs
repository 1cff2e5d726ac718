//! The squared error of all pairs: steps of conjugate gradients on each row.

use std::ops::Range;

use crate::alternating::AHEAD;
use crate::alternating::chunks::chunks;
use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::matrix::{Compressed, Feature, Index, Stored};
use crate::simd::{Eight, Machine, Wide, dot_wide};
use crate::threads::ThreadTeam;

/// Registers of a product with the Gram matrix that are summed at once.
const TILE: usize = 8;
/// A squared residual up to this counts as 0.
const LEAST: f32 = 1e-30;

/// Weights of observed and of unobserved pairs, and the steps of a row.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct SquaredRule {
    pub observed: f64,
    pub unobserved: f64,
    pub steps: usize,
}

/// What all rows share.
#[derive(Clone, Copy)]
struct Task<'a, I, F> {
    matrix: Compressed<'a, I, F>,
    embeddings: &'a [Eight],
    gram: &'a [Eight],
    ridges: &'a [f32],
    eights: usize,
    observed: f32,
    unobserved: f32,
    steps: usize,
}

/// Working memory of a row.
struct Work {
    target: Vec<Eight>,
    residual: Vec<Eight>,
    direction: Vec<Eight>,
    product: Vec<Eight>,
}

/// to += c x
#[inline(always)]
fn add<M: Machine>(machine: M, to: &mut [Eight], x: &[Eight], c: f32) {
    let c = Wide::splat(machine, c);
    for (to, x) in to.iter_mut().zip(x) {
        *to = (Wide::new(machine, *to) + c * Wide::new(machine, *x)).array();
    }
}

impl<I: Index, F: Feature> Task<'_, I, F> {
    /// The embedding of a column.
    #[inline(always)]
    fn embedding(&self, column: usize) -> &[Eight] {
        &self.embeddings[column * self.eights..][..self.eights]
    }

    /// out = x'G for N registers from `from` on.
    #[inline(always)]
    fn tile<M: Machine, const N: usize>(
        &self,
        machine: M,
        x: &[Eight],
        out: &mut [Eight],
        from: usize,
    ) {
        let mut sums = [Wide::splat(machine, 0.0); N];
        let lines = self.gram.chunks_exact(self.eights);
        for (value, line) in x.iter().flatten().zip(lines) {
            let value = Wide::splat(machine, *value);
            for (sum, eight) in sums.iter_mut().zip(&line[from..from + N]) {
                *sum += value * Wide::new(machine, *eight);
            }
        }
        for (out, sum) in out[from..from + N].iter_mut().zip(sums) {
            *out = sum.array();
        }
    }

    /// out = A x
    #[inline(always)]
    fn product<M: Machine>(&self, machine: M, row: usize, x: &[Eight], out: &mut [Eight]) {
        let mut from = 0;
        while from + TILE <= self.eights {
            self.tile::<M, TILE>(machine, x, out, from);
            from += TILE;
        }
        while from < self.eights {
            self.tile::<M, 1>(machine, x, out, from);
            from += 1;
        }
        let ridge = Wide::splat(machine, self.ridges[row]);
        let weight = Wide::splat(machine, self.unobserved);
        for (out, x) in out.iter_mut().zip(x) {
            *out = (ridge * Wide::new(machine, *x) + weight * Wide::new(machine, *out)).array();
        }
        let excess = self.observed - self.unobserved;
        for index in self.matrix.line(row).0 {
            let embedding = self.embedding(index.position());
            let score = dot_wide(machine, embedding, x);
            add(machine, out, embedding, excess * score);
        }
    }

    /// Fill b, and prefetch the embeddings.
    #[inline(always)]
    fn target<M: Machine>(&self, machine: M, row: usize, target: &mut [Eight]) {
        target.fill([0.0; WIDE]);
        let (indices, data) = self.matrix.line(row);
        for ((index, value), entry) in indices.iter().zip(data).zip(self.matrix.start(row)..) {
            let later = self.matrix.index_at_most(entry + AHEAD) * self.eights;
            for line in (0..self.eights).step_by(2) {
                machine.prefetch(self.embeddings, later + line);
            }
            let response = f32::narrow(value.widen());
            let embedding = self.embedding(index.position());
            add(machine, target, embedding, self.observed * response);
        }
    }

    /// Take steps on a row; return its gain.
    #[inline(always)]
    fn row<M: Machine>(&self, machine: M, row: usize, x: &mut [Eight], work: &mut Work) -> f64 {
        let Work {
            target,
            residual,
            direction,
            product,
        } = work;
        self.target(machine, row, target);
        self.product(machine, row, x, product);
        for ((r, p), (b, q)) in residual
            .iter_mut()
            .zip(&mut *direction)
            .zip(target.iter().zip(&*product))
        {
            *r = (Wide::new(machine, *b) - Wide::new(machine, *q)).array();
            *p = *r;
        }
        let mut square = dot_wide(machine, residual, residual);
        for _ in 0..self.steps {
            if square.is_nan() || square <= LEAST {
                break;
            }
            self.product(machine, row, direction, product);
            let curvature = dot_wide(machine, direction, product);
            if curvature.is_nan() || curvature <= 0.0 {
                break;
            }
            let length = square / curvature;
            add(machine, x, direction, length);
            let by = Wide::splat(machine, length);
            for (r, q) in residual.iter_mut().zip(&*product) {
                *r = (Wide::new(machine, *r) - by * Wide::new(machine, *q)).array();
            }
            let before = square;
            square = dot_wide(machine, residual, residual);
            let keep = Wide::splat(machine, square / before);
            for (p, r) in direction.iter_mut().zip(&*residual) {
                *p = (Wide::new(machine, *r) + keep * Wide::new(machine, *p)).array();
            }
        }
        f64::from(dot_wide(machine, x, target)) + f64::from(dot_wide(machine, x, residual))
    }
}

/// Rows that are computed together.
struct Share<'a> {
    rows: Range<usize>,
    out: &'a mut [Eight],
    gains: &'a mut [f64],
}

struct Steps<'a, 's, I, F> {
    task: Task<'a, I, F>,
    share: &'s mut Share<'a>,
    work: &'s mut Work,
}

impl<I: Index, F: Feature> Job for Steps<'_, '_, I, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Share { rows, out, gains } = self.share;
        let lines = out.chunks_exact_mut(self.task.eights).zip(&mut **gains);
        for (row, (x, gain)) in rows.clone().zip(lines) {
            *gain = self.task.row(machine, row, x, self.work);
        }
    }
}

/// The other side: embeddings of `width` numbers, and their Gram matrix.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "they are what their names say")]
pub struct Others<'a> {
    pub embeddings: &'a [f32],
    pub gram: &'a [f32],
    pub width: usize,
}

/// Decrease the squared error of all pairs over the rows of `out`.
pub fn squared_half_step<I: Index, F: Feature>(
    matrix: Compressed<'_, I, F>,
    others: Others<'_>,
    rule: SquaredRule,
    ridges: &[f32],
    out: &mut [f32],
    gains: &mut [f64],
    team: &ThreadTeam,
) {
    let task = Task {
        matrix,
        embeddings: others.embeddings.as_chunks().0,
        gram: others.gram.as_chunks().0,
        ridges,
        eights: others.width / WIDE,
        observed: f32::narrow(rule.observed),
        unobserved: f32::narrow(rule.unobserved),
        steps: rule.steps,
    };
    let (mut out, mut gains) = (out.as_chunks_mut().0, gains);
    let shares = chunks(&task.matrix, team).into_iter();
    let shares = shares.map(|rows| {
        let eights = rows.len() * task.eights;
        Share {
            out: out.split_off_mut(..eights).unwrap_or_default(),
            gains: gains.split_off_mut(..rows.len()).unwrap_or_default(),
            rows,
        }
    });
    team.run(shares, |share| {
        let empty = || filled(task.eights, [0.0; WIDE]);
        let work = &mut Work {
            target: empty(),
            residual: empty(),
            direction: empty(),
            product: empty(),
        };
        dispatch(Steps { task, share, work });
    });
}
