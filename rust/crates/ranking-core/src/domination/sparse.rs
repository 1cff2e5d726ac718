//! Slopes and steps over sparse features, in time proportional to a column's entries.
//!
//! All sums run in the order of the rows, from 0.0.

use std::iter::Peekable;
use std::ops::Range;

use super::layout::ListLayout;
use super::step::CoordinateDescent;
use super::wide_range::wide_range_slopes;
use super::{Pair, exponentials, extremes, moments, sum};
use crate::constants::{LANES, RESUM, SPREAD};
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::exp;
use crate::matrix::{Compressed, Feature, Index};
use crate::simd::{Lanes, Machine};

/// The list of each row, and the layer.
pub(super) struct Places {
    layer_of: Vec<usize>,
    list_of: Vec<usize>,
}

impl Places {
    pub(super) fn new(lists: &ListLayout<'_>) -> Self {
        let layer_of = (0..lists.n_layers())
            .flat_map(|layer| lists.rows(layer).map(move |_| layer))
            .collect();
        let list_of = (0..lists.len())
            .flat_map(|q| lists.layers(q).map(move |_| q))
            .collect();
        Self { layer_of, list_of }
    }
}

/// A column's entries in one list.
#[derive(Clone, Copy)]
pub(super) struct Run<'a, I, F> {
    pub(super) q: usize,
    /// The layer of the first entry.
    pub(super) touched: usize,
    indices: &'a [I],
    data: &'a [F],
}

impl<'a, I: Index, F: Feature> Run<'a, I, F> {
    /// The entries as (row, value).
    #[inline(always)]
    pub(super) fn entries(&self) -> Peekable<impl Iterator<Item = (usize, f64)> + use<'a, I, F>> {
        let rows = self.indices.iter().map(|i| i.position());
        rows.zip(self.data.iter().map(|x| x.widen())).peekable()
    }
}

/// The lists that a column touches, each with the column's entries in it.
pub(super) struct Runs<'a, I, F> {
    places: &'a Places,
    lists: &'a ListLayout<'a>,
    indices: &'a [I],
    data: &'a [F],
}

impl<'a, I: Index, F: Feature> Runs<'a, I, F> {
    pub(super) fn new(
        places: &'a Places,
        lists: &'a ListLayout<'a>,
        (indices, data): (&'a [I], &'a [F]),
    ) -> Self {
        Self {
            places,
            lists,
            indices,
            data,
        }
    }
}

impl<'a, I: Index, F: Feature> Iterator for Runs<'a, I, F> {
    type Item = Run<'a, I, F>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        let touched = self.places.layer_of[self.indices.first()?.position()];
        let q = self.places.list_of[touched];
        let rows = self.lists.rows_of(q..q + 1);
        let outside = |i: &I| !rows.contains(&i.position());
        let length = self.indices.iter().position(outside);
        let length = length.unwrap_or(self.indices.len());
        let (indices, later_indices) = self.indices.split_at(length);
        let (data, later_data) = self.data.split_at(length);
        (self.indices, self.data) = (later_indices, later_data);
        Some(Run {
            q,
            touched,
            indices,
            data,
        })
    }
}

/// Margins, exponentials and the sums over layers that a column does not touch.
struct State<'a, M, I, F> {
    machine: M,
    x: Compressed<'a, I, F>,
    lists: &'a ListLayout<'a>,
    places: &'a Places,
    margins: &'a mut [f64],
    e: Vec<f64>,
    /// By list: whether it is wide-range, and how much its margins may have drifted.
    is_wide: Vec<bool>,
    drift: Vec<f64>,
    /// By layer: the sum of its exponentials, and that of all lower layers.
    total: Vec<f64>,
    below: Vec<f64>,
    /// By layer: sums over its rows of omega p and of omega p**2.
    p1: Vec<f64>,
    p2: Vec<f64>,
    /// The column in a wide-range list, zeros included.
    scratch: Vec<f64>,
}

impl<'a, M: Machine, I: Index, F: Feature> State<'a, M, I, F> {
    #[inline(always)]
    fn new(
        machine: M,
        x: Compressed<'a, I, F>,
        lists: &'a ListLayout<'a>,
        places: &'a Places,
        margins: &'a mut [f64],
    ) -> Self {
        let (rows, layers) = (margins.len(), lists.n_layers());
        let mut state = Self {
            machine,
            x,
            lists,
            places,
            margins,
            e: filled(rows, 0.0),
            is_wide: filled(lists.len(), false),
            drift: filled(lists.len(), 0.0),
            total: filled(layers, 0.0),
            below: filled(layers, 0.0),
            p1: filled(layers, 0.0),
            p2: filled(layers, 0.0),
            scratch: Vec::new(),
        };
        for q in 0..lists.len() {
            state.prepare(q);
        }
        state
    }

    fn runs(&self, column: usize) -> Runs<'a, I, F> {
        Runs::new(self.places, self.lists, self.x.line(column))
    }

    /// Compute the exponentials and sums of list `q` from its margins.
    #[inline(always)]
    fn prepare(&mut self, q: usize) {
        let rows = self.lists.rows_of(q..q + 1);
        let margins = &self.margins[rows.clone()];
        let (low, top) = extremes(self.machine, margins);
        self.is_wide[q] = top - low > SPREAD;
        self.drift[q] = 0.0;
        if self.is_wide[q] {
            return;
        }
        exponentials(self.machine, margins, top, &mut self.e[rows]);
        let layers = self.lists.layers(q);
        for layer in layers.clone() {
            self.total[layer] = sum(&self.e[self.lists.rows(layer)]);
        }
        self.refresh(layers.clone(), layers.start);
    }

    /// Update the sums of a list; layers below `touched` have not changed.
    #[inline(always)]
    fn refresh(&mut self, layers: Range<usize>, touched: usize) {
        // What lies below the touched layer has not changed either.
        let mut z = if touched == layers.start {
            0.0
        } else {
            self.below[touched]
        };
        for layer in touched..layers.end {
            self.below[layer] = z;
            if layer > layers.start {
                let rows = self.lists.rows(layer);
                let (omega, e) = (&self.lists.omega[rows.clone()], &self.e[rows]);
                (self.p1[layer], self.p2[layer]) = losing(self.machine, z, e, omega);
            }
            z += self.total[layer];
        }
    }

    /// Gradient and curvature of a list along a column's entries in it.
    #[inline(always)]
    fn list_slopes(&mut self, run: &Run<'_, I, F>) -> Pair {
        if self.is_wide[run.q] {
            return self.wide_range_slopes(run);
        }
        let layers = self.lists.layers(run.q);
        let mut entries = run.entries();
        let (mut g, mut h, mut m, mut n) = (0.0, 0.0, 0.0, 0.0);
        // Layers under the first touched one have slopes of zero, and leave all sums at zero.
        for layer in run.touched..layers.end {
            let end = self.lists.rows(layer).end;
            let z = self.below[layer];
            let dominates = layer > layers.start;
            let (mean, variance) = if dominates {
                moments(z, m, n)
            } else {
                (0.0, 0.0)
            };
            let (mut sum_x, mut sum_h) = (0.0, 0.0);
            while let Some((row, x)) = entries.next_if(|(row, _)| *row < end) {
                let e = self.e[row];
                if dominates {
                    let p = z / (z + e);
                    let s = self.lists.omega[row] * p;
                    sum_x += s * x;
                    sum_h += (s * (1.0 - p)) * (x * (x - 2.0 * mean));
                }
                // After the top layer these are not read.
                let u = e * x;
                m += u;
                n += u * x;
            }
            if dominates {
                let (p1, p2) = (self.p1[layer], self.p2[layer]);
                g += p1 * mean - sum_x;
                h += (p1 * variance + (p1 - p2) * (mean * mean)) + sum_h;
            }
        }
        (g, h)
    }

    /// The same for a wide-range list.
    fn wide_range_slopes(&mut self, run: &Run<'_, I, F>) -> Pair {
        let rows = self.lists.rows_of(run.q..run.q + 1);
        self.scratch.clear();
        self.scratch.resize(rows.len(), 0.0);
        for (row, x) in run.entries() {
            self.scratch[row - rows.start] = x;
        }
        let margins = &self.margins[rows.clone()];
        wide_range_slopes(
            self.machine,
            self.lists,
            run.q,
            rows.start,
            margins,
            &self.scratch,
        )
    }

    /// Gradient and curvature along a column: only the lists that it touches have any.
    #[inline(always)]
    fn slopes(&mut self, column: usize) -> Pair {
        let (mut g, mut h) = (0.0, 0.0);
        for run in self.runs(column) {
            let (list_g, list_h) = self.list_slopes(&run);
            g += list_g;
            h += list_h;
        }
        (g, h)
    }

    /// Add delta * x to the margins of the rows that a column touches.
    #[inline(always)]
    fn move_along(&mut self, column: usize, delta: f64, peak: f64) {
        for run in self.runs(column) {
            if self.is_wide[run.q] {
                for (row, x) in run.entries() {
                    self.margins[row] += delta * x;
                }
                continue;
            }
            let mut entries = run.entries();
            while let Some((row, _)) = entries.peek() {
                let layer = self.places.layer_of[*row];
                let rows = self.lists.rows(layer);
                let mut change = 0.0;
                while let Some((row, x)) = entries.next_if(|(row, _)| rows.contains(row)) {
                    let t = delta * x;
                    self.margins[row] += t;
                    let old = self.e[row];
                    let new = old * exp::one(t);
                    self.e[row] = new;
                    change += new - old;
                }
                let before = self.total[layer];
                let after = before + change;
                self.total[layer] = if after < before * RESUM {
                    sum(&self.e[rows])
                } else {
                    after
                };
            }
            self.drift[run.q] += delta.abs() * peak;
            if self.drift[run.q] > SPREAD {
                self.prepare(run.q);
            } else {
                self.refresh(self.lists.layers(run.q), run.touched);
            }
        }
    }
}

/// Sums of omega p and omega p**2 over a layer, p = z / (z + e) the probability that a row loses.
#[inline(always)]
fn losing<M: Machine>(machine: M, z: f64, e: &[f64], omega: &[f64]) -> Pair {
    let (mut p1, mut p2) = (0.0, 0.0);
    let mut add = |w: f64, p: f64| {
        let s = w * p;
        p1 += s;
        p2 += s * p;
    };
    let (e, e_rest) = e.as_chunks::<LANES>();
    let (omega, omega_rest) = omega.as_chunks::<LANES>();
    for (e, w) in e.iter().zip(omega) {
        let z = Lanes::splat(machine, z);
        let p = z / (z + Lanes::new(machine, *e));
        for (w, p) in w.iter().zip(p.array()) {
            add(*w, p);
        }
    }
    for (e, w) in e_rest.iter().zip(omega_rest) {
        add(*w, z / (z + e));
    }
    (p1, p2)
}

/// Take one step along each column of the descent, in order.
pub(super) fn sweep<I: Index, F: Feature>(
    x: Compressed<'_, I, F>,
    lists: &ListLayout<'_>,
    margins: &mut [f64],
    descent: CoordinateDescent<'_>,
) {
    dispatch(Sweep {
        x,
        lists,
        margins,
        descent,
    });
}

struct Sweep<'a, I, F> {
    x: Compressed<'a, I, F>,
    lists: &'a ListLayout<'a>,
    margins: &'a mut [f64],
    descent: CoordinateDescent<'a>,
}

impl<I: Index, F: Feature> Job for Sweep<'_, I, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(mut self, machine: M) {
        let places = &Places::new(self.lists);
        let mut state = State::new(machine, self.x, self.lists, places, self.margins);
        for column in self.descent.columns() {
            let (g, h) = state.slopes(column);
            let delta = self.descent.step(column, g, h);
            if delta != 0.0 {
                state.move_along(column, delta, self.descent.peak(column));
            }
        }
    }
}
