//! Steps against a literal loop, with and without features, drawn or given, and with any threads;
//! scores and the best of them.

use std::collections::{BTreeMap, BTreeSet};

use ranking_core::bilinear::{Error, PairwiseForm};
use ranking_core::draws::{PositiveLists, Positives, sample_triplets};
use ranking_core::factored::{
    Exclusions, FactoredFeatures, Factors, Features, Plan, RowPenalty, Steps, TripletOrigin,
    TripletSource, factored_embeddings, factored_sample, factored_scores, factored_top_k,
    factored_train, factored_update,
};
use ranking_core::{Compressed, ThreadTeam, rng};

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
            let sampled: BTreeSet<_> = draws
                .map(|k| rng::below(rng::draw(seed, k), columns))
                .collect();
            indices.extend(sampled.into_iter().map(u32::cast_signed));
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

    fn entities(&self) -> Features<'_> {
        let features = Compressed::new(&self.indptr, &self.indices, &self.data, self.columns);
        Features::from(features.unwrap())
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
    n_entities: usize,
}

impl Side {
    fn new(seed: u64, sparse: bool, n_entities: u64) -> Self {
        Self {
            features: sparse.then(|| Matrix::random(seed, n_entities, 9)),
            n_entities: usize::try_from(n_entities).unwrap(),
        }
    }

    fn entities(&self) -> Features<'_> {
        let own = Features::Own(self.n_entities);
        self.features.as_ref().map_or(own, Matrix::entities)
    }

    fn rows(&self) -> usize {
        self.features
            .as_ref()
            .map_or(self.n_entities, |x| x.columns)
    }

    fn entries(&self, entity: usize) -> Vec<(usize, f32)> {
        let features = self.features.as_ref();
        features.map_or_else(|| vec![(entity, 1.0)], |x| x.entries(entity))
    }

    fn sum(&self, entity: usize, parameters: &[f32], width: usize) -> Vec<f32> {
        if self.features.is_none() {
            return parameters[entity * width..][..width].to_vec();
        }
        let mut total = vec![0.0; width];
        for (feature, value) in self.entries(entity) {
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

/// U, V, S and biases, their squares, margins and weights.
#[derive(Clone, Debug, PartialEq)]
struct State {
    factors: [Vec<f32>; 4],
    squares: [Vec<f32>; 4],
    margins: Vec<f32>,
    weights: Vec<f32>,
}

impl State {
    fn bits(&self) -> Vec<u32> {
        let all = self.factors.iter().chain(&self.squares);
        let all = all.chain([&self.margins, &self.weights]);
        all.flatten().map(|x| x.to_bits()).collect()
    }

    fn change(&mut self, which: usize, row: usize, total: &Total, learning_rate: f32) {
        let places = row * total.0.len()..(row + 1) * total.0.len();
        let parameters = &mut self.factors[which][places.clone()];
        if self.squares[0].is_empty() {
            let both = parameters.iter_mut().zip(&total.0);
            both.for_each(|(p, y)| *p -= y);
            return;
        }
        let squares = &mut self.squares[which][places];
        for ((p, square), (y, q)) in parameters
            .iter_mut()
            .zip(squares)
            .zip(total.0.iter().zip(&total.1))
        {
            *square += q;
            *p -= (learning_rate * y) / square.sqrt();
        }
    }
}

/// A sum of gradients, and of their squares.
type Total = (Vec<f32>, Vec<f32>);

fn times(factor: f32, x: &[f32]) -> Vec<f32> {
    x.iter().map(|x| factor * x).collect()
}

/// Sums by object or row, in the order in which these come.
#[derive(Default)]
struct Sums(Vec<(usize, Total)>, BTreeMap<usize, usize>);

impl Sums {
    fn add(&mut self, key: usize, gradient: Vec<f32>, squares: Vec<f32>) {
        if let Some(&at) = self.1.get(&key) {
            let total = &mut self.0[at].1;
            total.0.iter_mut().zip(gradient).for_each(|(a, b)| *a += b);
            total.1.iter_mut().zip(squares).for_each(|(a, b)| *a += b);
        } else {
            self.1.insert(key, self.0.len());
            self.0.push((key, (gradient, squares)));
        }
    }

    fn add_step(&mut self, key: usize, gradient: Vec<f32>) {
        let squares = gradient.iter().map(|y| y * y).collect();
        self.add(key, gradient, squares);
    }

    /// Share a half of the sums out among the rows of features.
    fn by_row(&self, side: &Side, half: std::ops::Range<usize>, rows: &mut Sums) {
        for (entity, total) in &self.0 {
            let (gradient, squares) = (&total.0[half.clone()], &total.1[half.clone()]);
            for (feature, value) in side.entries(*entity) {
                rows.add(
                    feature,
                    times(value, gradient),
                    times(value * value, squares),
                );
            }
        }
    }
}

/// Query i has the documents of list i.
struct Lists {
    ptr: Vec<i64>,
    members: Vec<i64>,
    weights: Vec<f32>,
}

#[derive(Clone, Copy)]
struct Kind {
    sparse: [bool; 2],
    contexts: bool,
    adagrad: bool,
    drawn: bool,
    positives: usize,
    trials: usize,
    form: PairwiseForm,
    block: usize,
}

struct Problem {
    kind: Kind,
    queries: Side,
    documents: Side,
    contexts: Option<Side>,
    lists: Lists,
    triplets: Vec<i64>,
    learning_rates: Vec<f32>,
    start: State,
}

const RANKS: [f32; 3] = [0.0, 0.5, 1.5];
const STEPS: usize = 150;
const MAX_NORM: f32 = 1.25;
const L2: f32 = 0.5;
const SEED: u64 = 77;
const FIRST: u64 = 5;
const QUERIES: [i64; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
const NOTHING: [i64; 12] = [-1; 12];

impl Problem {
    fn new(kind: Kind) -> Self {
        let queries = Side::new(1, kind.sparse[0], 12);
        let documents = Side::new(2, kind.sparse[1], 14);
        let v_rows = documents.rows();
        let contexts = kind.contexts.then(|| Side {
            features: Some(Matrix::random(20, 12, u32::try_from(v_rows).unwrap())),
            n_entities: 12,
        });
        let members: Vec<_> = (0..12).flat_map(|q| [q % 7, 7 + q % 5]).collect();
        let lists = Lists {
            ptr: (0..13).map(|q| 2 * q).collect(),
            weights: singles(21, members.len()).iter().map(|x| x.abs()).collect(),
            members,
        };
        let s_rows = if kind.contexts { v_rows } else { 0 };
        let factors = [
            singles(4, queries.rows() * WIDTH),
            singles(5, v_rows * WIDTH),
            singles(22, s_rows * WIDTH),
            singles(6, v_rows),
        ];
        let squares = factors.clone().map(|p| vec![0.1; p.len()]);
        let start = State {
            factors,
            squares: if kind.adagrad {
                squares
            } else {
                Default::default()
            },
            margins: vec![0.0; STEPS],
            weights: vec![0.0; STEPS],
        };
        let mut made = Self {
            kind,
            queries,
            documents,
            contexts,
            lists,
            triplets: Vec::new(),
            learning_rates: singles(7, STEPS).iter().map(|x| 0.1 * x.abs()).collect(),
            start,
        };
        let mut triplets = vec![0; STEPS * made.numbers()];
        let lists = made.lists();
        sample_triplets(
            SEED,
            FIRST,
            &lists,
            kind.positives,
            made.numbers(),
            &mut triplets,
        )
        .unwrap();
        made.triplets = triplets;
        made
    }

    fn numbers(&self) -> usize {
        1 + self.kind.positives + self.kind.trials
    }

    fn lists(&self) -> PositiveLists<'_> {
        PositiveLists::new(Positives {
            queries: &QUERIES,
            query_sums: &[],
            list_of: &QUERIES,
            list_ptr: &self.lists.ptr,
            members: &self.lists.members,
            member_sums: &[],
            itself: &NOTHING,
            member_weights: &self.lists.weights,
            n_documents: 14,
            any_other: false,
        })
        .unwrap()
    }

    fn features(&self) -> FactoredFeatures<'_> {
        FactoredFeatures {
            queries: self.queries.entities(),
            documents: self.documents.entities(),
            contexts: self.contexts.as_ref().map(Side::entities),
        }
    }

    fn trials(&self) -> TripletSource<'_> {
        TripletSource {
            source: if self.kind.drawn {
                TripletOrigin::Sampled {
                    seed: SEED,
                    first: FIRST,
                    lists: self.lists(),
                }
            } else {
                TripletOrigin::Array(&self.triplets)
            },
            numbers: self.numbers(),
            positives: self.kind.positives,
            place: self.kind.positives / 2,
            rank_weights: &RANKS,
            n_documents: 14,
        }
    }

    fn run(&self, threads: usize) -> State {
        self.try_run(threads).unwrap()
    }

    fn try_run(&self, threads: usize) -> Result<State, Error> {
        let mut state = self.start.clone();
        let plan = Plan {
            learning_rates: &self.learning_rates,
            form: self.kind.form,
            penalty: PENALTY,
            block: self.kind.block,
        };
        let (mut factors, mut squares) = (made(&mut state.factors), made(&mut state.squares));
        factored_train(
            &self.features(),
            &mut factors,
            &mut squares,
            &self.trials(),
            &plan,
            &mut state.margins,
            &mut state.weights,
            &ThreadTeam::new(threads).unwrap(),
        )?;
        Ok(state)
    }

    /// The same by a search and an update for each block.
    fn run_apart(&self, threads: usize) -> State {
        let mut state = self.start.clone();
        let team = ThreadTeam::new(threads).unwrap();
        let steps: Vec<_> = (0..STEPS).collect();
        for block in steps.chunks(self.kind.block) {
            let (first, count) = (block[0], block.len());
            let numbers = self.numbers();
            let trials = TripletSource {
                source: match self.trials().source {
                    TripletOrigin::Array(triplets) => {
                        TripletOrigin::Array(&triplets[first * numbers..][..count * numbers])
                    }
                    TripletOrigin::Sampled { seed, lists, .. } => TripletOrigin::Sampled {
                        seed,
                        first: FIRST + first as u64,
                        lists,
                    },
                },
                ..self.trials()
            };
            let (mut sampled, mut margins) = (vec![0; 3 * count], vec![0.0; count]);
            let mut weights = margins.clone();
            let mut factors = made(&mut state.factors);
            let features = self.features();
            factored_sample(
                &features,
                &factors,
                &trials,
                &mut sampled,
                &mut margins,
                &mut weights,
                &team,
            )
            .unwrap();
            let slopes = margins
                .iter()
                .zip(&weights)
                .zip(&self.learning_rates[first..]);
            let slopes = slopes.flat_map(|((&margin, &weight), &learning_rate)| {
                let slope = self.slope(margin, weight, learning_rate);
                [slope, -slope]
            });
            let pair = |x: &[i64]| [x[1], x[2]];
            factored_update(
                &features,
                &mut factors,
                &mut made(&mut state.squares),
                &Steps {
                    queries: &sampled.iter().copied().step_by(3).collect::<Vec<_>>(),
                    pointers: &(0..=i64::try_from(count).unwrap())
                        .map(|step| 2 * step)
                        .collect::<Vec<_>>(),
                    documents: &sampled.chunks(3).flat_map(pair).collect::<Vec<_>>(),
                    slopes: &slopes.collect::<Vec<_>>(),
                },
                self.learning_rates[first],
                PENALTY,
                &team,
            )
            .unwrap();
            state.margins[first..first + count].copy_from_slice(&margins);
            state.weights[first..first + count].copy_from_slice(&weights);
        }
        state
    }

    /// The slope of a hinge.
    fn slope(&self, margin: f32, weight: f32, learning_rate: f32) -> f32 {
        let slope = weight * if margin < 1.0 { -1.0 } else { 0.0 };
        if self.kind.adagrad {
            slope
        } else {
            learning_rate * slope
        }
    }

    fn query(&self, state: &State, query: usize) -> Vec<f32> {
        let mut u = self.queries.sum(query, &state.factors[0], WIDTH);
        if let Some(contexts) = &self.contexts {
            u.extend(contexts.sum(query, &state.factors[2], WIDTH));
        }
        u
    }

    fn document(&self, state: &State, document: usize) -> Vec<f32> {
        let mut v = self.documents.sum(document, &state.factors[1], WIDTH);
        if self.contexts.is_some() {
            v.extend(self.documents.sum(document, &state.factors[2], WIDTH));
        }
        v
    }

    fn score(&self, state: &State, u: &[f32], document: usize) -> f32 {
        let bias = self.documents.sum(document, &state.factors[3], 1);
        dot(u, &self.document(state, document)) + bias[0]
    }

    fn weight(&self, query: usize, document: usize) -> f32 {
        let of_query = 2 * query..2 * query + 2;
        let mut places =
            of_query.filter(|&at| self.lists.members[at] == i64::try_from(document).unwrap());
        places.next().map_or(1.0, |at| self.lists.weights[at])
    }

    /// A hinge, literally.
    fn literal(&self) -> State {
        assert_eq!(self.kind.form, PairwiseForm::Hinge);
        let mut state = self.start.clone();
        let steps: Vec<_> = (0..STEPS).collect();
        for block in steps.chunks(self.kind.block) {
            let frozen = state.clone();
            let mut sums = [Sums::default(), Sums::default(), Sums::default()];
            for &step in block {
                let (query, pair, slope) = self.search(&frozen, step, &mut state);
                if slope == 0.0 {
                    continue;
                }
                let u = self.query(&frozen, query);
                let [plus, minus] = pair.map(|d| times(slope, &self.document(&frozen, d)));
                let apart = plus.iter().zip(&minus).map(|(a, b)| a - b).collect();
                sums[0].add_step(query, apart);
                for (document, slope) in pair.into_iter().zip([slope, -slope]) {
                    sums[1].add_step(document, times(slope, &u));
                    sums[2].add_step(document, vec![slope]);
                }
            }
            self.change(&sums, &mut state, self.learning_rates[block[0]]);
        }
        state
    }

    fn search(&self, frozen: &State, step: usize, state: &mut State) -> (usize, [usize; 2], f32) {
        let triplet = &self.triplets[step * self.numbers()..][..self.numbers()];
        let numbers: Vec<_> = triplet
            .iter()
            .map(|&x| usize::try_from(x).unwrap())
            .collect();
        let (positives, negatives) = numbers[1..].split_at(self.kind.positives);
        let u = self.query(frozen, numbers[0]);
        let mut highs: Vec<_> = positives
            .iter()
            .map(|&d| (self.score(frozen, &u, d), d))
            .collect();
        highs.sort_by(|a, b| b.0.partial_cmp(&a.0).unwrap());
        let (high, positive) = highs[self.kind.positives / 2];
        let (mut margin, mut negative, mut weight) = (0.0, 0, 0.0);
        for (trial, &negative) in (1..).zip(negatives) {
            negative = negative;
            margin = high - self.score(frozen, &u, negative);
            if negatives.len() == 1 || margin < 1.0 {
                weight = RANKS[(13 / trial).min(RANKS.len() - 1)];
                break;
            }
        }
        if self.kind.drawn {
            weight *= self.weight(numbers[0], positive);
        }
        (state.margins[step], state.weights[step]) = (margin, weight);
        let slope = self.slope(margin, weight, self.learning_rates[step]);
        (numbers[0], [positive, negative], slope)
    }

    fn change(&self, sums: &[Sums; 3], state: &mut State, learning_rate: f32) {
        let mut rows = [const { Sums(Vec::new(), BTreeMap::new()) }; 4];
        let [u, v, s, biases] = &mut rows;
        sums[0].by_row(&self.queries, 0..WIDTH, u);
        sums[1].by_row(&self.documents, 0..WIDTH, v);
        sums[2].by_row(&self.documents, 0..1, biases);
        if let Some(contexts) = &self.contexts {
            sums[0].by_row(contexts, WIDTH..2 * WIDTH, s);
            sums[1].by_row(&self.documents, WIDTH..2 * WIDTH, s);
        }
        let shrink = 1.0 / (1.0 + L2 * learning_rate);
        for (which, rows) in rows.iter().enumerate() {
            for (row, total) in &rows.0 {
                state.change(which, *row, total, learning_rate);
                if which < 3 {
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
        }
    }
}

const PENALTY: RowPenalty = RowPenalty {
    max_norm: MAX_NORM,
    l2: L2,
};

fn made(arrays: &mut [Vec<f32>; 4]) -> Factors<'_> {
    let [u, v, s, biases] = arrays;
    Factors::new(u, v, s, biases, WIDTH).unwrap()
}

const PLAIN: Kind = Kind {
    sparse: [false, false],
    contexts: false,
    adagrad: true,
    drawn: false,
    positives: 1,
    trials: 3,
    form: PairwiseForm::Hinge,
    block: 16,
};

#[test]
fn steps_are_those_of_a_literal_loop() {
    for sparse in [[false, false], [true, false], [false, true], [true, true]] {
        for contexts in [false, true] {
            for (adagrad, trials, block) in
                [(false, 1, 1), (true, 1, 32), (false, 6, 7), (true, 6, 64)]
            {
                for (drawn, positives) in [(true, 1), (false, 1), (true, 3)] {
                    let problem = Problem::new(Kind {
                        sparse,
                        contexts,
                        adagrad,
                        drawn,
                        positives,
                        trials,
                        block,
                        ..PLAIN
                    });
                    let literal = problem.literal();
                    assert_ne!(literal.factors, problem.start.factors);
                    assert_eq!(problem.run(1).bits(), literal.bits());
                    assert_eq!(problem.run_apart(1).bits(), literal.bits());
                }
            }
        }
    }
}

#[test]
fn threads_change_nothing() {
    for sparse in [[false, false], [true, true]] {
        for form in [
            PairwiseForm::Hinge,
            PairwiseForm::SquaredHinge,
            PairwiseForm::Logistic,
        ] {
            for (contexts, block) in [(false, 16), (true, 50), (false, 1000)] {
                let problem = Problem::new(Kind {
                    sparse,
                    contexts,
                    form,
                    block,
                    drawn: block == 50,
                    ..PLAIN
                });
                let single = problem.run(1).bits();
                for threads in [2, 3, 20] {
                    assert_eq!(problem.run(threads).bits(), single);
                    if form == PairwiseForm::Hinge {
                        assert_eq!(problem.run_apart(threads).bits(), single);
                    }
                }
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    let mut problem = Problem::new(Kind {
        sparse: [false, true],
        ..PLAIN
    });
    for bad in [-1, 14] {
        problem.triplets[7] = bad;
        assert!(problem.try_run(1).is_err());
    }
    assert!(Factors::new(&mut [], &mut [], &mut [], &mut [], 12).is_err());
}

#[test]
fn vectors_are_sums_of_rows_whatever_their_width() {
    let features = Matrix::random(8, 300, 9);
    let side = Side {
        features: Some(features),
        n_entities: 300,
    };
    for width in [1, 8, 13, 32, 104] {
        let matrix = singles(9, 9 * width);
        let wanted = (0..300).flat_map(|entity| side.sum(entity, &matrix, width));
        let wanted: Vec<_> = wanted.map(f32::to_bits).collect();
        for threads in [1, 2] {
            let mut out = vec![1.0; 300 * width];
            let team = ThreadTeam::new(threads).unwrap();
            factored_embeddings(&side.entities(), &matrix, width, &mut out, &team).unwrap();
            let out: Vec<_> = out.into_iter().map(f32::to_bits).collect();
            assert_eq!(out, wanted);
        }
    }
    assert!(
        factored_embeddings(
            &Features::Own(1),
            &[0.0],
            1,
            &mut [0.0],
            &ThreadTeam::new(1).unwrap()
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
                    let team = ThreadTeam::new(threads).unwrap();
                    factored_scores(
                        &queries,
                        &documents,
                        width,
                        biases,
                        n_documents,
                        &mut out,
                        &team,
                    )
                    .unwrap();
                    let out: Vec<_> = out.into_iter().map(f32::to_bits).collect();
                    assert_eq!(out, wanted);
                }
            }
        }
    }
    let team = ThreadTeam::new(1).unwrap();
    assert!(factored_scores(&[0.0; 8], &[0.0; 16], 8, &[0.0], 2, &mut [0.0; 2], &team).is_err());
}

#[test]
fn the_best_are_those_of_a_sort() {
    let width = 8;
    for (n_queries, n_documents) in [(1, 40), (7, 1), (13, 300), (300, 90)] {
        let queries = singles(13, n_queries * width);
        let mut documents = singles(14, n_documents * width);
        let mut biases = singles(15, n_documents);
        if n_documents > 30 {
            documents.copy_within(0..5 * width, 20 * width);
            biases.copy_within(0..5, 20);
            biases[7] = f32::NAN;
            (biases[8], biases[9]) = (f32::NEG_INFINITY, f32::INFINITY);
        }
        let (mut pointers, mut excluded) = (vec![0], Vec::new());
        for query in 0..n_queries {
            let some = (0..n_documents).filter(|d| (d * 7 + query) % 5 == 0 || query == 6);
            excluded.extend(some.map(|d| i64::try_from(d).unwrap()));
            pointers.push(i64::try_from(excluded.len()).unwrap());
        }
        let mut scores = vec![0.0; n_queries * n_documents];
        let team = ThreadTeam::new(1).unwrap();
        factored_scores(
            &queries,
            &documents,
            width,
            &biases,
            n_documents,
            &mut scores,
            &team,
        )
        .unwrap();
        for k in [1, 10, n_documents] {
            let (mut wanted, mut best) = (Vec::new(), Vec::new());
            for (query, row) in scores.chunks(n_documents).enumerate() {
                let at = |query: usize| usize::try_from(pointers[query]).unwrap();
                let without = &excluded[at(query)..at(query + 1)];
                let mut free: Vec<_> = (0..)
                    .zip(row)
                    .filter(|(d, x)| !x.is_nan() && !without.contains(d))
                    .collect();
                free.sort_by(|a, b| b.1.partial_cmp(a.1).unwrap());
                let missing = (-1, &f32::NEG_INFINITY);
                for (document, score) in free.into_iter().chain(std::iter::repeat(missing)).take(k)
                {
                    wanted.push(document);
                    best.push(score.to_bits());
                }
            }
            for threads in [1, 2] {
                let (mut found, mut out) = (vec![7; n_queries * k], vec![7.0; n_queries * k]);
                let excluded = Exclusions {
                    pointers: &pointers,
                    documents: &excluded,
                };
                let team = ThreadTeam::new(threads).unwrap();
                factored_top_k(
                    &queries, &documents, width, &biases, excluded, k, &mut found, &mut out, &team,
                )
                .unwrap();
                assert_eq!(found, wanted);
                let out: Vec<_> = out.into_iter().map(f32::to_bits).collect();
                assert_eq!(out, best);
            }
        }
    }
}
