//! The domination loss on a small problem, against its definition.

use ranking_core::domination::{
    CoordinateDescent, ListLayout, Padding, bounds_csc, bounds_dense, slopes_csc, slopes_dense,
    sweep_csc, sweep_dense, value,
};
use ranking_core::{Compressed, Dense, ThreadTeam, rng};

const FEATURES: usize = 4;
const COLUMNS: [i64; FEATURES] = [0, 1, 2, 3];

/// Lists by the sizes of their layers, with random features, weights and margins.
struct Problem {
    list_ptr: Vec<i64>,
    layer_ptr: Vec<i64>,
    layer_size: Vec<i64>,
    block_ptr: Vec<i64>,
    omega: Vec<f64>,
    margins: Vec<f64>,
    /// By column.
    x: Vec<f64>,
    padding: Padding,
}

impl Problem {
    fn new(lists: &[&[usize]], spread: f64, padding: Padding) -> Self {
        let pad = if padding == Padding::Lanes { 4 } else { 1 };
        let mut problem = Self {
            list_ptr: vec![0],
            layer_ptr: vec![0],
            layer_size: Vec::new(),
            block_ptr: vec![0],
            omega: Vec::new(),
            margins: Vec::new(),
            x: Vec::new(),
            padding,
        };
        let mut columns = vec![Vec::new(); FEATURES];
        let mut draws = (0..).map(|k| rng::uniform(rng::draw(11, k)));
        let mut draw = || draws.next().unwrap();
        for (q, layers) in lists.iter().enumerate() {
            for (k, &size) in layers.iter().enumerate() {
                for row in 0..size.next_multiple_of(pad) {
                    let real = row < size;
                    let here = |value: f64| if real { value } else { 0.0 };
                    // The same draws with and without padding.
                    let mut next = || if real { draw() } else { 0.0 };
                    let (omega, margin) = (next(), next());
                    problem.omega.push(if k > 0 { omega } else { 0.0 });
                    problem.margins.push(here(spread * (margin - 0.5)));
                    for column in &mut columns {
                        let x = next();
                        // Some zeros, so that sparse columns have gaps.
                        column.push(here(if x < 0.3 { 0.0 } else { x - 0.5 }));
                    }
                }
                problem.layer_size.push(i64::try_from(size).unwrap());
                problem.layer_ptr.push(length(&problem.omega));
            }
            problem.list_ptr.push(length(&problem.layer_size));
            // Blocks of two lists.
            if q % 2 == 1 || q + 1 == lists.len() {
                problem.block_ptr.push(i64::try_from(q + 1).unwrap());
            }
        }
        problem.x = columns.concat();
        problem
    }

    fn lists(&self) -> ListLayout<'_> {
        ListLayout::new(
            &self.list_ptr,
            &self.layer_ptr,
            &self.layer_size,
            &self.omega,
            self.padding,
        )
        .unwrap()
    }

    fn dense(&self) -> Dense<'_, f64> {
        Dense::new(&self.x, FEATURES, self.omega.len()).unwrap()
    }

    fn column(&self, column: usize) -> &[f64] {
        &self.x[column * self.omega.len()..][..self.omega.len()]
    }

    /// The columns as CSC.
    fn csc(&self) -> (Vec<i32>, Vec<i32>, Vec<f64>) {
        let (mut indptr, mut indices, mut data) = (vec![0], Vec::new(), Vec::new());
        for column in 0..FEATURES {
            for (row, x) in (0..).zip(self.column(column)) {
                if *x != 0.0 {
                    indices.push(row);
                    data.push(*x);
                }
            }
            indptr.push(i32::try_from(data.len()).unwrap());
        }
        (indptr, indices, data)
    }

    fn value(&self, margins: &[f64]) -> f64 {
        value(&self.lists(), &self.block_ptr, margins, &one()).unwrap()
    }

    /// The definition: over all pairs of rows.
    fn naive_value(&self) -> f64 {
        let mut total = 0.0;
        for layers in self.list_ptr.windows(2) {
            let layers: Vec<_> = (at(layers[0])..at(layers[1])).collect();
            let rows = |layer: usize| {
                let first = at(self.layer_ptr[layer]);
                first..first + at(self.layer_size[layer])
            };
            for (k, &layer) in layers.iter().enumerate() {
                for i in rows(layer) {
                    let below = layers[..k].iter().flat_map(|&lower| rows(lower));
                    let sum: f64 = below
                        .map(|j| (self.margins[j] - self.margins[i]).exp())
                        .sum();
                    total += self.omega[i] * sum.ln_1p();
                }
            }
        }
        total
    }

    fn bounds(&self) -> Vec<f64> {
        let mut out = vec![0.0; 4 * FEATURES];
        bounds_dense(self.dense(), &self.lists(), &mut out, &one()).unwrap();
        out
    }
}

fn one() -> ThreadTeam {
    ThreadTeam::new(1).unwrap()
}

fn at(pointer: i64) -> usize {
    usize::try_from(pointer).unwrap()
}

fn length<T>(values: &[T]) -> i64 {
    i64::try_from(values.len()).unwrap()
}

fn assert_close(a: f64, b: f64, tolerance: f64) {
    assert!(
        (a - b).abs() <= tolerance * (1.0 + a.abs()),
        "{a} is not {b}"
    );
}

const LISTS: &[&[usize]] = &[
    &[9, 5, 2],
    &[1, 1],
    &[4, 8, 1, 1, 3],
    &[17, 30],
    &[2, 2, 2, 2, 2, 2, 2, 2],
];

/// The curvature bound, range and peak out of four rows of bounds.
fn three(bounds: &[f64]) -> Vec<f64> {
    let rows: Vec<_> = bounds.chunks(FEATURES).collect();
    [rows[0], rows[2], rows[3]].concat()
}

fn radius_at_start(bounds: &[f64]) -> Vec<f64> {
    let ranges = &bounds[FEATURES..2 * FEATURES];
    ranges.iter().map(|range| 1.0 / range).collect()
}

fn slopes(problem: &Problem, team: &ThreadTeam) -> Vec<f64> {
    let mut out = vec![0.0; 2 * FEATURES];
    slopes_dense(
        problem.dense(),
        &problem.lists(),
        &problem.block_ptr,
        &problem.margins,
        &COLUMNS,
        &mut out,
        team,
    )
    .unwrap();
    out
}

fn sparse_slopes(problem: &Problem) -> Vec<f64> {
    let (indptr, indices, data) = problem.csc();
    let x = Compressed::new(&indptr, &indices, &data, problem.omega.len()).unwrap();
    let mut out = vec![0.0; 2 * FEATURES];
    let lists = problem.lists();
    slopes_csc(x, &lists, &problem.margins, &COLUMNS, &mut out).unwrap();
    out
}

#[test]
fn value_is_the_definition() {
    // The definition itself overflows beyond exp(709).
    for spread in [0.0, 1.0, 20.0, 700.0] {
        for padding in [Padding::Lanes, Padding::None] {
            let problem = Problem::new(LISTS, spread, padding);
            assert_close(
                problem.value(&problem.margins),
                problem.naive_value(),
                1e-12,
            );
        }
    }
}

#[test]
fn slopes_are_derivatives() {
    // Lists of the last two spreads are far.
    for spread in [1.0, 20.0, 700.0, 2000.0] {
        let problem = Problem::new(LISTS, spread, Padding::Lanes);
        let out = slopes(&problem, &one());
        for column in 0..FEATURES {
            let moved = |distance: f64| {
                let x = problem.column(column);
                let moved = problem.margins.iter().zip(x).map(|(m, x)| m + distance * x);
                problem.value(&moved.collect::<Vec<_>>())
            };
            let size = 1e-4;
            let (up, here, down) = (moved(size), moved(0.0), moved(-size));
            assert_close(out[column], (up - down) / (2.0 * size), 1e-6);
            // A second difference loses half the digits, and those of a large loss.
            let curvature = (up - 2.0 * here + down) / (size * size);
            assert_close(out[FEATURES + column], curvature, 1e-6 * (1.0 + here));
            assert!(out[FEATURES + column] <= problem.bounds()[column]);
        }
    }
}

#[test]
fn sparse_slopes_are_those_of_dense_features() {
    for spread in [1.0, 20.0, 700.0] {
        let dense = slopes(&Problem::new(LISTS, spread, Padding::Lanes), &one());
        let sparse = sparse_slopes(&Problem::new(LISTS, spread, Padding::None));
        for (dense, sparse) in dense.iter().zip(&sparse) {
            assert_close(*dense, *sparse, 1e-10);
        }
    }
}

#[test]
fn sparse_bounds_are_those_of_dense_features() {
    let dense = Problem::new(LISTS, 1.0, Padding::Lanes).bounds();
    let problem = Problem::new(LISTS, 1.0, Padding::None);
    let (indptr, indices, data) = problem.csc();
    let x = Compressed::new(&indptr, &indices, &data, problem.omega.len()).unwrap();
    for threads in [1, 2] {
        let mut sparse = vec![0.0; 4 * FEATURES];
        let team = ThreadTeam::new(threads).unwrap();
        bounds_csc(x, &problem.lists(), &mut sparse, &team).unwrap();
        for (dense, sparse) in dense.iter().zip(&sparse) {
            assert_close(*dense, *sparse, 1e-12);
        }
    }
}

/// Step column by column; return the margins and weights, and check that every step descends.
fn descend(sparse: bool, newton: bool, spread: f64, team: &ThreadTeam) -> (Vec<f64>, Vec<f64>) {
    let (l1, l2) = (0.01, 0.1);
    let padding = if sparse {
        Padding::None
    } else {
        Padding::Lanes
    };
    let problem = Problem::new(LISTS, spread, padding);
    let lists = problem.lists();
    let (indptr, indices, data) = problem.csc();
    let csc = Compressed::new(&indptr, &indices, &data, problem.omega.len()).unwrap();
    // The padded layout has the same bounds.
    let bounds = three(&Problem::new(LISTS, spread, Padding::Lanes).bounds());
    let mut margins = problem.margins.clone();
    let mut weights = vec![0.0; FEATURES];
    let mut radius = radius_at_start(&bounds);
    let objective = |margins: &[f64], weights: &[f64]| {
        let penalty = |w: &f64| l1 * w.abs() + 0.5 * l2 * w * w;
        problem.value(margins) + weights.iter().map(penalty).sum::<f64>()
    };
    let mut before = objective(&margins, &weights);
    for _ in 0..5 {
        for column in COLUMNS {
            let range = [column];
            let mut descent =
                CoordinateDescent::new(&mut weights, &mut radius, &bounds, &range, l1, l2, newton)
                    .unwrap();
            if sparse {
                sweep_csc(csc, &lists, &mut margins, &mut descent).unwrap();
            } else {
                let (x, blocks) = (problem.dense(), &problem.block_ptr);
                sweep_dense(x, &lists, blocks, &mut margins, &mut descent, team).unwrap();
            }
            let after = objective(&margins, &weights);
            assert!(after <= before + 1e-12 * before.abs(), "{after} > {before}");
            before = after;
        }
    }
    (margins, weights)
}

#[test]
fn every_step_descends() {
    for newton in [false, true] {
        for spread in [1.0, 20.0, 700.0] {
            let (_, dense) = descend(false, newton, spread, &one());
            let (_, sparse) = descend(true, newton, spread, &one());
            for (dense, sparse) in dense.iter().zip(&sparse) {
                assert_close(*dense, *sparse, 1e-9);
            }
        }
    }
}

#[test]
fn a_sweep_is_its_steps() {
    // One sweep carries the exponentials along and makes each move late; single steps do not.
    let (margins, weights) = descend(false, true, 20.0, &one());
    let problem = Problem::new(LISTS, 20.0, Padding::Lanes);
    let bounds = three(&problem.bounds());
    let columns = COLUMNS.repeat(5);
    let start = radius_at_start(&bounds);
    for threads in [1, 2, 5] {
        let (mut swept, mut found, mut radius) =
            (problem.margins.clone(), [0.0; FEATURES], start.clone());
        let mut descent =
            CoordinateDescent::new(&mut found, &mut radius, &bounds, &columns, 0.01, 0.1, true)
                .unwrap();
        let team = ThreadTeam::new(threads).unwrap();
        let (x, lists) = (problem.dense(), problem.lists());
        sweep_dense(
            x,
            &lists,
            &problem.block_ptr,
            &mut swept,
            &mut descent,
            &team,
        )
        .unwrap();
        for (a, b) in swept
            .iter()
            .chain(&found)
            .zip(margins.iter().chain(&weights))
        {
            assert_close(*a, *b, 1e-12);
        }
    }
}

#[test]
fn the_number_of_threads_does_not_change_a_bit() {
    let bits = |values: Vec<f64>| values.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let result = |threads| {
        let team = ThreadTeam::new(threads).unwrap();
        let problem = Problem::new(LISTS, 20.0, Padding::Lanes);
        let loss = value(
            &problem.lists(),
            &problem.block_ptr,
            &problem.margins,
            &team,
        )
        .unwrap();
        let (margins, weights) = descend(false, true, 20.0, &team);
        bits([vec![loss], slopes(&problem, &team), margins, weights].concat())
    };
    assert_eq!(result(1), result(2));
    assert_eq!(result(1), result(5));
}

#[test]
fn no_lists_have_no_loss() {
    let problem = Problem::new(&[], 1.0, Padding::Lanes);
    assert_eq!(problem.value(&[]), 0.0);
    assert_eq!(slopes(&problem, &one()), [0.0; 2 * FEATURES]);
    assert_eq!(problem.bounds(), [0.0; 4 * FEATURES]);
}

#[test]
fn lists_that_do_not_fit_are_refused() {
    let good: [&[i64]; 3] = [&[0, 2], &[0, 4, 8], &[3, 4]];
    let fits = |[list_ptr, layer_ptr, layer_size]: [&[i64]; 3], padding| {
        ListLayout::new(list_ptr, layer_ptr, layer_size, &[0.0; 8], padding).is_ok()
    };
    assert!(fits(good, Padding::Lanes) && fits(good, Padding::Any));
    assert!(!fits(good, Padding::None));
    for list_ptr in [&[0, 1][..], &[0, 1, 2], &[0, 3], &[-1, 2], &[]] {
        assert!(!fits([list_ptr, good[1], good[2]], Padding::Lanes));
    }
    for layer_ptr in [&[0, 4, 7][..], &[0, 5, 8], &[0, 9, 8], &[0, -4, 8], &[0, 8]] {
        assert!(!fits([good[0], layer_ptr, good[2]], Padding::Lanes));
    }
    for layer_size in [&[3, 5][..], &[0, 4], &[-3, 4], &[3]] {
        assert!(!fits([good[0], good[1], layer_size], Padding::Lanes));
    }
}

#[test]
fn arguments_that_do_not_fit_are_refused() {
    let problem = Problem::new(LISTS, 1.0, Padding::Lanes);
    let (lists, blocks, team) = (problem.lists(), &problem.block_ptr[..], one());
    let margins = &problem.margins;
    assert!(value(&lists, blocks, &margins[1..], &team).is_err());
    assert!(value(&lists, &blocks[1..], margins, &team).is_err());
    let mut out = [0.0; 2];
    for columns in [[4], [-1]] {
        let x = problem.dense();
        assert!(slopes_dense(x, &lists, blocks, margins, &columns, &mut out, &team).is_err());
    }
    let (mut weights, mut radius) = ([0.0; 4], [1.0; 4]);
    assert!(
        CoordinateDescent::new(&mut weights, &mut radius, &[1.0; 11], &[0], 0.0, 0.0, true)
            .is_err()
    );
    assert!(
        CoordinateDescent::new(&mut weights, &mut radius, &[1.0; 12], &[4], 0.0, 0.0, true)
            .is_err()
    );
    assert!(
        CoordinateDescent::new(
            &mut weights,
            &mut radius[1..],
            &[1.0; 12],
            &[0],
            0.0,
            0.0,
            true
        )
        .is_err()
    );
}
