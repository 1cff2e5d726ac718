//! Training of the bilinear model.

use pyo3::prelude::*;
use ranking_core::Sparse;
use ranking_core::bilinear as core;
use ranking_core::bilinear::{PassiveAggressivePlan, Plan, ShrinkageState, Store, Triplets};
use ranking_core::pairwise::{PassiveAggressive, StepResults as CoreResults};

use crate::arguments::{
    Array, ArrayMut, Csr, Either, RowMajor, Table, Threads, Values, ValuesMut, argument, family,
    methods, rows, with_either,
};
use crate::native::PairwiseLoss;

/// Features of queries and documents.
pub(crate) struct Features<'a> {
    queries: Sparse<'a>,
    documents: Sparse<'a>,
    transposed: bool,
}

impl Features<'_> {
    fn triplets<'a>(&'a self, triplets: RowMajor<&'a [i64]>) -> Triplets<'a> {
        Triplets {
            queries: rows(&self.queries),
            documents: rows(&self.documents),
            ids: triplets.data,
            width: triplets.width,
            transposed: self.transposed,
        }
    }
}

argument! {
    BilinearFeatures<'py> { queries: Csr<'py>, documents: Csr<'py>, transposed: bool }
    => Features<'a> = Features { queries, documents, transposed }
}

argument! { UpdateRule { prox_interval: f64, l1: f64, l2: f64, grow: bool } }

/// How steps are executed. Hogwild allows any order; the order without it is one, and no slower.
pub(crate) struct Execute {
    pub(crate) batch_size: usize,
    pub(crate) team: ranking_core::ThreadTeam,
}

argument! {
    Execution { batch_size: usize, threads: Threads }
    => Execute = Execute { batch_size, team: threads }
}

argument! {
    Violations<'py> {
        margins: ArrayMut<'py, f64>,
        weights: ArrayMut<'py, f64>,
        negatives: ArrayMut<'py, i64>,
    }
}

argument! {
    StepResults<'py> { margins: ArrayMut<'py, f64>, weights: ArrayMut<'py, f64> }
    => CoreResults<'a, f64> = CoreResults { margins, weights }
}

argument! {
    PassiveResults<'py> {
        margins: ArrayMut<'py, f64>,
        weights: ArrayMut<'py, f64>,
        learning_rates: ArrayMut<'py, f64>,
    }
}

/// W while it is trained, in either precision.
#[pyclass(module = "ranking_rust._core")]
pub(crate) struct BilinearStore(Either<Store<f32>, Store<f64>>);

/// Run work that changes the shrinkage state.
fn with_state(shrinkage: &mut [f64], work: impl FnOnce(&mut ShrinkageState)) {
    let mut state = ShrinkageState::from(&*shrinkage);
    work(&mut state);
    shrinkage.copy_from_slice(&<[f64; 4]>::from(state));
}

methods! {
    BilinearStore;

    fn margins(
        [&self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        loss: PairwiseLoss<'_, f64>,
        shrinkage: Array<'_, f64>,
        out: Violations<'_>,
        threads: Threads,
    ) {
        let (triplets, weights) = (features.triplets(triplets), &loss.rank_weights);
        let state = ShrinkageState::from(shrinkage);
        with_either!(&self.0, |store| store.margins(&triplets, weights, &state, out, &threads));
    }

    fn update(
        [&mut self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        slopes: Array<'_, f64>,
        learning_rates: Array<'_, f64>,
        rule: UpdateRule,
        shrinkage: ArrayMut<'_, f64>,
        threads: Threads,
    ) {
        let triplets = features.triplets(triplets);
        with_state(shrinkage, |state| {
            with_either!(&mut self.0, |store| {
                store.update(&triplets, slopes, learning_rates, &rule, state, &threads);
            });
        });
    }

    fn train(
        [&mut self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        learning_rates: Array<'_, f64>,
        loss: PairwiseLoss<'_, f64>,
        rule: UpdateRule,
        shrinkage: ArrayMut<'_, f64>,
        out: StepResults<'_>,
        execution: Execution,
    ) {
        let triplets = features.triplets(triplets);
        let plan = Plan {
            learning_rates,
            form: loss.form(),
            rank_weights: loss.rank_weights,
            rule,
            batch_size: execution.batch_size,
        };
        with_state(shrinkage, |state| {
            with_either!(&mut self.0, |store| {
                store.train(&triplets, &plan, state, out, &execution.team);
            });
        });
    }

    fn passive_aggressive(
        [&mut self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        list_sizes: Array<'_, i64>,
        loss: PairwiseLoss<'_, f64>,
        aggressiveness: f64,
        grow: bool,
        shrinkage: ArrayMut<'_, f64>,
        out: PassiveResults<'_>,
    ) {
        let triplets = features.triplets(triplets);
        let plan = PassiveAggressivePlan {
            loss: PassiveAggressive::from(loss.number),
            aggressiveness,
            rank_weights: loss.rank_weights.weights,
            list_sizes,
            grow,
        };
        with_state(shrinkage, |state| {
            with_either!(&mut self.0, |store| {
                store.passive_aggressive(&triplets, &plan, state, out);
            });
        });
    }

    fn counts([&self], shrinkage: Array<'_, f64>, out: ArrayMut<'_, i64>) {
        let state = ShrinkageState::from(shrinkage);
        with_either!(&self.0, |store| store.counts(&state, out));
    }

    fn export([&self], shrinkage: Array<'_, f64>, out: CsrOut<'_>, current: bool) {
        let (state, (indptr, indices, data)) = (ShrinkageState::from(shrinkage), out);
        match (&self.0, data) {
            (Either::One(store), Either::One(data)) => {
                store.export(&state, indptr, indices, data, current);
            }
            (Either::Other(store), Either::Other(data)) => {
                store.export(&state, indptr, indices, data, current);
            }
            _ => panic!("data must have the dtype of W"),
        }
    }

    fn state([&self], row_state: ArrayMut<'_, f64>, group_state: ArrayMut<'_, f64>) {
        with_either!(&self.0, |store| store.state(row_state, group_state));
    }

    fn memory([&self],) -> usize {
        with_either!(&self.0, |store| store.memory())
    }
}

/// Indptr, indices and data of W.
type Weights<'a> = (&'a [i64], &'a [i32], Either<&'a [f32], &'a [f64]>);
type WeightsMut<'a> = (
    &'a [i64],
    &'a mut [i32],
    Either<&'a mut [f32], &'a mut [f64]>,
);

argument! {
    CsrIn<'py> { indptr: Array<'py, i64>, indices: Array<'py, i32>, data: Values<'py> }
    => Weights<'a> = (indptr, indices, data)
}

argument! {
    CsrOut<'py> { indptr: Array<'py, i64>, indices: ArrayMut<'py, i32>, data: ValuesMut<'py> }
    => WeightsMut<'a> = (indptr, indices, data)
}

/// Values from which a store starts, in either precision.
type State<'a> = Either<core::BilinearState<'a, f32>, core::BilinearState<'a, f64>>;

argument! {
    BilinearState<'py> {
        weights: CsrIn<'py>,
        row_state: Array<'py, f64>,
        groups: Array<'py, i64>,
        group_weights: Array<'py, f64>,
        group_state: Array<'py, f64>,
    } => State<'a> = {
        let (indptr, indices, data) = weights;
        macro_rules! state {
            ($data:expr) => {
                core::BilinearState {
                    indptr,
                    indices,
                    data: $data,
                    row_state,
                    groups,
                    group_weights,
                    group_state,
                }
            };
        }
        match data {
            Either::One(data) => Either::One(state!(data)),
            Either::Other(data) => Either::Other(state!(data)),
        }
    }
}

family! {
    bilinear;

    fn bilinear_store(n_columns: usize, state: BilinearState<'_>) -> BilinearStore {
        BilinearStore(match state {
            Either::One(state) => Either::One(Store::new(n_columns, &state)),
            Either::Other(state) => Either::Other(Store::new(n_columns, &state)),
        })
    }
}
