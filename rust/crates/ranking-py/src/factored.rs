//! Training and scores of the factored model.

use pyo3::prelude::*;
use ranking_core::factored as core;
use ranking_core::{Error, Stored};

use crate::arguments::{
    Array, ArrayMut, Csr, Sparse, Table, TableMut, Threads, argument, family, python_error,
    with_sparse,
};
use crate::bilinear::Execution;
use crate::native::{NativeCall, form};
use crate::sampling::Sampling;

/// Sparse features, or None where each query (document) has a row of its own.
pub(crate) struct OptionalFeatures<'a> {
    queries: Option<Sparse<'a>>,
    documents: Option<Sparse<'a>>,
    contexts: Option<Sparse<'a>>,
}

impl<'a> OptionalFeatures<'a> {
    /// The features, given the numbers of rows of U and V.
    fn with_rows(&self, rows: [usize; 2]) -> Result<core::FactoredFeatures<'a>, Error> {
        let of = |features: Option<Sparse<'a>>, n_features: usize| {
            features.map_or(Ok(core::Features::Own(n_features)), |features| {
                sparse(features, n_features)
            })
        };
        let contexts = self.contexts.map(|contexts| sparse(contexts, rows[1]));
        Ok(core::FactoredFeatures {
            queries: of(self.queries, rows[0])?,
            documents: of(self.documents, rows[1])?,
            contexts: contexts.transpose()?,
        })
    }
}

fn sparse(features: Sparse<'_>, n_features: usize) -> Result<core::Features<'_>, Error> {
    with_sparse!(features, n_features, |x| Ok(core::Features::from(x)))
}

argument! {
    FactoredFeatures<'py> {
        queries: Option<Csr<'py>>,
        documents: Option<Csr<'py>>,
        contexts: Option<Csr<'py>>,
    } => OptionalFeatures<'a> = Ok(OptionalFeatures { queries, documents, contexts })
}

fn one_width(widths: [usize; 3]) -> PyResult<usize> {
    if widths[1] == widths[0] && widths[2] == widths[0] {
        return Ok(widths[0]);
    }
    let message = format!("factors have the widths {widths:?}, expected one width");
    Err(python_error(Error::Argument(message)))
}

argument! {
    Factors<'py> {
        queries: Table<'py, f32>,
        documents: Table<'py, f32>,
        contexts: Table<'py, f32>,
        biases: Array<'py, f32>,
    } => core::Factors<'a> = {
        let width = one_width([queries.width, documents.width, contexts.width])?;
        core::Factors::new([queries.data, documents.data, contexts.data], biases, width)
            .map_err(python_error)
    }
}

argument! {
    FactorsMut<'py> {
        queries: TableMut<'py, f32>,
        documents: TableMut<'py, f32>,
        contexts: TableMut<'py, f32>,
        biases: ArrayMut<'py, f32>,
    } => core::FactorsMut<'a> = {
        let width = one_width([queries.width, documents.width, contexts.width])?;
        core::FactorsMut::new([queries.data, documents.data, contexts.data], biases, width)
            .map_err(python_error)
    }
}

argument! {
    FactoredState<'py> { factors: FactorsMut<'py>, squares: FactorsMut<'py> }
    => core::FactoredState<'a> = Ok(core::FactoredState { factors, squares })
}

argument! {
    TripletSource<'py> {
        triplets: Table<'py, i64>,
        sampling: Option<Sampling<'py>>,
        n_positives: usize,
        positive_rank: usize,
    } => core::TripletSource<'a> = Ok(core::TripletSource {
        triplets: triplets.data,
        width: triplets.width,
        sampling,
        n_positives,
        positive_rank,
    })
}

/// A pairwise loss; its form is converted by those who use it.
pub(crate) struct Loss<'a> {
    form: i64,
    slope: (usize, usize),
    rank_weights: core::RankWeights<'a>,
}

argument! {
    PairwiseLoss<'py> {
        form: i64,
        slope: NativeCall,
        rank_weights: Array<'py, f32>,
        n_documents: usize,
    } => Loss<'a> = Ok(Loss {
        form,
        slope,
        rank_weights: core::RankWeights { weights: rank_weights, n_documents },
    })
}

argument! {
    RowPenalty { l2: f64, max_norm: f64 } => core::RowPenalty = Ok(core::RowPenalty {
        l2: f32::narrow(l2),
        max_norm: f32::narrow(max_norm),
    })
}

argument! {
    StepResults<'py> { margins: ArrayMut<'py, f32>, weights: ArrayMut<'py, f32> }
    => core::StepResults<'a> = Ok(core::StepResults { margins, weights })
}

argument! {
    SampledTriplets<'py> {
        triplets: TableMut<'py, i64>,
        margins: ArrayMut<'py, f32>,
        weights: ArrayMut<'py, f32>,
    } => core::SampledTriplets<'a> = Ok(core::SampledTriplets {
        triplets: triplets.data,
        margins,
        weights,
    })
}

argument! {
    FactoredSteps<'py> {
        queries: Array<'py, i64>,
        step_ptr: Array<'py, i64>,
        documents: Array<'py, i64>,
        slopes: Array<'py, f32>,
    } => core::FactoredSteps<'a> = Ok(core::FactoredSteps {
        queries,
        step_ptr,
        documents,
        slopes,
    })
}

argument! {
    Embeddings<'py> {
        queries: Table<'py, f32>,
        documents: Table<'py, f32>,
        biases: Array<'py, f32>,
    } => core::Embeddings<'a> =
        core::Embeddings::new(queries.data, documents.data, biases, documents.width)
            .map_err(python_error)
}

argument! {
    Exclusions<'py> { indptr: Array<'py, i64>, documents: Array<'py, i64> }
    => core::Exclusions<'a> = Ok(core::Exclusions { indptr, documents })
}

argument! {
    TopK<'py> { documents: TableMut<'py, i64>, scores: TableMut<'py, f32> }
    => core::TopK<'a> = Ok(core::TopK { documents: documents.data, scores: scores.data })
}

family! {
    factored;

    fn factored_embeddings(
        features: Csr<'_>,
        matrix: Table<'_, f32>,
        out: TableMut<'_, f32>,
        threads: Threads,
    ) -> () {
        let n_features = matrix.data.len() / matrix.width.max(1);
        let features = sparse(features, n_features)?;
        core::factored_embeddings(&features, matrix.data, matrix.width, out.data, &threads)
    }

    fn factored_scores(
        embeddings: Embeddings<'_>,
        out: TableMut<'_, f32>,
        threads: Threads,
    ) -> () {
        core::factored_scores(embeddings, out.data, &threads)
    }

    fn factored_top_k(
        embeddings: Embeddings<'_>,
        exclusions: Exclusions<'_>,
        out: TopK<'_>,
        threads: Threads,
    ) -> () {
        core::factored_top_k(embeddings, exclusions, out, &threads)
    }

    fn factored_sample(
        features: FactoredFeatures<'_>,
        factors: Factors<'_>,
        source: TripletSource<'_>,
        loss: PairwiseLoss<'_>,
        out: SampledTriplets<'_>,
        threads: Threads,
    ) -> () {
        let features = features.with_rows(factors.n_rows())?;
        core::factored_sample(&features, factors, &source, &loss.rank_weights, out, &threads)
    }

    fn factored_update(
        features: FactoredFeatures<'_>,
        state: FactoredState<'_>,
        steps: FactoredSteps<'_>,
        learning_rate: f64,
        penalty: RowPenalty,
        threads: Threads,
    ) -> () {
        let (mut state, learning_rate) = (state, f32::narrow(learning_rate));
        let features = features.with_rows(state.factors.n_rows())?;
        core::factored_update(&features, &mut state, &steps, learning_rate, penalty, &threads)
    }

    fn factored_train(
        features: FactoredFeatures<'_>,
        state: FactoredState<'_>,
        source: TripletSource<'_>,
        learning_rates: Array<'_, f32>,
        loss: PairwiseLoss<'_>,
        penalty: RowPenalty,
        out: StepResults<'_>,
        execution: Execution,
    ) -> () {
        let mut state = state;
        let features = features.with_rows(state.factors.n_rows())?;
        // Hogwild allows any order; the order without it is one.
        let plan = core::Plan {
            learning_rates,
            form: form(loss.form, loss.slope)?,
            rank_weights: loss.rank_weights,
            penalty,
            batch_size: execution.batch_size,
        };
        core::factored_train(&features, &mut state, &source, &plan, out, &execution.team)
    }
}
