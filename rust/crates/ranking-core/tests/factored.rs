//! Steps against a literal loop, with and without features, and with any threads; scores.

use std::collections::BTreeSet;

use ranking_core::bilinear::{Failure, Form};
use ranking_core::factored::{
    Factors, Objects, Plan, factored_scores, factored_steps, factored_vectors,
};
use ranking_core::{Compressed, Crew, rng};

const WIDTH: usize = 40;

fn singles(seed: u64, length: usize) -> Vec<f32> {
    let mut doubles = vec![0.0; length];
    rng::fill(seed, 0, &mut doubles, |bits| rng::uniform(bits) - 0.5);
    // One in eleven is a zero below zero.
    let numbered = doubles.into_iter().enumerate();
    #[expect(clippy::cast_possible_truncation, reason = "rounding is wanted")]
    numbered
        .map(|(i, x)| if i % 11 == 3 { -0.0 } else { x as f32 })
        .collect()
}

/// Sparse features, with an empty row.
struct Matrix {
    columns: usize,
    indptr: Vec<i32>,
    indices: Vec<i32>,
    data: Vec<f32>,
}

impl Matrix {
    fn random(seed: u64, rows: u64, columns: u32) -> Self {
        let (mut indptr, mut indices) = (vec![0], Vec::new());
        for row in 0..rows {
            let draws = if row == 2 { 0..0 } else { 6 * row..6 * row + 6 };
            let chosen: BTreeSet<_> = draws
                .map(|k| rng::below(rng::draw(seed, k), columns))
                .collect();
            indices.extend(chosen.into_iter().map(u32::cast_signed));
            indptr.push(i32::try_from(indices.len()).unwrap());
        }
        let data = singles(seed + 100, indices.len());
        Self {
            columns: columns as usize,
            indptr,
            indices,
            data,
        }
    }

    fn objects(&self) -> Objects<'_> {
        let features = Compressed::new(&self.indptr, &self.indices, &self.data, self.columns);
        Objects::from(features.unwrap())
    }

    fn entries(&self, row: usize) -> Vec<(usize, f32)> {
        let at = |row: usize| usize::try_from(self.indptr[row]).unwrap();
        let part = at(row)..at(row + 1);
        let columns = self.indices[part.clone()].iter();
        let columns = columns.map(|&c| usize::try_from(c).unwrap());
        columns.zip(self.data[part].iter().copied()).collect()
    }
}

/// One of the sides: features, or none.
struct Side {
    features: Option<Matrix>,
    n_objects: usize,
}

impl Side {
    fn new(seed: u64, sparse: bool, n_objects: u64) -> Self {
        Self {
            features: sparse.then(|| Matrix::random(seed, n_objects, 9)),
            n_objects: usize::try_from(n_objects).unwrap(),
        }
    }

    fn objects(&self) -> Objects<'_> {
        let own = Objects::Own(self.n_objects);
        self.features.as_ref().map_or(own, Matrix::objects)
    }

    fn rows(&self) -> usize {
        self.features.as_ref().map_or(self.n_objects, |x| x.columns)
    }

    fn entries(&self, object: usize) -> Vec<(usize, f32)> {
        let features = self.features.as_ref();
        features.map_or_else(|| vec![(object, 1.0)], |x| x.entries(object))
    }

    fn sum(&self, object: usize, parameters: &[f32], width: usize) -> Vec<f32> {
        if self.features.is_none() {
            return parameters[object * width..][..width].to_vec();
        }
        let mut total = vec![0.0; width];
        for (feature, value) in self.entries(object) {
            for (total, p) in total.iter_mut().zip(&parameters[feature * width..]) {
                *total += value * p;
            }
        }
        total
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut s = [0.0; 8];
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        s[i % 8] += a * b;
    }
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

/// U, V and biases, their squares, margins and weights.
#[derive(Clone, Debug, PartialEq)]
struct State {
    factors: [Vec<f32>; 3],
    squares: [Vec<f32>; 3],
    margins: Vec<f32>,
    weights: Vec<f32>,
}

impl State {
    fn bits(&self) -> Vec<u32> {
        let all = self.factors.iter().chain(&self.squares);
        let all = all.chain([&self.margins, &self.weights]);
        all.flatten().map(|x| x.to_bits()).collect()
    }

    fn change(&mut self, which: usize, row: usize, y: &[f32], rate: f32) {
        let places = row * y.len()..(row + 1) * y.len();
        let parameters = &mut self.factors[which][places.clone()];
        if self.squares[0].is_empty() {
            parameters.iter_mut().zip(y).for_each(|(p, y)| *p -= y);
            return;
        }
        let squares = &mut self.squares[which][places];
        for ((p, square), y) in parameters.iter_mut().zip(squares).zip(y) {
            *square += y * y;
            *p -= (rate * y) / square.sqrt();
        }
    }
}

struct Problem {
    queries: Side,
    documents: Side,
    tuples: Vec<i64>,
    numbers: usize,
    rates: Vec<f32>,
    form: Form,
    block: usize,
    start: State,
}

const RANKS: [f32; 3] = [0.0, 0.5, 1.5];
const STEPS: usize = 150;
const MAX_NORM: f32 = 1.25;
const L2: f32 = 0.5;

impl Problem {
    fn new(sparse: [bool; 2], adagrad: bool, trials: usize, form: Form, block: usize) -> Self {
        let queries = Side::new(1, sparse[0], 12);
        let documents = Side::new(2, sparse[1], 14);
        let mut tuples = vec![0; STEPS * (trials + 2)];
        rng::fill(3, 0, &mut tuples, |bits| i64::from(rng::below(bits, 12)));
        let factors = [
            singles(4, queries.rows() * WIDTH),
            singles(5, documents.rows() * WIDTH),
            singles(6, documents.rows()),
        ];
        let squares = factors.clone().map(|p| vec![0.1; p.len()]);
        let start = State {
            factors,
            squares: if adagrad { squares } else { Default::default() },
            margins: vec![0.0; STEPS],
            weights: vec![0.0; STEPS],
        };
        Self {
            queries,
            documents,
            tuples,
            numbers: trials + 2,
            rates: singles(7, STEPS).iter().map(|x| 0.1 * x.abs()).collect(),
            form,
            block,
            start,
        }
    }

    fn run(&self, threads: usize) -> State {
        self.try_run(threads).unwrap()
    }

    fn try_run(&self, threads: usize) -> Result<State, Failure> {
        let mut state = self.start.clone();
        let [u, v, biases] = &mut state.factors;
        let mut factors = Factors::new(u, v, biases, WIDTH).unwrap();
        let [u, v, biases] = &mut state.squares;
        let mut squares = Factors::new(u, v, biases, WIDTH).unwrap();
        let plan = Plan {
            tuples: &self.tuples,
            numbers: self.numbers,
            rates: &self.rates,
            form: self.form,
            rank_weights: &RANKS,
            n_documents: 14,
            max_norm: MAX_NORM,
            l2: L2,
            block: self.block,
        };
        factored_steps(
            &self.queries.objects(),
            &self.documents.objects(),
            &plan,
            &mut factors,
            &mut squares,
            &mut state.margins,
            &mut state.weights,
            &Crew::new(threads).unwrap(),
        )?;
        Ok(state)
    }

    fn score(&self, frozen: &State, u: &[f32], document: usize) -> (f32, Vec<f32>) {
        let v = self.documents.sum(document, &frozen.factors[1], WIDTH);
        let bias = self.documents.sum(document, &frozen.factors[2], 1);
        (dot(u, &v) + bias[0], v)
    }

    /// A hinge, literally.
    fn literal(&self) -> State {
        assert_eq!(self.form, Form::Hinge);
        let mut state = self.start.clone();
        let steps: Vec<_> = (0..STEPS).collect();
        for block in steps.chunks(self.block) {
            let frozen = state.clone();
            let mut touched = BTreeSet::new();
            for &step in block {
                let tuple = &self.tuples[step * self.numbers..][..self.numbers];
                let at = |i: usize| usize::try_from(tuple[i]).unwrap();
                let u = self.queries.sum(at(0), &frozen.factors[0], WIDTH);
                let (high, better) = self.score(&frozen, &u, at(1));
                let mut last = (0.0, Vec::new(), 0);
                for trial in 1..=self.numbers - 2 {
                    let (low, worse) = self.score(&frozen, &u, at(1 + trial));
                    last = (high - low, worse, 1 + trial);
                    if self.numbers == 3 || last.0 < 1.0 {
                        state.weights[step] = RANKS[(13 / trial).min(RANKS.len() - 1)];
                        break;
                    }
                }
                let (margin, worse, negative) = last;
                state.margins[step] = margin;
                let rate = self.rates[step];
                let slope = if margin < 1.0 { -1.0 } else { 0.0 };
                let mut g = state.weights[step] * slope;
                if self.start.squares[0].is_empty() {
                    g *= rate;
                }
                if g == 0.0 {
                    continue;
                }
                let times = |factor: f32, x: &[f32]| x.iter().map(|x| factor * x).collect();
                let apart: Vec<f32> = better.iter().zip(&worse).map(|(a, b)| a - b).collect();
                for (feature, value) in self.queries.entries(at(0)) {
                    let y: Vec<f32> = times(g * value, &apart);
                    state.change(0, feature, &y, rate);
                    touched.insert((0, feature));
                }
                for (document, g) in [(at(1), g), (at(negative), -g)] {
                    for (feature, value) in self.documents.entries(document) {
                        let y: Vec<f32> = times(g * value, &u);
                        state.change(1, feature, &y, rate);
                        state.change(2, feature, &[g * value], rate);
                        touched.insert((1, feature));
                    }
                }
            }
            let shrink = 1.0 / (1.0 + L2 * self.rates[block[0]]);
            for (which, row) in touched {
                let row = &mut state.factors[which][row * WIDTH..][..WIDTH];
                for x in row.iter_mut() {
                    *x *= shrink;
                }
                let square = dot(row, row);
                if square > MAX_NORM * MAX_NORM {
                    let factor = MAX_NORM / square.sqrt();
                    for x in row {
                        *x *= factor;
                    }
                }
            }
        }
        state
    }
}

#[test]
fn steps_are_those_of_a_literal_loop() {
    for sparse in [[false, false], [true, false], [false, true], [true, true]] {
        for (adagrad, trials, block) in [(false, 1, 1), (true, 1, 32), (false, 6, 7), (true, 6, 64)]
        {
            let problem = Problem::new(sparse, adagrad, trials, Form::Hinge, block);
            let literal = problem.literal();
            assert_ne!(literal.factors, problem.start.factors);
            assert_eq!(problem.run(1).bits(), literal.bits());
        }
    }
}

#[test]
fn threads_change_nothing() {
    for sparse in [[false, false], [true, true]] {
        for form in [Form::Hinge, Form::SquaredHinge, Form::Logistic] {
            for block in [16, 50, 1000] {
                let problem = Problem::new(sparse, true, 3, form, block);
                let alone = problem.run(1).bits();
                for threads in [2, 3, 20] {
                    assert_eq!(problem.run(threads).bits(), alone);
                }
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut problem = Problem::new([false, true], false, 1, Form::Hinge, 16);
    for bad in [-1, 14] {
        problem.tuples[7] = bad;
        assert!(problem.try_run(1).is_err());
    }
    assert!(Factors::new(&mut [], &mut [], &mut [], 12).is_err());
}

#[test]
fn vectors_are_sums_of_rows_whatever_their_width() {
    let features = Matrix::random(8, 300, 9);
    let side = Side {
        features: Some(features),
        n_objects: 300,
    };
    for width in [1, 8, 13, 32, 104] {
        let matrix = singles(9, 9 * width);
        let wanted = (0..300).flat_map(|object| side.sum(object, &matrix, width));
        let wanted: Vec<_> = wanted.map(f32::to_bits).collect();
        for threads in [1, 2] {
            let mut out = vec![1.0; 300 * width];
            let crew = Crew::new(threads).unwrap();
            factored_vectors(&side.objects(), &matrix, width, &mut out, &crew).unwrap();
            let out: Vec<_> = out.into_iter().map(f32::to_bits).collect();
            assert_eq!(out, wanted);
        }
    }
    assert!(
        factored_vectors(
            &Objects::Own(1),
            &[0.0],
            1,
            &mut [0.0],
            &Crew::new(1).unwrap()
        )
        .is_err()
    );
}

#[test]
fn scores_are_dot_products() {
    for (n_queries, n_documents) in [(1, 40), (7, 1), (13, 37), (300, 16)] {
        for width in [8, 40] {
            let queries = singles(10, n_queries * width);
            let documents = singles(11, n_documents * width);
            let biases = singles(12, n_documents);
            for biases in [&biases[..], &[]] {
                let mut wanted = Vec::new();
                for query in queries.chunks(width) {
                    for (document, row) in documents.chunks(width).enumerate() {
                        let score = dot(query, row);
                        let score = biases.get(document).map_or(score, |bias| score + bias);
                        wanted.push(score.to_bits());
                    }
                }
                for threads in [1, 3] {
                    let mut out = vec![1.0; wanted.len()];
                    let crew = Crew::new(threads).unwrap();
                    factored_scores(
                        &queries,
                        &documents,
                        width,
                        biases,
                        n_documents,
                        &mut out,
                        &crew,
                    )
                    .unwrap();
                    let out: Vec<_> = out.into_iter().map(f32::to_bits).collect();
                    assert_eq!(out, wanted);
                }
            }
        }
    }
    let crew = Crew::new(1).unwrap();
    assert!(factored_scores(&[0.0; 8], &[0.0; 16], 8, &[0.0], 2, &mut [0.0; 2], &crew).is_err());
}
