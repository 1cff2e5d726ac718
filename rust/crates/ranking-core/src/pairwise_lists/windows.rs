//! Slopes of the losses that are quadratic between two gaps, by sorting and counting.

use super::Window;
use super::list::List;

/// Sums over the rows below that are beyond a gap: their number, margins and squares.
#[derive(Clone, Copy, Default)]
struct Sums {
    n: f64,
    first: f64,
    second: f64,
}

impl Sums {
    fn add(&mut self, weight: f64, value: f64) {
        self.n += weight;
        self.first += weight * value;
    }
}

/// The slopes of one layer, highest row first; return its loss.
fn top_slopes(list: &List, window: Window, out: &mut [f64]) -> f64 {
    let Window { lower, upper, bend } = window;
    let (mut value, half) = (0.0, 0.5 * bend);
    let (mut near, mut far) = (Sums::default(), Sums::default());
    let mut gaps = list.below.iter().rev().peekable();
    let mut far_gaps = gaps.clone();
    for top in list.tops.iter().rev() {
        let u = 1.0 - top.m;
        for (sums, gaps, limit) in [
            (&mut near, &mut gaps, lower),
            (&mut far, &mut far_gaps, upper),
        ] {
            while let Some(row) = gaps.next_if(|row| u + row.m > limit) {
                sums.n += 1.0;
                sums.first += row.m;
                sums.second += row.m * row.m;
            }
        }
        let (c, t1) = (near.n - far.n, near.first - far.first);
        let t2 = near.second - far.second;
        let mut v = half * (((c * u) * u + (2.0 * u) * t1) + t2);
        if far.n > 0.0 {
            v += far.n * (u - 0.5 * upper) + far.first;
        }
        value += top.w * v;
        out[top.at] -= top.w * (bend * (c * u + t1) + far.n);
    }
    value
}

/// The slopes of the rows below, lowest first.
fn bottom_slopes(list: &List, window: Window, out: &mut [f64]) {
    let Window { lower, upper, bend } = window;
    let (mut near, mut far) = (Sums::default(), Sums::default());
    let mut gaps = list.tops.iter().peekable();
    let mut far_gaps = gaps.clone();
    for row in &list.below {
        while let Some(top) = gaps.next_if(|top| (1.0 - top.m) + row.m > lower) {
            near.add(top.w, 1.0 - top.m);
        }
        while let Some(top) = far_gaps.next_if(|top| (1.0 - top.m) + row.m > upper) {
            far.add(top.w, 1.0 - top.m);
        }
        let pull = bend * ((near.n - far.n) * row.m + (near.first - far.first));
        out[row.at] += pull + far.n;
    }
}

/// Add the slopes of a list to `out`; return its loss.
pub(super) fn window_slopes(list: &mut List, window: Window, out: &mut [f64]) -> f64 {
    let mut value = 0.0;
    list.sort();
    for k in 1..list.depth() {
        list.separate(k);
        value += top_slopes(list, window, out);
        bottom_slopes(list, window, out);
    }
    value
}
