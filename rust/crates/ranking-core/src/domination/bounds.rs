//! Bounds on the curvature along each feature.

use super::layout::ListLayout;
use super::sparse::{Places, Runs};
use super::{extremes, larger, smaller, sum};
use crate::dispatch::{Job, dispatch};
use crate::matrix::{Feature, Index, Matrix};
use crate::simd::Machine;
use crate::threads::ThreadTeam;

/// Popoviciu's bound, the paper's, the range and the peak of one feature.
#[derive(Clone, Copy, Default)]
struct Bounds {
    popoviciu: f64,
    paper: f64,
    reach: f64,
    peak: f64,
}

impl Bounds {
    /// Take in a list whose values lie in low..=high.
    #[inline(always)]
    fn widen(&mut self, low: f64, high: f64) {
        self.reach = larger(self.reach, high - low);
        self.peak = larger(larger(self.peak, low.abs()), high.abs());
    }
}

/// Put the features' bounds into the four rows of `out`.
fn store(bounds: impl ExactSizeIterator<Item = Bounds>, out: &mut [f64]) {
    let n = bounds.len();
    for (r, bounds) in bounds.enumerate() {
        out[r] = bounds.popoviciu * 0.25;
        out[n + r] = bounds.paper;
        out[2 * n + r] = bounds.reach;
        out[3 * n + r] = bounds.peak;
    }
}

struct Column<'a, F> {
    x: &'a [F],
    lists: &'a ListLayout<'a>,
}

impl<F: Feature> Job for Column<'_, F> {
    type Output = Bounds;
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) -> Bounds {
        let Self { x, lists } = self;
        let mut bounds = Bounds::default();
        let mut ranges = Vec::new();
        for q in 0..lists.len() {
            let layers = lists.layers(q);
            ranges.clear();
            ranges.extend(
                layers
                    .clone()
                    .map(|layer| extremes(machine, &x[lists.rows(layer)])),
            );
            // Squares and their rounding are monotone, so the ends hold the largest square.
            let squares = ranges.iter().map(|(a, b)| larger(a * a, b * b));
            let square = squares.reduce(larger).unwrap_or(0.0);
            let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
            for (layer, (layer_low, layer_high)) in layers.clone().zip(&ranges) {
                let rows = lists.rows(layer);
                if layer > layers.start {
                    for (x, w) in x[rows.clone()].iter().zip(&lists.omega[rows]) {
                        let width = larger(high, x.widen()) - smaller(low, x.widen());
                        bounds.popoviciu += w * (width * width);
                        bounds.paper += w * square;
                    }
                }
                low = smaller(low, *layer_low);
                high = larger(high, *layer_high);
            }
            bounds.widen(low, high);
        }
        bounds
    }
}

/// Bounds along one sparse column; absent entries are zeros.
fn sparse_column<I: Index, F: Feature>(
    lists: &ListLayout<'_>,
    layer_omega: &[f64],
    runs: Runs<'_, I, F>,
) -> Bounds {
    let omega = lists.omega;
    let mut bounds = Bounds::default();
    for run in runs {
        let layers = lists.layers(run.q);
        let mut entries = run.entries();
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut square, mut weight) = (0.0, 0.0);
        for layer in layers.clone() {
            let rows = lists.rows(layer);
            let mut rest = layer_omega[layer];
            let mut present = 0;
            let (mut layer_low, mut layer_high) = (low, high);
            while let Some((row, x)) = entries.next_if(|(row, _)| *row < rows.end) {
                if layer > layers.start {
                    let width = larger(high, x) - smaller(low, x);
                    bounds.popoviciu += omega[row] * (width * width);
                    rest -= omega[row];
                }
                present += 1;
                layer_low = smaller(layer_low, x);
                layer_high = larger(layer_high, x);
                square = larger(square, x * x);
            }
            let zeros = present < rows.len();
            if layer > layers.start {
                weight += layer_omega[layer];
                if zeros && rest > 0.0 {
                    let width = larger(high, 0.0) - smaller(low, 0.0);
                    bounds.popoviciu += rest * (width * width);
                }
            }
            (low, high) = (layer_low, layer_high);
            if zeros {
                low = smaller(low, 0.0);
                high = larger(high, 0.0);
            }
        }
        bounds.paper += weight * square;
        bounds.widen(low, high);
    }
    bounds
}

/// Fill the four rows of `out` with bounds along each feature: Popoviciu's, the paper's, range and
/// peak.
pub fn bounds<I: Index, F: Feature>(
    features: Matrix<'_, I, F>,
    lists: &ListLayout<'_>,
    out: &mut [f64],
    team: &ThreadTeam,
) {
    let mut columns: Vec<_> = (0..out.len() / 4).map(|r| (r, Bounds::default())).collect();
    match features {
        Matrix::Dense(x) => team.run(columns.iter_mut(), |(r, bounds)| {
            let x = x.line(*r);
            *bounds = dispatch(Column { x, lists });
        }),
        Matrix::Sparse(x) => {
            let places = Places::new(lists);
            let layer_omega: Vec<_> = (0..lists.n_layers())
                .map(|layer| sum(&lists.omega[lists.rows(layer)]))
                .collect();
            team.run(columns.iter_mut(), |(r, bounds)| {
                let runs = Runs::new(&places, lists, x.line(*r));
                *bounds = sparse_column(lists, &layer_omega, runs);
            });
        }
    }
    store(columns.iter().map(|(_, bounds)| *bounds), out);
}
