//! What the parity tests cannot see of a store: memory, and how close hogwild comes.

mod common;

use common::{Sparse, doubles, team, triplets};
use ranking_core::bilinear::{
    BilinearState, CsrRows, Plan, RankWeights, ShrinkageState, StepResults, Store, Triplets,
    UpdateRule,
};
use ranking_core::pairwise::PairwiseForm;
use ranking_core::{Error, Stored};

struct Problem {
    rows: u32,
    columns: u32,
    steps: usize,
}

type Entries<T> = (Vec<i64>, Vec<i32>, Vec<T>);

impl Problem {
    fn store<T: Stored>(&self) -> Store<T> {
        let rows = self.rows as usize;
        let state = BilinearState {
            indptr: &vec![0; rows + 1],
            indices: &[],
            data: &[],
            row_state: &[1.0, 0.0, 0.0].repeat(rows),
            groups: &[],
            group_weights: &[],
            group_state: &[],
        };
        Store::new(self.columns as usize, &state).unwrap()
    }

    /// Train, beginning a few steps before a window ends.
    fn train<T: Stored>(
        &self,
        store: &mut Store<T>,
        rule: UpdateRule,
        threads: usize,
    ) -> Result<(Vec<f64>, ShrinkageState), Error> {
        let queries = Sparse::random(1, 12, self.rows, 6);
        let documents = Sparse::random(2, 12, self.columns, 20);
        let [queries, documents] =
            [&queries, &documents].map(|x| CsrRows::new(&x.indptr, &x.indices, &x.data).unwrap());
        let ids = triplets(3, self.steps, 3, 12);
        let rates: Vec<_> = doubles(4, self.steps)
            .iter()
            .map(|x| 0.1 * x.abs())
            .collect();
        let plan = Plan {
            learning_rates: &rates,
            form: PairwiseForm::Logistic,
            rank_weights: RankWeights::new(&[1.0], 12)?,
            rule,
            batch_size: 1,
            hogwild: threads > 1,
        };
        let mut state = ShrinkageState::from([4088.0, 1.0, 0.0, 0.0]);
        let (mut margins, mut weights) = (vec![0.0; self.steps], vec![0.0; self.steps]);
        let out = StepResults {
            margins: &mut margins,
            weights: &mut weights,
        };
        let ids = Triplets::new(&queries, &documents, &ids, 3, false)?;
        store.train(&ids, &plan, &mut state, out, &team(threads))?;
        Ok((margins, state))
    }

    fn entries<T: Stored>(&self, store: &Store<T>, state: &ShrinkageState) -> Entries<T> {
        let mut indptr = vec![0; self.rows as usize + 1];
        store.counts(state, &mut indptr[1..]).unwrap();
        for row in 1..indptr.len() {
            indptr[row] += indptr[row - 1];
        }
        let size = usize::try_from(*indptr.last().unwrap()).unwrap();
        let (mut indices, mut data) = (vec![0; size], vec![T::default(); size]);
        store
            .export(state, &indptr, &mut indices, &mut data, true)
            .unwrap();
        (indptr, indices, data)
    }
}

fn rule(prox_interval: f64, l1: f64, l2: f64) -> UpdateRule {
    UpdateRule::new(prox_interval, l1, l2, true).unwrap()
}

#[test]
fn memory_follows_what_is_not_zero() {
    let problem = Problem {
        rows: 20,
        columns: 50_000,
        steps: 4000,
    };
    let mut store = problem.store::<f32>();
    let empty = store.memory();
    let (_, state) = problem.train(&mut store, rule(10.0, 0.0, 0.0), 1).unwrap();
    let (_, indices, _) = problem.entries(&store, &state);
    let bytes = (store.memory() - empty) / indices.len();
    assert!((8..=20).contains(&bytes), "{bytes} bytes per entry");
    // A strong penalty clears the rows that steps still change, which then need no memory.
    let mut store = problem.store::<f32>();
    problem.train(&mut store, rule(10.0, 10.0, 0.0), 1).unwrap();
    assert!(store.memory() < empty + 20 * 4000);
}

#[test]
fn hogwild_is_close_to_ordered_steps() {
    // Every margin is violated here, so both take the same steps, in another order.
    let problem = Problem {
        rows: 40,
        columns: 300,
        steps: 2000,
    };
    let [ordered, racing] = [1, 3].map(|threads| {
        let mut store = problem.store::<f64>();
        let result = problem.train(&mut store, rule(10.0, 0.001, 0.0), threads);
        let (margins, state) = result.unwrap();
        assert_eq!(state.step, 4088.0 + 2000.0);
        assert!(margins.iter().all(|margin| margin.is_finite()));
        let (indptr, indices, data) = problem.entries(&store, &state);
        let mut w = vec![0.0; 40 * 300];
        for (row, ends) in indptr.windows(2).enumerate() {
            for at in usize::try_from(ends[0]).unwrap()..usize::try_from(ends[1]).unwrap() {
                w[row * 300 + usize::try_from(indices[at]).unwrap()] = data[at];
            }
        }
        w
    });
    let norm = |w: &[f64]| w.iter().map(|w| w * w).sum::<f64>().sqrt();
    let difference: Vec<f64> = ordered.iter().zip(&racing).map(|(a, b)| a - b).collect();
    assert!(norm(&ordered) > 0.0);
    assert!(norm(&difference) < 0.1 * norm(&ordered));
}
