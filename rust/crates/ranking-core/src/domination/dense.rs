//! Slopes and steps over dense features.
//!
//! A step changes every margin. This move is not a pass of its own: it is made in the pass of the
//! next column, list by list, while the list is in the cache.

use std::ops::Range;

use super::layout::ListLayout;
use super::step::CoordinateDescent;
use super::wide_range::wide_range_slopes;
use super::{Pair, exponentials, extremes, moments};
use crate::constants::{LANES, SPREAD};
use crate::dispatch::{Job, dispatch};
use crate::error::filled;
use crate::exp::{CORE_LIMIT, Core, Exp, Full, SHORT_LIMIT, Short};
use crate::matrix::{Dense, Feature};
use crate::simd::{Lanes, Machine, Portable};
use crate::threads::ThreadTeam;

/// A step whose change of the margins, delta * x, is still to be made.
#[derive(Clone, Copy)]
struct Move<'a, F> {
    x: &'a [F],
    delta: f64,
    /// The largest change of a margin.
    longest: f64,
}

/// A block of lists with the data of its rows; disjoint from all other blocks.
struct Block<'a> {
    lists: &'a ListLayout<'a>,
    range: Range<usize>,
    first_row: usize,
    margins: &'a mut [f64],
    /// exp(margin - the list's largest margin), updated by every move since.
    e: &'a mut [f64],
    is_wide: &'a mut [bool],
    slopes: Pair,
}

/// The blocks of all lists, and how their passes are made.
struct Blocks<'a> {
    blocks: Vec<Block<'a>>,
    team: &'a ThreadTeam,
}

impl Blocks<'_> {
    /// Prepare the blocks, and do some work with them within the team.
    fn with(
        lists: &ListLayout<'_>,
        mut margins: &mut [f64],
        team: &ThreadTeam,
        work: impl FnOnce(Blocks<'_>) + Send,
    ) {
        let (mut e, mut is_wide) = (filled(margins.len(), 0.0), filled(lists.len(), false));
        let (mut e, mut is_wide) = (&mut e[..], &mut is_wide[..]);
        let blocks = lists.blocks().map(|range| {
            let rows = lists.rows_of(range.clone());
            Block {
                lists,
                first_row: rows.start,
                margins: margins.split_off_mut(..rows.len()).unwrap_or_default(),
                e: e.split_off_mut(..rows.len()).unwrap_or_default(),
                is_wide: is_wide.split_off_mut(..range.len()).unwrap_or_default(),
                slopes: (0.0, 0.0),
                range,
            }
        });
        let mut blocks = Blocks {
            blocks: blocks.collect(),
            team,
        };
        team.enter(|| {
            blocks.prepare();
            work(blocks);
        });
    }

    /// Compute exponentials from the margins.
    fn prepare(&mut self) {
        self.team
            .for_each(&mut self.blocks, |block| dispatch(Prepare(block)));
    }

    /// Make a pending move in the margins, leaving exponentials stale.
    fn move_margins<F: Feature>(&mut self, pending: Option<Move<'_, F>>) {
        if let Some(pending) = pending {
            self.team.for_each(&mut self.blocks, |block| {
                dispatch(MoveMargins { block, pending });
            });
        }
    }

    /// Gradient and curvature along a feature, after a pending move along another: sums of the
    /// blocks, in order.
    fn slopes<F: Feature>(&mut self, x: &[F], pending: Option<Move<'_, F>>) -> Pair {
        self.team.for_each(&mut self.blocks, |block| {
            dispatch(Pass { block, x, pending });
        });
        self.blocks.iter().fold((0.0, 0.0), |(g, h), block| {
            (g + block.slopes.0, h + block.slopes.1)
        })
    }
}

/// Compute a block's exponentials from its margins, and which lists are wide-range.
struct Prepare<'p, 'b>(&'p mut Block<'b>);

impl Job for Prepare<'_, '_> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Block {
            lists,
            range,
            first_row,
            margins,
            e,
            is_wide,
            ..
        } = self.0;
        for (q, is_wide) in range.clone().zip(is_wide.iter_mut()) {
            let real = |layer| {
                let rows = lists.rows(layer);
                rows.start - *first_row..rows.end - *first_row
            };
            let layers = lists.layers(q);
            let (mut low, mut top) = (f64::INFINITY, f64::NEG_INFINITY);
            for layer in layers.clone() {
                let here = extremes(machine, &margins[real(layer)]);
                (low, _) = extremes(Portable, &[low, here.0]);
                (_, top) = extremes(Portable, &[top, here.1]);
            }
            *is_wide = top - low > SPREAD;
            if *is_wide {
                continue;
            }
            for layer in layers {
                let rows = real(layer);
                exponentials(machine, &margins[rows.clone()], top, &mut e[rows]);
            }
        }
    }
}

/// Make a pending move in a block's margins, leaving its exponentials stale.
struct MoveMargins<'p, 'b, F> {
    block: &'p mut Block<'b>,
    pending: Move<'p, F>,
}

impl<F: Feature> Job for MoveMargins<'_, '_, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, _: M) {
        let Move { x, delta, .. } = self.pending;
        let x = &x[self.block.first_row..][..self.block.margins.len()];
        move_margins(self.block.margins, x, delta);
    }
}

#[inline(always)]
fn move_margins<F: Feature>(margins: &mut [f64], x: &[F], delta: f64) {
    for (m, x) in margins.iter_mut().zip(x) {
        *m += delta * x.widen();
    }
}

/// Make a move in the margins and exponentials of one list.
#[inline(always)]
fn move_list<E: Exp, M: Machine, F: Feature>(
    machine: M,
    margins: &mut [f64],
    e: &mut [f64],
    x: &[F],
    delta: f64,
) {
    let margins = margins.as_chunks_mut::<LANES>().0;
    let e = e.as_chunks_mut::<LANES>().0;
    let x = x.as_chunks::<LANES>().0;
    for ((m, e), x) in margins.iter_mut().zip(e).zip(x) {
        let t = Lanes::splat(machine, delta) * Lanes::widen(machine, *x);
        *m = (Lanes::new(machine, *m) + t).array();
        *e = (Lanes::new(machine, *e) * E::exp(t)).array();
    }
}

/// Sums over a layer of e, e x and e x x.
struct Sums<M: Machine> {
    z: Lanes<M>,
    m: Lanes<M>,
    n: Lanes<M>,
}

impl<M: Machine> Sums<M> {
    #[inline(always)]
    fn new(machine: M) -> Self {
        let zero = Lanes::splat(machine, 0.0);
        Self {
            z: zero,
            m: zero,
            n: zero,
        }
    }

    #[inline(always)]
    fn add(&mut self, e: Lanes<M>, x: Lanes<M>) {
        let u = e * x;
        self.z += e;
        self.m += u;
        self.n += u * x;
    }
}

/// The rows below a layer: sum of their exponentials, mean and variance of the feature.
struct Below<M: Machine> {
    z: Lanes<M>,
    mean: Lanes<M>,
    variance: Lanes<M>,
}

impl<M: Machine> Below<M> {
    #[inline(always)]
    fn new(machine: M, z: f64, m: f64, n: f64) -> Self {
        let (mean, variance) = moments(z, m, n);
        Self {
            z: Lanes::splat(machine, z),
            mean: Lanes::splat(machine, mean),
            variance: Lanes::splat(machine, variance),
        }
    }
}

/// Slopes of a list, in lanes; the gradient with opposite sign.
struct Slopes<M: Machine> {
    g: Lanes<M>,
    h: Lanes<M>,
}

impl<M: Machine> Slopes<M> {
    #[inline(always)]
    fn new(machine: M) -> Self {
        let zero = Lanes::splat(machine, 0.0);
        Self { g: zero, h: zero }
    }

    #[inline(always)]
    fn add(&mut self, below: &Below<M>, e: Lanes<M>, x: Lanes<M>, omega: Lanes<M>) {
        let p = below.z / (below.z + e);
        let d = x - below.mean;
        let s = omega * p;
        self.g += s * d;
        self.h += s * (below.variance + (p.all(1.0) - p) * (d * d));
    }
}

/// Gradient and curvature of ordinary list `q`; `e` and `x` hold the rows from `first` on.
#[inline(always)]
fn list_slopes<M: Machine, F: Feature>(
    machine: M,
    lists: &ListLayout<'_>,
    q: usize,
    first: usize,
    e: &[f64],
    x: &[F],
) -> Pair {
    let layers = lists.layers(q);
    let mut slopes = Slopes::new(machine);
    let (mut z, mut m, mut n) = (0.0, 0.0, 0.0);
    for layer in layers.clone() {
        let rows = lists.padded_rows(layer);
        let here = rows.start - first..rows.end - first;
        let e = e[here.clone()].as_chunks::<LANES>().0.iter();
        let x = x[here].as_chunks::<LANES>().0.iter();
        let omega = lists.omega[rows].as_chunks::<LANES>().0.iter();
        let mut sums = Sums::new(machine);
        // The bottom layer dominates nothing, and the top layer is below nothing; a layer between
        // them is read once for both.
        if layer == layers.start {
            for (e, x) in e.zip(x) {
                sums.add(Lanes::new(machine, *e), Lanes::widen(machine, *x));
            }
        } else if layer + 1 == layers.end {
            let below = Below::new(machine, z, m, n);
            for ((e, x), w) in e.zip(x).zip(omega) {
                slopes.add(
                    &below,
                    Lanes::new(machine, *e),
                    Lanes::widen(machine, *x),
                    Lanes::new(machine, *w),
                );
            }
        } else {
            let below = Below::new(machine, z, m, n);
            for ((e, x), w) in e.zip(x).zip(omega) {
                let (e, x) = (Lanes::new(machine, *e), Lanes::widen(machine, *x));
                slopes.add(&below, e, x, Lanes::new(machine, *w));
                sums.add(e, x);
            }
        }
        z += sums.z.fold();
        m += sums.m.fold();
        n += sums.n.fold();
    }
    (-slopes.g.fold(), slopes.h.fold())
}

/// The slopes of a block along a feature, after a pending move along another.
struct Pass<'p, 'b, F> {
    block: &'p mut Block<'b>,
    x: &'p [F],
    pending: Option<Move<'p, F>>,
}

impl<F: Feature> Job for Pass<'_, '_, F> {
    type Output = ();
    #[inline(always)]
    fn run<M: Machine>(self, machine: M) {
        let Block {
            lists,
            range,
            first_row,
            margins,
            e,
            is_wide,
            slopes,
        } = self.block;
        let (mut g, mut h) = (0.0, 0.0);
        for (q, is_wide) in range.clone().zip(is_wide.iter()) {
            let rows = lists.rows_of(q..q + 1);
            let here = rows.start - *first_row..rows.end - *first_row;
            let (margins, e) = (&mut margins[here.clone()], &mut e[here]);
            let x = &self.x[rows.clone()];
            if let Some(Move { x, delta, longest }) = self.pending {
                let x = &x[rows.clone()];
                if *is_wide {
                    move_margins(margins, x, delta);
                } else if longest <= SHORT_LIMIT {
                    move_list::<Short, _, _>(machine, margins, e, x, delta);
                } else if longest <= CORE_LIMIT {
                    move_list::<Core, _, _>(machine, margins, e, x, delta);
                } else {
                    move_list::<Full, _, _>(machine, margins, e, x, delta);
                }
            }
            let (list_g, list_h) = if *is_wide {
                wide_range_slopes(machine, lists, q, rows.start, margins, x)
            } else {
                list_slopes(machine, lists, q, rows.start, e, x)
            };
            g += list_g;
            h += list_h;
        }
        *slopes = (g, h);
    }
}

/// Take one step along each column of the descent, in order.
pub(super) fn sweep<F: Feature>(
    x: Dense<'_, F>,
    lists: &ListLayout<'_>,
    margins: &mut [f64],
    mut descent: CoordinateDescent<'_>,
    team: &ThreadTeam,
) {
    Blocks::with(lists, margins, team, |mut blocks| {
        let mut pending: Option<Move<'_, F>> = None;
        let mut drift = 0.0;
        for column in descent.columns() {
            let along = x.line(column);
            let (g, h) = blocks.slopes(along, pending);
            let delta = descent.step(column, g, h);
            let longest = delta.abs() * descent.peak(column);
            pending = (delta != 0.0).then_some(Move {
                x: along,
                delta,
                longest,
            });
            drift += longest;
            if drift > SPREAD {
                // The margins have drifted too much: compute the exponentials again.
                blocks.move_margins(pending.take());
                blocks.prepare();
                drift = 0.0;
            }
        }
        blocks.move_margins(pending);
    });
}
