//! Training of the factored model.

use pyo3::prelude::*;
use ranking_core::factored as core;
use ranking_core::pairwise::StepResults as CoreResults;
use ranking_core::{Sparse, Stored};

use crate::arguments::{Array, ArrayMut, Csr, Table, TableMut, argument, family};
use crate::bilinear::Execution;
use crate::native::{ListwiseLoss, PairwiseLoss};
use crate::sampling::Sampling;

/// Sparse features, or None where each query (document) has a row of its own.
pub(crate) struct OptionalFeatures<'a> {
    queries: Option<Sparse<'a>>,
    documents: Option<Sparse<'a>>,
    contexts: Option<Sparse<'a>>,
}

impl<'a> OptionalFeatures<'a> {
    /// The features, given the numbers of rows of U and V.
    fn over(&self, [u_rows, v_rows]: [usize; 2]) -> core::FactoredFeatures<'a> {
        let of = |features: Option<Sparse<'a>>, n: usize| {
            features.map_or(core::Features::Own(n), |x| core::Features::Sparse(x, n))
        };
        core::FactoredFeatures {
            queries: of(self.queries, u_rows),
            documents: of(self.documents, v_rows),
            contexts: self.contexts.map(|x| core::Features::Sparse(x, v_rows)),
        }
    }
}

argument! {
    FactoredFeatures<'py> {
        queries: Option<Csr<'py>>,
        documents: Option<Csr<'py>>,
        contexts: Option<Csr<'py>>,
    } => OptionalFeatures<'a> = OptionalFeatures { queries, documents, contexts }
}

argument! {
    FactorsMut<'py> {
        queries: TableMut<'py, f32>,
        documents: ArrayMut<'py, f32>,
        contexts: ArrayMut<'py, f32>,
        biases: ArrayMut<'py, f32>,
    } => core::FactorsMut<'a> =
        core::FactorsMut::new([queries.data, documents, contexts], biases, queries.width)
}

argument! { FactoredState<'py> { factors: FactorsMut<'py>, squares: FactorsMut<'py> } }

argument! {
    TripletSource<'py> {
        triplets: Table<'py, i64>,
        sampling: Option<Sampling<'py>>,
        n_positives: usize,
        positive_rank: usize,
    } => core::TripletSource<'a> = core::TripletSource {
        triplets: triplets.data,
        width: triplets.width,
        sampling,
        n_positives,
        positive_rank,
    }
}

argument! {
    RowPenalty { max_norm: f64, rowwise: bool } => core::RowPenalty = core::RowPenalty {
        max_norm: f32::narrow(max_norm),
        rowwise,
    }
}

argument! {
    StepResults<'py> { margins: ArrayMut<'py, f32>, weights: ArrayMut<'py, f32> }
    => CoreResults<'a, f32> = CoreResults { margins, weights }
}

family! {
    factored;

    fn factored_train(
        features: FactoredFeatures<'_>,
        state: FactoredState<'_>,
        source: TripletSource<'_>,
        learning_rates: Array<'_, f32>,
        loss: PairwiseLoss<'_, f32>,
        penalty: RowPenalty,
        out: StepResults<'_>,
        execution: Execution,
    ) {
        let mut state = state;
        let features = features.over(state.factors.view().n_rows());
        let steps = core::Steps {
            learning_rates,
            penalty,
            batch_size: execution.batch_size,
        };
        let (form, ranks, team) = (loss.form(), &loss.rank_weights, &execution.team);
        core::factored_train(&features, &mut state, &source, steps, form, ranks, out, team);
    }

    fn factored_train_lists(
        features: FactoredFeatures<'_>,
        state: FactoredState<'_>,
        source: TripletSource<'_>,
        learning_rates: Array<'_, f32>,
        loss: ListwiseLoss,
        penalty: RowPenalty,
        losses: ArrayMut<'_, f64>,
        execution: Execution,
    ) {
        let mut state = state;
        let features = features.over(state.factors.view().n_rows());
        let steps = core::Steps {
            learning_rates,
            penalty,
            batch_size: execution.batch_size,
        };
        let (loss, team) = (loss.form(), &execution.team);
        core::factored_train_lists(&features, &mut state, &source, steps, loss, losses, team);
    }
}
