//! Lists of one positive that share their negatives: three matrix products and the slopes between.
//!
//! Lists are taken by strips whose slopes stay in the second-level cache. Threads share the lists
//! of a strip; then they share the negatives, to whose gradients the strip is added.

use crate::constants::WIDE;
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::matrix::Index;
use crate::simd::{Eight, Machine, Wide, dot_wide};
use crate::threads::ThreadTeam;

/// Negatives of a panel: two registers.
const PANEL: usize = 2 * WIDE;
/// Rows of a tile of a product.
const TALL: usize = 4;
/// Slopes of a strip, about.
const STRIP: usize = 131_072;

/// Two registers in memory.
type Pair = [Eight; 2];

/// Which loss of lists that share their negatives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SharedForm {
    /// The softmax over the positive and its negatives.
    Softmax,
    /// What negatives exceed a threshold, and the positive.
    CosineContrastive,
    /// The logistic loss of each score.
    Logistic,
}

/// A loss with its numbers.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct SharedLoss {
    pub form: SharedForm,
    pub scale: f32,
    pub threshold: f32,
    pub weight: f32,
}

/// Negatives that are left out of a list: those of list i lie between pointers i and i + 1, and
/// rise.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct Exclusions<'a> {
    pub indptr: &'a [i64],
    pub documents: &'a [i64],
}

impl<'a> Exclusions<'a> {
    #[inline(always)]
    fn of(&self, list: usize) -> &'a [i64] {
        &self.documents[self.indptr[list].position()..self.indptr[list + 1].position()]
    }
}

/// Embeddings of lists that share their negatives.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct SharedLists<'a> {
    pub queries: &'a [f32],
    pub positives: &'a [f32],
    pub negatives: &'a [f32],
    pub positive_offsets: &'a [f32],
    pub negative_offsets: &'a [f32],
    pub weights: &'a [f32],
    pub excluded: Exclusions<'a>,
}

/// Gradients of all embeddings.
#[derive(Debug)]
#[expect(missing_docs, reason = "the contract describes the fields")]
pub struct SharedGradients<'a> {
    pub queries: &'a mut [f32],
    pub positives: &'a mut [f32],
    pub negatives: &'a mut [f32],
    pub positive_slopes: &'a mut [f32],
    pub negative_slopes: &'a mut [f32],
    pub scores: &'a mut [f32],
    pub tops: &'a mut [f32],
    pub totals: &'a mut [f32],
}

/// exp(x) of numbers that are not positive; 0 below -87.
#[expect(clippy::excessive_precision, reason = "as the contract has them")]
#[inline(always)]
fn exp<M: Machine>(machine: M, x: Wide<M>) -> Wide<M> {
    let all = |value: f32| Wide::splat(machine, value);
    let lowest = all(-87.0);
    let magic = all(12_582_912.0);
    let capped = x.if_less(lowest, lowest, x);
    let t = capped * all(f32::from_bits(0x3FB8_AA3B)) + magic;
    let k = t - magic;
    let r = (capped - k * all(0.693_359_375)) - k * all(-2.121_944_4e-4);
    let mut q = all(1.987_569_15e-4);
    q = q * r + all(1.398_199_950_7e-3);
    q = q * r + all(8.333_451_907_3e-3);
    q = q * r + all(4.166_579_589_4e-2);
    q = q * r + all(1.666_666_545_9e-1);
    q = q * r + all(5.000_000_120_1e-1);
    let p = (q * (r * r) + r) + all(1.0);
    x.if_less(lowest, all(0.0), p.raise(t))
}

/// 1 / (1 + exp(-x))
#[inline(always)]
fn logistic<M: Machine>(machine: M, x: Wide<M>) -> Wide<M> {
    let one = Wide::splat(machine, 1.0);
    let zero = Wide::splat(machine, 0.0);
    let e = exp(machine, zero - x.abs());
    // A NaN is not less, and e is a NaN then.
    x.if_less(zero, e, one) / (one + e)
}

/// A matrix whose columns or rows are numbers of one factor of a product.
#[derive(Clone, Copy)]
struct Left<'a> {
    data: &'a [f32],
    /// From one row to the next, and from one term to the next.
    row: usize,
    term: usize,
}

/// R rows and C registers of columns of a product, added up term by term.
#[inline(always)]
fn tile<M: Machine, const R: usize, const C: usize>(
    machine: M,
    left: Left<'_>,
    right: &[Eight],
    step: usize,
    mut sums: [[Wide<M>; C]; R],
    terms: usize,
) -> [[Wide<M>; C]; R] {
    for k in 0..terms {
        let mut columns = [Wide::splat(machine, 0.0); C];
        for (column, values) in columns.iter_mut().zip(&right[k * step..][..C]) {
            *column = Wide::new(machine, *values);
        }
        if left.row == 1 {
            let numbers = &left.data[k * left.term..][..R];
            for (sums, number) in sums.iter_mut().zip(numbers) {
                let number = Wide::splat(machine, *number);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum += number * column;
                }
            }
        } else {
            for (r, sums) in sums.iter_mut().enumerate() {
                let number = Wide::splat(machine, left.data[r * left.row + k * left.term]);
                for (sum, column) in sums.iter_mut().zip(columns) {
                    *sum += number * column;
                }
            }
        }
    }
    sums
}

/// Where a product goes: rows of registers.
struct Out<'o> {
    data: &'o mut [Eight],
    step: usize,
    /// Whether the product is added to what is there.
    add: bool,
}

/// R rows from one on, by two registers of columns at a time.
#[inline(always)]
fn strip_of_rows<M: Machine, const R: usize>(
    machine: M,
    left: Left<'_>,
    (right, step): (&[Eight], usize),
    out: &mut Out<'_>,
    (row, columns, terms): (usize, usize, usize),
) {
    let left = Left {
        data: &left.data[row * left.row..],
        ..left
    };
    let mut at = 0;
    while at < columns {
        if at + 2 <= columns {
            block::<M, R, 2>(machine, left, (&right[at..], step), out, (row, at, terms));
            at += 2;
        } else {
            block::<M, R, 1>(machine, left, (&right[at..], step), out, (row, at, terms));
            at += 1;
        }
    }
}

#[inline(always)]
fn block<M: Machine, const R: usize, const C: usize>(
    machine: M,
    left: Left<'_>,
    (right, step): (&[Eight], usize),
    out: &mut Out<'_>,
    (row, at, terms): (usize, usize, usize),
) {
    let mut sums = [[Wide::splat(machine, 0.0); C]; R];
    if out.add {
        for (r, sums) in sums.iter_mut().enumerate() {
            let from = &out.data[(row + r) * out.step + at..][..C];
            for (sum, values) in sums.iter_mut().zip(from) {
                *sum = Wide::new(machine, *values);
            }
        }
    }
    let sums = tile(machine, left, right, step, sums, terms);
    for (r, sums) in sums.iter().enumerate() {
        let to = &mut out.data[(row + r) * out.step + at..][..C];
        for (to, sum) in to.iter_mut().zip(sums) {
            *to = sum.array();
        }
    }
}

/// A product: `rows` rows, `columns` registers of columns, `terms` terms of each number.
#[inline(always)]
fn product<M: Machine>(
    machine: M,
    left: Left<'_>,
    right: (&[Eight], usize),
    mut out: Out<'_>,
    [rows, columns, terms]: [usize; 3],
) {
    let mut row = 0;
    while row + TALL <= rows {
        let place = (row, columns, terms);
        strip_of_rows::<M, TALL>(machine, left, right, &mut out, place);
        row += TALL;
    }
    for row in row..rows {
        let place = (row, columns, terms);
        strip_of_rows::<M, 1>(machine, left, right, &mut out, place);
    }
}

/// The negatives as the products need them, padded to whole panels.
struct Negatives {
    count: usize,
    /// Panel by panel, the same number of sixteen negatives in a row.
    panels: Vec<Pair>,
    /// -inf behind the last.
    offsets: Vec<Eight>,
}

impl Negatives {
    fn new(lists: &SharedLists<'_>, width: usize) -> Self {
        let count = lists.negatives.len() / width;
        let n_panels = count.div_ceil(PANEL);
        let mut panels = filled(n_panels * width, Pair::default());
        let mut offsets = filled(2 * n_panels, [f32::NEG_INFINITY; WIDE]);
        for (j, row) in lists.negatives.chunks_exact(width).enumerate() {
            let panel = &mut panels[j / PANEL * width..][..width];
            for (pair, number) in panel.iter_mut().zip(row) {
                pair.as_flattened_mut()[j % PANEL] = *number;
            }
        }
        offsets.as_flattened_mut()[..count].copy_from_slice(lists.negative_offsets);
        Self {
            count,
            panels,
            offsets,
        }
    }

    /// Registers of a row of slopes.
    fn registers(&self) -> usize {
        self.offsets.len()
    }
}

/// Some lists of a strip, and where their results go.
struct Piece<'a, 'o> {
    lists: SharedLists<'a>,
    loss: SharedLoss,
    negatives: &'a Negatives,
    width: usize,
    /// The first of the lists.
    first: usize,
    slopes: &'o mut [Eight],
    out: SharedGradients<'o>,
}

impl Job for Piece<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) {
        let (width, padded) = (self.width, self.negatives.registers());
        let rows = self.out.scores.len();
        let queries = &self.lists.queries[self.first * width..][..rows * width];
        let positives = &self.lists.positives[self.first * width..][..rows * width];
        let left = Left {
            data: queries,
            row: width,
            term: 1,
        };
        for (panel, from) in self.negatives.panels.chunks_exact(width).enumerate() {
            let out = Out {
                data: &mut self.slopes[2 * panel..],
                step: padded,
                add: false,
            };
            let right = (from.as_flattened(), 2);
            product(machine, left, right, out, [rows, 2, width]);
        }
        for b in 0..rows {
            self.list(machine, b, padded);
        }
        let left = Left {
            data: self.slopes.as_flattened(),
            row: padded * WIDE,
            term: 1,
        };
        let out = Out {
            data: self.out.queries.as_chunks_mut().0,
            step: width / WIDE,
            add: false,
        };
        let right = (self.lists.negatives.as_chunks().0, width / WIDE);
        let sizes = [rows, width / WIDE, self.negatives.count];
        product(machine, left, right, out, sizes);
        for (b, own) in self.out.positive_slopes.iter().enumerate() {
            let place = b * width..(b + 1) * width;
            for (out, x) in self.out.queries[place.clone()]
                .iter_mut()
                .zip(&positives[place.clone()])
            {
                *out += own * x;
            }
            for (out, x) in self.out.positives[place.clone()]
                .iter_mut()
                .zip(&queries[place])
            {
                *out = own * x;
            }
        }
    }
}

impl Piece<'_, '_> {
    /// Replace the scores of a list by slopes.
    #[inline(always)]
    fn list<M: Machine>(&mut self, machine: M, b: usize, padded: usize) {
        let (loss, width, at) = (self.loss, self.width, self.first + b);
        let row = &mut self.slopes[b * padded..][..padded];
        let all = |value: f32| Wide::splat(machine, value);
        let query: &[Eight] = self.lists.queries[at * width..][..width].as_chunks().0;
        let positive = self.lists.positives[at * width..][..width].as_chunks().0;
        let own = loss.scale * dot_wide(machine, query, positive) + self.lists.positive_offsets[at];
        let scaled = self.lists.weights[at] * loss.scale;
        for j in self.lists.excluded.of(at) {
            row.as_flattened_mut()[j.position()] = f32::NEG_INFINITY;
        }
        let mut most = all(own);
        for (values, offsets) in row.iter_mut().zip(&self.negatives.offsets) {
            let a = all(loss.scale) * Wide::new(machine, *values) + Wide::new(machine, *offsets);
            *values = a.array();
            most = most.if_less(a, a, most);
        }
        let scores = Scores { own, scaled, most };
        let (slope, top, total) = if loss.form == SharedForm::Softmax {
            softmax(machine, scores, row)
        } else {
            single(machine, loss, scores, row)
        };
        self.out.positive_slopes[b] = slope;
        self.out.scores[b] = own;
        self.out.tops[b] = top;
        self.out.totals[b] = total;
    }
}

/// The score of the positive, weight times scale, and the greatest score by lane.
struct Scores<M: Machine> {
    own: f32,
    scaled: f32,
    most: Wide<M>,
}

/// Replace scores by slopes; return the positive's slope, the greatest score and the total.
#[inline(always)]
fn softmax<M: Machine>(machine: M, scores: Scores<M>, row: &mut [Eight]) -> (f32, f32, f32) {
    let all = |value: f32| Wide::splat(machine, value);
    let greater = |top: f32, x: f32| if x > top { x } else { top };
    let top = scores.most.array().into_iter().fold(scores.own, greater);
    let mut sums = all(0.0);
    for values in row.iter_mut() {
        let e = exp(machine, Wide::new(machine, *values) - all(top));
        *values = e.array();
        sums += e;
    }
    let below = sums.fold();
    let [own, ..] = exp(machine, all(scores.own - top)).array();
    let total = own + below;
    let r = scores.scaled / total;
    for values in row.iter_mut() {
        *values = (Wide::new(machine, *values) * all(r)).array();
    }
    (-(r * below), top + 0.0, total)
}

/// The same for a loss of single scores.
#[inline(always)]
fn single<M: Machine>(
    machine: M,
    loss: SharedLoss,
    scores: Scores<M>,
    row: &mut [Eight],
) -> (f32, f32, f32) {
    let all = |value: f32| Wide::splat(machine, value);
    let (r, zero, mut sums) = (all(scores.scaled * loss.weight), all(0.0), all(0.0));
    for values in row.iter_mut() {
        let a = Wide::new(machine, *values);
        if loss.form == SharedForm::CosineContrastive {
            let excess = a - all(loss.threshold);
            *values = zero.if_less(excess, r, zero).array();
            sums += zero.if_less(excess, excess, zero);
        } else {
            let p = logistic(machine, a);
            *values = (r * p).array();
            sums += p;
        }
    }
    let slope = if loss.form == SharedForm::Logistic {
        let [p, ..] = logistic(machine, all(-scores.own)).array();
        -(scores.scaled * p)
    } else {
        -scores.scaled
    };
    (slope, 0.0, sums.fold())
}

/// The gradients of some negatives, to which a strip of lists is added.
struct Addition<'a, 'o> {
    /// Of a strip, by rows of so many registers.
    slopes: &'a [Eight],
    padded: usize,
    queries: &'a [f32],
    width: usize,
    /// The first negative's register.
    first: usize,
    gradients: &'o mut [Eight],
    columns: &'o mut [Eight],
}

impl Job for Addition<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let registers = self.width / WIDE;
        let left = Left {
            data: &self.slopes.as_flattened()[self.first * WIDE..],
            row: 1,
            term: self.padded * WIDE,
        };
        let out = Out {
            data: self.gradients,
            step: registers,
            add: true,
        };
        let rows = self.queries.len() / self.width;
        let right = (self.queries.as_chunks().0, registers);
        let sizes = [self.columns.len() * WIDE, registers, rows];
        product(machine, left, right, out, sizes);
        for row in self.slopes.chunks_exact(self.padded).take(rows) {
            for (sum, slopes) in self.columns.iter_mut().zip(&row[self.first..]) {
                *sum = (Wide::new(machine, *sum) + Wide::new(machine, *slopes)).array();
            }
        }
    }
}

impl<'o> SharedGradients<'o> {
    /// Cut off the results of the first lists; those of negatives stay empty.
    fn cut(&mut self, lists: usize, width: usize) -> SharedGradients<'o> {
        SharedGradients {
            queries: self
                .queries
                .split_off_mut(..lists * width)
                .unwrap_or_default(),
            positives: self
                .positives
                .split_off_mut(..lists * width)
                .unwrap_or_default(),
            negatives: &mut [],
            positive_slopes: self
                .positive_slopes
                .split_off_mut(..lists)
                .unwrap_or_default(),
            negative_slopes: &mut [],
            scores: self.scores.split_off_mut(..lists).unwrap_or_default(),
            tops: self.tops.split_off_mut(..lists).unwrap_or_default(),
            totals: self.totals.split_off_mut(..lists).unwrap_or_default(),
        }
    }
}

/// What the strips of lists have in common.
struct Strips<'a> {
    lists: SharedLists<'a>,
    loss: SharedLoss,
    width: usize,
    negatives: Negatives,
    /// Of a strip.
    slopes: Vec<Eight>,
    /// Of the negatives, padded.
    gradients: Vec<Eight>,
    columns: Vec<Eight>,
}

impl Strips<'_> {
    /// Scores, slopes and gradients of the lists of a strip.
    fn take_lists(
        &mut self,
        first: usize,
        rows: usize,
        out: &mut SharedGradients<'_>,
        team: &ThreadTeam,
    ) {
        let (padded, width) = (self.negatives.registers(), self.width);
        let size = rows.div_ceil(TALL).div_ceil(team.threads()) * TALL;
        let parts = self.slopes[..rows * padded].chunks_mut(size * padded);
        let mut pieces: Vec<_> = parts
            .enumerate()
            .map(|(part, slopes)| {
                let count = slopes.len() / padded;
                Some(Piece {
                    lists: self.lists,
                    loss: self.loss,
                    negatives: &self.negatives,
                    width,
                    first: first + part * size,
                    slopes,
                    out: out.cut(count, width),
                })
            })
            .collect();
        team.for_each(&mut pieces, |piece| {
            if let Some(piece) = piece.take() {
                dispatch(piece);
            }
        });
    }

    /// Add a strip to the gradients of the negatives.
    fn take_negatives(&mut self, first: usize, rows: usize, team: &ThreadTeam) {
        let (padded, width) = (self.negatives.registers(), self.width);
        // Registers of negatives that a thread owns, whole panels.
        let share = 2 * (padded / 2).div_ceil(team.threads());
        let columns = self.columns.chunks_mut(share);
        let mut additions: Vec<_> = self
            .gradients
            .chunks_mut(share * width)
            .zip(columns)
            .enumerate()
            .map(|(part, (gradients, columns))| {
                Some(Addition {
                    slopes: &self.slopes,
                    padded,
                    queries: &self.lists.queries[first * width..(first + rows) * width],
                    width,
                    first: part * share,
                    gradients,
                    columns,
                })
            })
            .collect();
        team.for_each(&mut additions, |addition| {
            if let Some(addition) = addition.take() {
                dispatch(addition);
            }
        });
    }
}

/// Fill the gradients of all embeddings.
pub fn shared_lists(
    lists: SharedLists<'_>,
    loss: SharedLoss,
    width: usize,
    mut out: SharedGradients<'_>,
    team: &ThreadTeam,
) {
    let n_lists = out.scores.len();
    let negatives = Negatives::new(&lists, width);
    let padded = negatives.registers();
    let strip = (STRIP / (padded * WIDE) / TALL * TALL).max(TALL * team.threads());
    let strip = strip.min(n_lists);
    let mut strips = Strips {
        lists,
        loss,
        width,
        negatives,
        slopes: filled(strip * padded, Eight::default()),
        gradients: filled(padded * width, Eight::default()),
        columns: filled(padded, Eight::default()),
    };
    let negative_gradients = std::mem::take(&mut out.negatives);
    let negative_slopes = std::mem::take(&mut out.negative_slopes);
    team.enter_awake(|| {
        for first in (0..n_lists).step_by(strip.max(1)) {
            let rows = strip.min(n_lists - first);
            strips.take_lists(first, rows, &mut out, team);
            strips.take_negatives(first, rows, team);
        }
    });
    let used = negative_gradients.len();
    negative_gradients.copy_from_slice(&strips.gradients.as_flattened()[..used]);
    let used = negative_slopes.len();
    negative_slopes.copy_from_slice(&strips.columns.as_flattened()[..used]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;

    #[test]
    fn exp_is_accurate() {
        for step in 0..8700_u16 {
            let x = -f32::from(step) * 0.01;
            let [e, ..] = exp(Portable, Wide::splat(Portable, x)).array();
            let error = (f64::from(e) / f64::from(x).exp() - 1.0).abs();
            assert!(error < 2e-7, "exp({x}) is off by {error:e}");
        }
        let lowest = [f32::NEG_INFINITY, -88.0];
        for x in lowest {
            assert_eq!(exp(Portable, Wide::splat(Portable, x)).array(), [0.0; WIDE]);
        }
    }
}
