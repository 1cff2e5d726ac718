//! W in training against a dense sweep, and with any threads and batches; draws against vectors.

use std::collections::BTreeMap;

use ranking_core::bilinear::{
    CsrRows, PairwiseForm, Plan, RankWeights, Shrinkage, ShrinkageState, Store, Stored, Triplets,
    bilinear_scores,
};
use ranking_core::draws::{PositiveLists, Positives, sample_triplets};
use ranking_core::{Compressed, ThreadTeam, rng};

/// A few steps before a window ends, at a boundary of every 7 steps.
const START: ShrinkageState = ShrinkageState {
    step: 4088.0,
    scale: 1.0,
    threshold: 0.0,
    learning_rates: 0.0,
};

/// A sparse matrix by row.
struct Matrix {
    indptr: Vec<i32>,
    indices: Vec<i32>,
    data: Vec<f64>,
}

impl Matrix {
    /// Rows of about `width` entries that differ.
    fn random(seed: u64, rows: usize, columns: u32, width: usize) -> Self {
        let mut made = Self {
            indptr: vec![0],
            indices: Vec::new(),
            data: Vec::new(),
        };
        let mut draws = (0..).map(|k| rng::draw(seed, k));
        for _ in 0..rows {
            let mut row = BTreeMap::new();
            for _ in 0..width {
                let column = rng::below(draws.next().unwrap(), columns);
                row.insert(column, rng::uniform(draws.next().unwrap()) - 0.3);
            }
            made.indices.extend(row.keys().map(|&c| c.cast_signed()));
            made.data.extend(row.values());
            made.indptr.push(i32::try_from(made.data.len()).unwrap());
        }
        made
    }

    fn rows(&self) -> CsrRows<'_, i32, f64> {
        CsrRows::new(&self.indptr, &self.indices, &self.data).unwrap()
    }

    fn row(&self, row: i64) -> impl Iterator<Item = (usize, f64)> {
        let at = |row: i64| usize::try_from(self.indptr[usize::try_from(row).unwrap()]).unwrap();
        let part = at(row)..at(row + 1);
        let columns = self.indices[part.clone()].iter();
        let columns = columns.map(|&c| usize::try_from(c).unwrap());
        columns.zip(self.data[part].iter().copied())
    }
}

/// Queries and documents, and tuples of them.
struct Problem {
    rows: usize,
    columns: usize,
    queries: Matrix,
    documents: Matrix,
    triplets: Vec<i64>,
    learning_rates: Vec<f64>,
}

impl Problem {
    fn new(rows: u32, columns: u32, steps: usize) -> Self {
        let mut triplets = vec![0; 3 * steps];
        rng::fill(3, 0, &mut triplets, |bits| i64::from(rng::below(bits, 12)));
        let mut learning_rates = vec![0.0; steps];
        rng::fill(4, 0, &mut learning_rates, |bits| 0.1 * rng::uniform(bits));
        Self {
            rows: rows as usize,
            columns: columns as usize,
            queries: Matrix::random(1, 12, rows, 6),
            documents: Matrix::random(2, 12, columns, 20),
            triplets,
            learning_rates,
        }
    }

    fn store<T: Stored>(&self, groups: &[i64]) -> Store<T> {
        let row_state = [1.0, 0.0, 0.0].repeat(self.rows);
        let n_groups = groups.iter().max().map_or(0, |&most| most + 1);
        let n_groups = usize::try_from(n_groups).unwrap();
        let (weights, state) = (vec![0.5; n_groups], [1.0, 0.0, 0.0, 0.0].repeat(n_groups));
        let indptr = vec![0; self.rows + 1];
        Store::new(
            self.columns,
            &indptr,
            &[],
            &[],
            &row_state,
            groups,
            &weights,
            &state,
        )
        .unwrap()
    }

    fn take<T: Stored>(
        &self,
        store: &mut Store<T>,
        penalty: Shrinkage,
        batch_size: usize,
        hogwild: bool,
        threads: usize,
    ) -> (Vec<f64>, ShrinkageState) {
        let (queries, documents) = (self.queries.rows(), self.documents.rows());
        let triplets = Triplets::new(&queries, &documents, &self.triplets, 3, false).unwrap();
        let plan = Plan {
            learning_rates: &self.learning_rates,
            form: PairwiseForm::Logistic,
            rank_weights: RankWeights::new(&[1.0], 12).unwrap(),
            penalty,
            grow: true,
            batch_size,
            hogwild,
        };
        let mut state = START;
        let (mut margins, mut weights) = (vec![0.0; triplets.len()], vec![0.0; triplets.len()]);
        let team = ThreadTeam::new(threads).unwrap();
        store
            .steps(
                &triplets,
                &plan,
                &mut state,
                &mut margins,
                &mut weights,
                &team,
            )
            .unwrap();
        (margins, state)
    }

    /// The same by the book: after every boundary all of W is shrunk.
    fn dense(&self, prox_interval: usize, l1: f64, l2: f64) -> Vec<f64> {
        let mut w = vec![0.0; self.rows * self.columns];
        let mut due = 0.0;
        for (step, (triplet, &learning_rate)) in self
            .triplets
            .chunks(3)
            .zip(&self.learning_rates)
            .enumerate()
        {
            let mut difference = vec![0.0; self.columns];
            self.documents
                .row(triplet[1])
                .for_each(|(c, b)| difference[c] += b);
            self.documents
                .row(triplet[2])
                .for_each(|(c, b)| difference[c] -= b);
            let mut margin = 0.0;
            for (row, a) in self.queries.row(triplet[0]) {
                let row = &w[row * self.columns..][..self.columns];
                margin += a * row.iter().zip(&difference).map(|(w, b)| w * b).sum::<f64>();
            }
            let factor = -learning_rate / (1.0 + margin.exp());
            for (row, a) in self.queries.row(triplet[0]) {
                let row = &mut w[row * self.columns..][..self.columns];
                row.iter_mut()
                    .zip(&difference)
                    .for_each(|(w, b)| *w -= factor * a * b);
            }
            due += learning_rate;
            if (step + 1) % prox_interval == 0 {
                for w in &mut w {
                    *w = w.signum() * (w.abs() - l1 * due).max(0.0) / (1.0 + l2 * due);
                }
                due = 0.0;
            }
        }
        w
    }
}

/// Everything that leaves a store.
fn exported<T: Stored>(
    store: &Store<T>,
    state: &ShrinkageState,
    rows: usize,
) -> (Vec<i64>, Vec<i32>, Vec<T>) {
    let mut counts = vec![0; rows];
    store.counts(state, &mut counts).unwrap();
    let mut indptr = vec![0; rows + 1];
    for (row, count) in counts.iter().enumerate() {
        indptr[row + 1] = indptr[row] + count;
    }
    let size = usize::try_from(indptr[rows]).unwrap();
    let (mut indices, mut values) = (vec![0; size], vec![T::default(); size]);
    store
        .export(state, &indptr, &mut indices, &mut values, true)
        .unwrap();
    (indptr, indices, values)
}

fn full<T: Stored>(store: &Store<T>, state: &ShrinkageState, problem: &Problem) -> Vec<f64> {
    let (indptr, indices, values) = exported(store, state, problem.rows);
    let mut w = vec![0.0; problem.rows * problem.columns];
    for (row, ends) in indptr.windows(2).enumerate() {
        let part = usize::try_from(ends[0]).unwrap()..usize::try_from(ends[1]).unwrap();
        assert!(indices[part.clone()].is_sorted());
        for at in part {
            w[row * problem.columns + usize::try_from(indices[at]).unwrap()] = values[at].widen();
        }
    }
    w
}

#[test]
fn lazy_shrinking_comes_to_the_weights_of_a_dense_sweep() {
    // Few columns make rows dense, many keep them hashed.
    for columns in [30, 3000] {
        let problem = Problem::new(20, columns, 700);
        for (l1, l2) in [
            (0.0, 0.0),
            (0.002, 0.0),
            (0.0, 0.1),
            (0.002, 0.1),
            (0.0, 50.0),
        ] {
            let mut store = problem.store::<f64>(&[]);
            let penalty = Shrinkage::new(7.0, l1, l2).unwrap();
            let (_, state) = problem.take(&mut store, penalty, 1, false, 1);
            let (got, wanted) = (full(&store, &state, &problem), problem.dense(7, l1, l2));
            let largest = wanted.iter().fold(0.0, |most, w| f64::max(most, w.abs()));
            for (got, wanted) in got.iter().zip(&wanted) {
                assert!((got - wanted).abs() <= 1e-9 * largest, "{got} {wanted}");
            }
            assert!(l1 == 0.0 || got.iter().filter(|&&w| w == 0.0).count() > 20);
        }
    }
}

#[test]
fn memory_follows_what_is_not_zero() {
    let problem = Problem::new(20, 50_000, 4000);
    let penalty = |l1| Shrinkage::new(10.0, l1, 0.0).unwrap();
    let mut store = problem.store::<f32>(&[]);
    let empty = store.memory();
    problem.take(&mut store, penalty(0.0), 1, false, 1);
    let (_, indices, _) = exported(&store, &START, problem.rows);
    let bytes = (store.memory() - empty) / indices.len();
    assert!((8..=20).contains(&bytes), "{bytes} bytes an entry");
    // A strong penalty clears the rows that steps still visit, which then need no room.
    let mut store = problem.store::<f32>(&[]);
    problem.take(&mut store, penalty(10.0), 1, false, 1);
    assert!(store.memory() < empty + 20 * 4000);
}

#[test]
fn threads_change_no_bit() {
    let problem = Problem::new(40, 300, 700);
    let groups: Vec<i64> = (0..40).map(|row| row * 7 % 5).collect();
    for (groups, l2) in [(&[][..], 0.01), (&groups[..], 0.0)] {
        let penalty = Shrinkage::new(3.0, 0.002, l2).unwrap();
        for batch_size in [1, 2, 64, 1000] {
            let run = |threads| {
                let mut store = problem.store::<f32>(groups);
                let (margins, state) =
                    problem.take(&mut store, penalty, batch_size, false, threads);
                (margins, exported(&store, &state, problem.rows), state)
            };
            let one = run(1);
            assert!(!one.1.1.is_empty());
            for threads in [2, 3, 5] {
                assert_eq!(run(threads), one);
            }
        }
    }
}

#[test]
fn hogwild_comes_close_to_the_ordered_steps() {
    // Every margin is violated here, so both take the same steps, in another order.
    let problem = Problem::new(40, 300, 2000);
    let penalty = Shrinkage::new(10.0, 0.001, 0.0).unwrap();
    let [ordered, racing] = [false, true].map(|hogwild| {
        let mut store = problem.store::<f64>(&[]);
        let (margins, state) = problem.take(&mut store, penalty, 1, hogwild, 3);
        assert_eq!(state.step, START.step + 2000.0);
        assert!(margins.iter().all(|margin| margin.is_finite()));
        full(&store, &state, &problem)
    });
    let norm = |w: &[f64]| w.iter().map(|w| w * w).sum::<f64>().sqrt();
    let difference: Vec<f64> = ordered.iter().zip(&racing).map(|(a, b)| a - b).collect();
    assert!(norm(&ordered) > 0.0);
    assert!(norm(&difference) < 0.1 * norm(&ordered));
}

#[test]
fn a_store_goes_on_where_its_state_was_taken() {
    let problem = Problem::new(20, 300, 600);
    let penalty = Shrinkage::new(7.0, 0.002, 0.1).unwrap();
    let mut store = problem.store::<f32>(&[]);
    let (_, state) = problem.take(&mut store, penalty, 1, false, 1);
    let mut counts = vec![0; problem.rows];
    store.counts(&state, &mut counts).unwrap();
    let (indptr, mut indices, mut values) = exported(&store, &state, problem.rows);
    store
        .export(&state, &indptr, &mut indices, &mut values, false)
        .unwrap();
    let mut row_state = vec![0.0; 3 * problem.rows];
    store.state(&mut row_state, &mut []).unwrap();
    let again = Store::new(
        problem.columns,
        &indptr,
        &indices,
        &values,
        &row_state,
        &[],
        &[],
        &[],
    )
    .unwrap();
    assert_eq!(
        exported(&again, &state, problem.rows),
        exported(&store, &state, problem.rows)
    );
}

#[test]
fn what_does_not_fit_is_refused() {
    let problem = Problem::new(20, 30, 10);
    let (queries, documents) = (problem.queries.rows(), problem.documents.rows());
    let rank_weights = RankWeights::new(&[1.0], 12).unwrap();
    let team = ThreadTeam::new(1).unwrap();
    let margins = |rows: usize, columns: usize, ids: &[i64]| {
        let row_state = [1.0, 0.0, 0.0].repeat(rows);
        let indptr = vec![0; rows + 1];
        let store = Store::<f32>::new(columns, &indptr, &[], &[], &row_state, &[], &[], &[]);
        let triplets = Triplets::new(&queries, &documents, ids, 3, false).unwrap();
        let (mut out, mut weights, mut negatives) = ([0.0], [0.0], [0]);
        store.unwrap().margins(
            &triplets,
            &rank_weights,
            &START,
            &mut out,
            &mut weights,
            &mut negatives,
            &team,
        )
    };
    assert!(margins(20, 30, &[0, 1, 2]).is_ok());
    assert!(margins(20, 30, &[12, 1, 2]).is_err());
    assert!(margins(20, 30, &[0, -1, 2]).is_err());
    assert!(margins(2, 30, &[0, 1, 2]).is_err());
    assert!(margins(20, 3, &[0, 1, 2]).is_err());
    assert!(RankWeights::new(&[], 12).is_err());
    assert!(Shrinkage::new(0.0, 0.0, 0.0).is_err());
    assert!(Triplets::new(&queries, &documents, &[0, 1], 3, false).is_err());
    assert!(Store::<f32>::new(3, &[0, 1], &[3], &[1.0], &[1.0, 0.0, 0.0], &[], &[], &[]).is_err());
}

#[test]
fn scores_equal_their_definition() {
    let (rows, columns) = (20, 30);
    let queries = Matrix::random(5, 19, rows, 6);
    let weights = Matrix::random(6, rows as usize, columns, 10);
    let documents = Matrix::random(7, 11, columns, 8);
    for threads in [1, 3] {
        let mut out = vec![0.0; 19 * 11];
        bilinear_scores(
            &queries.rows(),
            19,
            &weights.rows(),
            rows as usize,
            Compressed::new(
                &documents.indptr,
                &documents.indices,
                &documents.data,
                columns as usize,
            )
            .unwrap(),
            &mut out,
            &ThreadTeam::new(threads).unwrap(),
        )
        .unwrap();
        for (query, out) in (0..).zip(out.chunks(11)) {
            let mut image = vec![0.0; columns as usize];
            for (row, a) in queries.row(query) {
                let row = i64::try_from(row).unwrap();
                weights.row(row).for_each(|(c, w)| image[c] += a * w);
            }
            for (document, &got) in (0..).zip(out) {
                let products = documents.row(document).map(|(c, d)| d * image[c]);
                assert_eq!(got, products.fold(0.0, |total, product| total + product));
            }
        }
    }
}

const LISTS: Positives<'static> = Positives {
    queries: &[0, 2, 3],
    query_sums: &[],
    list_of: &[0, 1, 1, 2],
    list_ptr: &[0, 4, 7, 8],
    members: &[0, 4, 5, 9, 1, 2, 3, 7],
    member_sums: &[],
    itself: &[4, -1, 1, -1],
    member_weights: &[],
    n_documents: 11,
    any_other: false,
};

#[test]
fn draws_equal_those_of_the_reference() {
    let counted = Positives {
        query_sums: &[9, 15, 17],
        member_sums: &[3, 3, 4, 9, 0, 5, 6, 2],
        ..LISTS
    };
    let any_other = Positives {
        any_other: true,
        ..LISTS
    };
    // Printed by `reference_bilinear.draw_tuples`.
    let cases: [(Positives<'_>, usize, u64, u64, &[i64]); 6] = [
        (
            LISTS,
            1,
            0,
            0,
            &[
                2, 3, 6, 8, 0, 0, 10, 2, 3, 7, 5, 4, 0, 5, 6, 10, 0, 9, 7, 1, 0, 5, 1, 3,
            ],
        ),
        (
            LISTS,
            1,
            7,
            u64::MAX - 2,
            &[
                0, 0, 8, 2, 2, 2, 0, 10, 2, 2, 10, 10, 3, 7, 5, 6, 2, 3, 10, 9, 2, 3, 5, 5,
            ],
        ),
        (
            LISTS,
            1,
            (1 << 63) + 11,
            1_000_000_000_000,
            &[
                3, 7, 4, 10, 2, 3, 6, 5, 0, 9, 1, 1, 0, 0, 6, 10, 0, 0, 1, 6, 2, 2, 0, 7,
            ],
        ),
        (
            counted,
            2,
            3,
            5,
            &[
                0, 0, 0, 3, 8, 2, 3, 2, 6, 0, 2, 2, 2, 4, 0, 0, 9, 0, 3, 10, 2, 2, 2, 0, 8, 2, 2,
                2, 0, 7,
            ],
        ),
        (
            any_other,
            1,
            4,
            0,
            &[
                2, 3, 9, 8, 3, 7, 3, 1, 0, 0, 9, 2, 2, 3, 4, 4, 0, 9, 1, 3, 3, 7, 2, 9,
            ],
        ),
        (
            LISTS,
            3,
            5,
            2,
            &[
                2, 3, 2, 2, 9, 3, 7, 7, 7, 8, 2, 3, 2, 3, 8, 0, 0, 5, 0, 2, 2, 2, 3, 3, 0, 3, 7, 7,
                7, 1,
            ],
        ),
    ];
    for (fields, positives, seed, first, wanted) in cases {
        let lists = PositiveLists::new(fields).unwrap();
        let mut out = vec![0; wanted.len()];
        sample_triplets(seed, first, &lists, positives, wanted.len() / 6, &mut out).unwrap();
        assert_eq!(out, wanted);
    }
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    let only_itself = Positives {
        queries: &[3],
        itself: &[-1, -1, -1, 7],
        ..LISTS
    };
    assert!(PositiveLists::new(only_itself).is_err());
    let short = Positives {
        member_weights: &[1.0],
        ..LISTS
    };
    assert!(PositiveLists::new(short).is_err());
    let lists = PositiveLists::new(LISTS).unwrap();
    assert!(sample_triplets(0, 0, &lists, 1, 2, &mut [0; 2]).is_err());
    assert!(sample_triplets(0, 0, &lists, 2, 3, &mut [0; 3]).is_err());
}
