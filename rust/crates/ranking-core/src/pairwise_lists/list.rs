//! One list at a time, with memory for its rows.

use std::ops::Range;

use crate::constants::LANES;
use crate::domination::ListLayout;

/// A row: its margin less that of the list's first row, its weight and its number in the list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) m: f64,
    pub(super) w: f64,
    pub(super) at: usize,
}

/// The rows of one list.
#[derive(Debug, Default)]
pub(super) struct List {
    /// By number, until they are sorted.
    pub(super) rows: Vec<Row>,
    /// Where each layer starts, and where the last one ends.
    layers: Vec<usize>,
    layer_of: Vec<usize>,
    /// The sorted rows of one layer, and those of all lower ones.
    pub(super) tops: Vec<Row>,
    pub(super) below: Vec<Row>,
    /// The margins below a layer, padded with -infinity, and what their slopes are pulled by.
    pub(super) low: Vec<f64>,
    pub(super) pull: Vec<f64>,
}

impl List {
    /// Take the rows of list `q`; `margins` are those of all rows.
    pub(super) fn load(&mut self, lists: &ListLayout<'_>, q: usize, margins: &[f64]) {
        let rows = lists.rows_of(q..q + 1);
        let (first, omega) = (margins[rows.start], &lists.omega[rows.clone()]);
        self.rows.clear();
        let each = margins[rows.clone()].iter().zip(omega).enumerate();
        self.rows.extend(each.map(|(at, (&m, &w))| Row {
            m: m - first,
            w,
            at,
        }));
        self.layers.clear();
        self.layers.push(0);
        self.layer_of.clear();
        for (number, layer) in lists.layers(q).enumerate() {
            let end = lists.rows(layer).end - rows.start;
            self.layers.push(end);
            self.layer_of.resize(end, number);
        }
    }

    /// The rows of each layer but the lowest, by number; all rows before them are below.
    pub(super) fn groups(&self) -> impl Iterator<Item = Range<usize>> + use<> {
        let layers = self.layers.clone();
        (1..layers.len() - 1).map(move |k| layers[k]..layers[k + 1])
    }

    /// The number of layers.
    pub(super) fn depth(&self) -> usize {
        self.layers.len() - 1
    }

    /// Sort the rows by margin; equal ones keep their order.
    pub(super) fn sort(&mut self) {
        // Adding 0.0 makes -0.0 equal to 0.0.
        self.rows
            .sort_by(|a, b| (a.m + 0.0).total_cmp(&(b.m + 0.0)));
    }

    /// Separate the sorted rows of layer `k` and those below it.
    pub(super) fn separate(&mut self, k: usize) {
        self.tops.clear();
        self.below.clear();
        for row in &self.rows {
            let layer = self.layer_of[row.at];
            if layer == k {
                self.tops.push(*row);
            } else if layer < k {
                self.below.push(*row);
            }
        }
    }

    /// Copy the first `n` margins, for rows that are not sorted.
    pub(super) fn load_low(&mut self, n: usize) {
        self.low.clear();
        self.low.extend(self.rows[..n].iter().map(|row| row.m));
        self.low
            .resize(n.next_multiple_of(LANES), f64::NEG_INFINITY);
        self.pull.clear();
        self.pull.resize(self.low.len(), 0.0);
    }
}
