//! Training and scores of the bilinear model.

use pyo3::prelude::*;
use ranking_core::Error;
use ranking_core::bilinear as core;
use ranking_core::bilinear::{
    PassiveAggressivePlan, Plan, RankWeights, ShrinkageState, SparseRows, Store, Triplets,
};
use ranking_core::pairwise::PassiveAggressive;

use crate::arguments::{
    Array, ArrayMut, Csr, Either, RowMajor, Table, TableMut, Threads, Values, ValuesMut, argument,
    family, methods, python_error, with_sparse,
};
use crate::native::{NativeCall, form};

/// Features of queries and documents.
pub(crate) struct Features<'a> {
    queries: Box<dyn SparseRows + Send + 'a>,
    documents: Box<dyn SparseRows + Send + 'a>,
    transposed: bool,
}

impl Features<'_> {
    fn triplets<'a>(&'a self, triplets: RowMajor<&'a [i64]>) -> Result<Triplets<'a>, Error> {
        let (queries, documents) = (&*self.queries, &*self.documents);
        let RowMajor { data, width } = triplets;
        Triplets::new(queries, documents, data, width, self.transposed)
    }
}

argument! {
    BilinearFeatures<'py> { queries: Csr<'py>, documents: Csr<'py>, transposed: bool }
    => Features<'a> = Ok(Features {
        queries: queries.rows().map_err(python_error)?,
        documents: documents.rows().map_err(python_error)?,
        transposed,
    })
}

/// A pairwise loss; its form is converted by those who use it.
pub(crate) struct Loss<'a> {
    form: i64,
    slope: (usize, usize),
    rank_weights: &'a [f64],
    n_documents: usize,
}

impl<'a> Loss<'a> {
    fn rank_weights(&self) -> Result<RankWeights<'a>, Error> {
        RankWeights::new(self.rank_weights, self.n_documents)
    }
}

argument! {
    PairwiseLoss<'py> {
        form: i64,
        slope: NativeCall,
        rank_weights: Array<'py, f64>,
        n_documents: usize,
    } => Loss<'a> = Ok(Loss { form, slope, rank_weights, n_documents })
}

argument! {
    UpdateRule { prox_interval: f64, l1: f64, l2: f64, grow: bool }
    => core::UpdateRule = core::UpdateRule::new(prox_interval, l1, l2, grow)
        .map_err(python_error)
}

/// How steps are executed.
pub(crate) struct Execute {
    pub(crate) batch_size: usize,
    hogwild: bool,
    pub(crate) team: ranking_core::ThreadTeam,
}

argument! {
    Execution { batch_size: usize, hogwild: bool, threads: Threads }
    => Execute = Ok(Execute { batch_size, hogwild, team: threads })
}

argument! {
    Violations<'py> {
        margins: ArrayMut<'py, f64>,
        weights: ArrayMut<'py, f64>,
        negatives: ArrayMut<'py, i64>,
    } => core::Violations<'a> = Ok(core::Violations { margins, weights, negatives })
}

argument! {
    StepResults<'py> { margins: ArrayMut<'py, f64>, weights: ArrayMut<'py, f64> }
    => core::StepResults<'a> = Ok(core::StepResults { margins, weights })
}

argument! {
    PassiveResults<'py> {
        margins: ArrayMut<'py, f64>,
        weights: ArrayMut<'py, f64>,
        learning_rates: ArrayMut<'py, f64>,
    } => core::PassiveResults<'a> = Ok(core::PassiveResults { margins, weights, learning_rates })
}

/// W in either precision.
enum Precision<S, D> {
    Single(S),
    Double(D),
}

/// W while it is trained.
#[pyclass(module = "ranking_rust._core")]
pub(crate) struct BilinearStore(Precision<Store<f32>, Store<f64>>);

/// Run `$body` with `$store` bound to the store of whichever precision it has.
macro_rules! with_store {
    ($store:expr, |$x:ident| $body:expr) => {
        match $store {
            Precision::Single($x) => $body,
            Precision::Double($x) => $body,
        }
    };
}

fn read_state(shrinkage: &[f64]) -> Result<ShrinkageState, Error> {
    let state = <[f64; 4]>::try_from(shrinkage).map(ShrinkageState::from);
    state.map_err(|_| Error::Argument("shrinkage must have 4 elements".into()))
}

/// Run work that changes the shrinkage state.
fn with_state(
    shrinkage: &mut [f64],
    work: impl FnOnce(&mut ShrinkageState) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut state = read_state(shrinkage)?;
    let result = work(&mut state);
    shrinkage.copy_from_slice(&<[f64; 4]>::from(state));
    result
}

methods! {
    BilinearStore;

    fn margins(
        [&self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        loss: PairwiseLoss<'_>,
        shrinkage: Array<'_, f64>,
        out: Violations<'_>,
        threads: Threads,
    ) -> () {
        let (triplets, state) = (features.triplets(triplets)?, read_state(shrinkage)?);
        let weights = loss.rank_weights()?;
        with_store!(&self.0, |store| store.margins(&triplets, &weights, &state, out, &threads))
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
    ) -> () {
        let triplets = features.triplets(triplets)?;
        with_state(shrinkage, |state| {
            with_store!(&mut self.0, |store| {
                store.update(&triplets, slopes, learning_rates, &rule, state, &threads)
            })
        })
    }

    fn train(
        [&mut self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        learning_rates: Array<'_, f64>,
        loss: PairwiseLoss<'_>,
        rule: UpdateRule,
        shrinkage: ArrayMut<'_, f64>,
        out: StepResults<'_>,
        execution: Execution,
    ) -> () {
        let triplets = features.triplets(triplets)?;
        let plan = Plan {
            learning_rates,
            form: form(loss.form, loss.slope)?,
            rank_weights: loss.rank_weights()?,
            rule,
            batch_size: execution.batch_size,
            hogwild: execution.hogwild,
        };
        with_state(shrinkage, |state| {
            with_store!(&mut self.0, |store| {
                store.train(&triplets, &plan, state, out, &execution.team)
            })
        })
    }

    fn passive_aggressive(
        [&mut self],
        features: BilinearFeatures<'_>,
        triplets: Table<'_, i64>,
        list_sizes: Array<'_, i64>,
        loss: PairwiseLoss<'_>,
        aggressiveness: f64,
        grow: bool,
        shrinkage: ArrayMut<'_, f64>,
        out: PassiveResults<'_>,
    ) -> () {
        let triplets = features.triplets(triplets)?;
        let plan = PassiveAggressivePlan {
            loss: PassiveAggressive::try_from(loss.form)?,
            aggressiveness,
            rank_weights: loss.rank_weights,
            list_sizes,
            grow,
        };
        with_state(shrinkage, |state| {
            with_store!(&mut self.0, |store| {
                store.passive_aggressive(&triplets, &plan, state, out)
            })
        })
    }

    fn counts([&self], shrinkage: Array<'_, f64>, out: ArrayMut<'_, i64>) -> () {
        let state = read_state(shrinkage)?;
        with_store!(&self.0, |store| store.counts(&state, out))
    }

    fn export(
        [&self],
        shrinkage: Array<'_, f64>,
        out: CsrOut<'_>,
        current: bool,
    ) -> () {
        let (state, (indptr, indices, data)) = (read_state(shrinkage)?, out);
        match (&self.0, data) {
            (Precision::Single(store), Either::One(data)) => {
                store.export(&state, indptr, indices, data, current)
            }
            (Precision::Double(store), Either::Other(data)) => {
                store.export(&state, indptr, indices, data, current)
            }
            _ => Err(Error::Argument("data must have the dtype of W".into())),
        }
    }

    fn state(
        [&self],
        row_state: TableMut<'_, f64>,
        group_state: TableMut<'_, f64>,
    ) -> () {
        with_store!(&self.0, |store| store.state(row_state.data, group_state.data))
    }

    fn memory([&self],) -> usize {
        Ok(with_store!(&self.0, |store| store.memory()))
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
    => Weights<'a> = Ok((indptr, indices, data))
}

argument! {
    CsrOut<'py> { indptr: Array<'py, i64>, indices: ArrayMut<'py, i32>, data: ValuesMut<'py> }
    => WeightsMut<'a> = Ok((indptr, indices, data))
}

/// Values from which a store starts.
pub(crate) struct Start<'a> {
    weights: Weights<'a>,
    row_state: &'a [f64],
    groups: &'a [i64],
    group_weights: &'a [f64],
    group_state: &'a [f64],
}

impl<'a> Start<'a> {
    fn store<T: ranking_core::Stored>(
        &self,
        n_columns: usize,
        data: &'a [T],
    ) -> Result<Store<T>, Error> {
        let state = core::BilinearState {
            indptr: self.weights.0,
            indices: self.weights.1,
            data,
            row_state: self.row_state,
            groups: self.groups,
            group_weights: self.group_weights,
            group_state: self.group_state,
        };
        Store::new(n_columns, &state)
    }
}

argument! {
    BilinearState<'py> {
        weights: CsrIn<'py>,
        row_state: Table<'py, f64>,
        groups: Array<'py, i64>,
        group_weights: Array<'py, f64>,
        group_state: Table<'py, f64>,
    } => Start<'a> = Ok(Start {
        weights,
        row_state: row_state.data,
        groups,
        group_weights,
        group_state: group_state.data,
    })
}

family! {
    bilinear;

    fn bilinear_store(n_columns: usize, state: BilinearState<'_>) -> BilinearStore {
        Ok(BilinearStore(match state.weights.2 {
            Either::One(data) => Precision::Single(state.store(n_columns, data)?),
            Either::Other(data) => Precision::Double(state.store(n_columns, data)?),
        }))
    }

    fn bilinear_scores(
        queries: Csr<'_>,
        weights: Csr<'_>,
        documents: Csr<'_>,
        n_columns: usize,
        out: TableMut<'_, f64>,
        threads: Threads,
    ) -> () {
        let (n_queries, n_rows) = (queries.n_rows(), weights.n_rows());
        let (queries, weights) = (&*queries.rows()?, &*weights.rows()?);
        with_sparse!(documents, n_columns, |documents| {
            core::bilinear_scores(
                (queries, n_queries),
                (weights, n_rows),
                documents,
                out.data,
                &threads,
            )
        })
    }
}
