//! The Gram matrix X'HX.

use std::ops::Range;

use super::list::{List, Row};
use super::slopes::sigmoids;
use super::{Curve, NativeCurve, Window};
use crate::constants::{CHUNK, LANES, PARTS, SECANT, WIDE};
use crate::dispatch::{Job, dispatch};
use crate::domination::ListLayout;
use crate::error::filled;
use crate::matrix::{Compressed, Dense, Feature, Index, Matrix};
use crate::pairwise::PairwiseSlope;
use crate::simd::{Lanes, Machine};
use crate::threads::ThreadTeam;

/// The features of a list by row, `width` values each, padded to eight: x, and y = Hx.
#[derive(Default)]
struct Local {
    x: Vec<f64>,
    y: Vec<f64>,
    sum: Vec<f64>,
    diagonal: Vec<f64>,
    curvatures: Vec<f64>,
    /// The selected columns with entries.
    active: Vec<usize>,
    /// By selected column: the first entry that is not in an earlier list.
    cursor: Vec<usize>,
    width: usize,
}

impl Local {
    fn row(&self, at: usize) -> Range<usize> {
        at * self.width..(at + 1) * self.width
    }

    /// Begin a list of so many rows with the active columns.
    fn start(&mut self, rows: usize) {
        self.width = self.active.len().next_multiple_of(WIDE);
        for values in [&mut self.x, &mut self.y] {
            values.clear();
            values.resize(rows * self.width, 0.0);
        }
    }

    /// Copy a list of a dense matrix, less its first row.
    fn load_dense<F: Feature>(&mut self, x: Dense<'_, F>, columns: &[i64], rows: Range<usize>) {
        if self.active.is_empty() {
            self.active.extend(0..columns.len());
        }
        self.start(rows.len());
        for (at, column) in columns.iter().enumerate() {
            let values = &x.line(column.position())[rows.clone()];
            let first = values[0].widen();
            for (row, value) in self.x.chunks_exact_mut(self.width).zip(values) {
                row[at] = value.widen() - first;
            }
        }
    }

    /// Copy a list of a sparse matrix, less its first row.
    fn load_sparse<I: Index, F: Feature>(
        &mut self,
        x: Compressed<'_, I, F>,
        columns: &[i64],
        rows: Range<usize>,
    ) {
        let cursors = self.cursor.iter_mut().zip(columns);
        self.active.clear();
        for (at, (cursor, column)) in cursors.enumerate() {
            let indices = &x.line(column.position()).0[*cursor..];
            *cursor += indices.partition_point(|row| row.position() < rows.start);
            let next = x.line(column.position()).0.get(*cursor);
            if next.is_some_and(|row| row.position() < rows.end) {
                self.active.push(at);
            }
        }
        self.start(rows.len());
        for (a, &at) in self.active.iter().enumerate() {
            let (indices, data) = x.line(columns[at].position());
            let start = self.cursor[at];
            let count = indices[start..].partition_point(|row| row.position() < rows.end);
            let entries = start..start + count;
            let is_first = indices[start].position() == rows.start;
            let first = if is_first { data[start].widen() } else { 0.0 };
            for row in self.x.chunks_exact_mut(self.width) {
                row[a] = 0.0 - first;
            }
            for (row, value) in indices[entries.clone()].iter().zip(&data[entries]) {
                self.x[(row.position() - rows.start) * self.width + a] = value.widen() - first;
            }
            self.cursor[at] = start + count;
        }
    }
}

/// Add `from` times `scale`.
#[inline(always)]
fn add_scaled<M: Machine>(machine: M, to: &mut [f64], scale: f64, from: &[f64]) {
    let from = from.as_chunks::<LANES>().0.iter();
    for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(from) {
        let added = Lanes::splat(machine, scale) * Lanes::new(machine, *from);
        *to = (Lanes::new(machine, *to) + added).array();
    }
}

/// Subtract `from` times `scale`.
#[inline(always)]
fn subtract_scaled<M: Machine>(machine: M, to: &mut [f64], scale: f64, from: &[f64]) {
    let from = from.as_chunks::<LANES>().0.iter();
    for (to, from) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(from) {
        let taken = Lanes::splat(machine, scale) * Lanes::new(machine, *from);
        *to = (Lanes::new(machine, *to) - taken).array();
    }
}

/// Add scale * (n * x - sum).
#[inline(always)]
fn add_difference<M: Machine>(
    machine: M,
    to: &mut [f64],
    scale: f64,
    n: f64,
    x: &[f64],
    sum: &[f64],
) {
    let x = x.as_chunks::<LANES>().0.iter();
    let both = x.zip(sum.as_chunks::<LANES>().0);
    for (to, (x, sum)) in to.as_chunks_mut::<LANES>().0.iter_mut().zip(both) {
        let all = Lanes::splat(machine, n) * Lanes::new(machine, *x);
        let added = Lanes::splat(machine, scale) * (all - Lanes::new(machine, *sum));
        *to = (Lanes::new(machine, *to) + added).array();
    }
}

/// A running sum of rows of x, and of their weights.
#[inline(always)]
fn shift_sum<M: Machine>(machine: M, local: &mut Local, n: &mut f64, row: &Row, weight: f64) {
    let from = local.row(row.at);
    if weight < 0.0 {
        *n -= -weight;
        subtract_scaled(machine, &mut local.sum, -weight, &local.x[from]);
    } else {
        *n += weight;
        add_scaled(machine, &mut local.sum, weight, &local.x[from]);
    }
}

#[inline(always)]
fn window_products<M: Machine>(machine: M, list: &mut List, window: Window, local: &mut Local) {
    let Window { lower, upper, bend } = window;
    list.sort();
    for k in 1..list.depth() {
        list.separate(k);
        for from_above in [true, false] {
            local.sum.clear();
            local.sum.resize(local.width, 0.0);
            let (mut near, mut far, mut n) = (0, 0, 0.0);
            let (count, others) = if from_above {
                (list.tops.len(), list.below.len())
            } else {
                (list.below.len(), list.tops.len())
            };
            for at in 0..count {
                let row = if from_above {
                    list.tops[count - 1 - at]
                } else {
                    list.below[at]
                };
                let other = |at: usize| {
                    if from_above {
                        (list.below[others - 1 - at], 1.0)
                    } else {
                        (list.tops[at], list.tops[at].w)
                    }
                };
                let gap = |other: Row| {
                    if from_above {
                        (1.0 - row.m) + other.m
                    } else {
                        (1.0 - other.m) + row.m
                    }
                };
                while near < others && gap(other(near).0) > lower {
                    let (other, weight) = other(near);
                    shift_sum(machine, local, &mut n, &other, weight);
                    near += 1;
                }
                while far < others && gap(other(far).0) > upper {
                    let (other, weight) = other(far);
                    shift_sum(machine, local, &mut n, &other, -weight);
                    far += 1;
                }
                let scale = if from_above { row.w * bend } else { bend };
                let own = local.row(row.at);
                let (to, x) = (&mut local.y[own.clone()], &local.x[own]);
                add_difference(machine, to, scale, n, x, &local.sum);
            }
        }
    }
}

/// Fill `curvatures` for the pairs of a row with the margin `m`.
#[inline(always)]
fn pair_curvatures<M: Machine>(
    machine: M,
    list: &List,
    native: Option<NativeCurve>,
    m: f64,
    curvatures: &mut Vec<f64>,
) {
    curvatures.clear();
    let Some(curve) = native else {
        for low in list.low.as_chunks::<LANES>().0 {
            let z = Lanes::splat(machine, m) - Lanes::new(machine, *low);
            let (e, plus) = sigmoids(z);
            curvatures.extend(((e / plus) / plus).array());
        }
        return;
    };
    for low in &list.low {
        let z = m - low;
        let (after, before) = (z + SECANT, z - SECANT);
        let k = (curve.slope.slope(after) - curve.slope.slope(before)) * (0.5 / SECANT);
        let k = if k > 0.0 { k } else { 0.0 };
        curvatures.push(if k < curve.bend { k } else { curve.bend });
    }
}

#[inline(always)]
fn pair_products<M: Machine>(
    machine: M,
    list: &mut List,
    native: Option<NativeCurve>,
    local: &mut Local,
) {
    local.diagonal.clear();
    local.diagonal.resize(list.rows.len(), 0.0);
    for tops in list.groups() {
        let n = tops.start;
        list.load_low(n);
        if native.is_some() {
            list.low.truncate(n);
        }
        for at in tops {
            let (row, mut total) = (list.rows[at], 0.0);
            pair_curvatures(machine, list, native, row.m, &mut local.curvatures);
            let own = local.row(at);
            for j in 0..n {
                let each = row.w * local.curvatures[j];
                if each == 0.0 {
                    continue;
                }
                total += each;
                local.diagonal[j] += each;
                let other = local.row(j);
                let (to, x) = (&mut local.y[own.clone()], &local.x[other.clone()]);
                subtract_scaled(machine, to, each, x);
                let (to, x) = (&mut local.y[other], &local.x[own.clone()]);
                subtract_scaled(machine, to, each, x);
            }
            local.diagonal[at] += total;
        }
    }
    for at in 0..list.rows.len() {
        let own = local.row(at);
        let (to, x) = (&mut local.y[own.clone()], &local.x[own]);
        add_scaled(machine, to, local.diagonal[at], x);
    }
}

/// The products of four columns of x and eight of y over some rows.
#[inline(always)]
fn tile<M: Machine>(
    machine: M,
    local: &Local,
    rows: &Range<usize>,
    i: usize,
    j: usize,
) -> [[Lanes<M>; 2]; LANES] {
    let mut sums = [[Lanes::splat(machine, 0.0); 2]; LANES];
    let values = rows.start * local.width..rows.end * local.width;
    let x = local.x[values.clone()].chunks_exact(local.width);
    for (x, y) in x.zip(local.y[values].chunks_exact(local.width)) {
        let [first, second] = y[j..j + WIDE].as_chunks::<LANES>().0 else {
            continue;
        };
        let (first, second) = (Lanes::new(machine, *first), Lanes::new(machine, *second));
        for (sums, &x) in sums.iter_mut().zip(&x[i..i + LANES]) {
            let x = Lanes::splat(machine, x);
            sums[0] += x * first;
            sums[1] += x * second;
        }
    }
    sums
}

/// Add x'y of a list to the matrix of all `n` selected columns.
#[inline(always)]
fn add_products<M: Machine>(machine: M, local: &Local, rows: usize, sums: &mut [f64], n: usize) {
    let active = &local.active;
    for start in (0..rows).step_by(CHUNK) {
        let rows = start..rows.min(start + CHUNK);
        for i in (0..active.len()).step_by(LANES) {
            for j in (i / WIDE * WIDE..active.len()).step_by(WIDE) {
                let tile = tile(machine, local, &rows, i, j);
                for (&row, tile) in active[i..].iter().zip(tile) {
                    let values = tile.into_iter().flat_map(Lanes::array);
                    for (&column, value) in active[j..].iter().zip(values) {
                        sums[row * n + column] += value;
                    }
                }
            }
        }
    }
}

/// The matrix of some of the selected lists.
struct Part<'a, 's, I, F> {
    features: Matrix<'a, I, F>,
    lists: &'a ListLayout<'a>,
    margins: &'a [f64],
    curve: Curve,
    columns: &'a [i64],
    selected: &'a [i64],
    sums: &'s mut [f64],
}

impl<I: Index, F: Feature> Job for Part<'_, '_, I, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let (mut list, mut local) = (List::default(), Local::default());
        local.cursor.resize(self.columns.len(), 0);
        for q in self.selected {
            let q = q.position();
            let rows = self.lists.rows_of(q..q + 1);
            list.load(self.lists, q, self.margins);
            match self.features {
                Matrix::Dense(x) => local.load_dense(x, self.columns, rows.clone()),
                Matrix::Sparse(x) => local.load_sparse(x, self.columns, rows.clone()),
            }
            if local.width == 0 {
                continue;
            }
            match self.curve {
                Curve::Windows(window) => window_products(machine, &mut list, window, &mut local),
                Curve::Logistic => pair_products(machine, &mut list, None, &mut local),
                Curve::Native(curve) => pair_products(machine, &mut list, Some(curve), &mut local),
            }
            add_products(machine, &local, rows.len(), self.sums, self.columns.len());
        }
    }
}

/// Fill `out` with X'HX of some columns, summed over some lists, which must rise.
#[allow(clippy::too_many_arguments, reason = "those of the contract")]
pub fn gram<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    lists: &ListLayout<'_>,
    margins: &[f64],
    curve: Curve,
    columns: &[i64],
    selected: &[i64],
    out: &mut [f64],
    team: &ThreadTeam,
) {
    let n = columns.len();
    out.fill(0.0);
    if n == 0 {
        return;
    }
    let mut sums = filled(PARTS * n * n, 0.0);
    team.run(sums.chunks_mut(n * n).enumerate(), |(part, sums)| {
        let start = *part * selected.len() / PARTS;
        let stop = (*part + 1) * selected.len() / PARTS;
        dispatch(Part {
            features,
            lists,
            margins,
            curve,
            columns,
            selected: &selected[start..stop],
            sums,
        });
    });
    for part in sums.chunks(n * n) {
        for (out, sum) in out.iter_mut().zip(part) {
            *out += sum;
        }
    }
    for i in 0..n {
        for j in 0..i {
            out[i * n + j] = out[j * n + i];
        }
    }
}
