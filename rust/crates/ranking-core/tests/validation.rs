//! Arguments that do not fit together are refused, whatever the Python side has checked.

mod common;

use common::{Sparse, singles, team};
use ranking_core::alternating::{self, Rule};
use ranking_core::bilinear::{
    BilinearState, CsrRows, RankWeights, ShrinkageState, Store, Triplets, UpdateRule, Violations,
};
use ranking_core::domination::{self, CoordinateState, EntryPenalty, ListLayout};
use ranking_core::factored::{self, Embeddings, FactorsMut, Features};
use ranking_core::sampling::{Positives, Sampling, sample_triplets};
use ranking_core::{Compressed, Dense, Error, Matrix, dot, exp, linear};

#[test]
fn matrices_and_lengths() {
    assert!(Dense::new(&[0.0; 5], 2, 3).is_err());
    let fits = |indptr: &[i64], indices: &[i64]| {
        Compressed::new(indptr, indices, &[1.0_f32, 2.0], 3).is_ok()
    };
    assert!(fits(&[0, 1, 2], &[0, 2]));
    for (indptr, indices) in [
        (&[0, 1, 2][..], &[0, 3][..]),
        (&[0, 1, 2], &[0, -1]),
        (&[0, 1], &[0, 2]),
        (&[0, 2, 1, 2], &[0, 2]),
        (&[1, 1, 2], &[0, 2]),
        (&[], &[0, 2]),
        (&[0, 1, 2], &[0]),
    ] {
        assert!(!fits(indptr, indices));
    }
    assert!(dot(&[1.0], &[]).is_err());
    assert!(exp(&[1.0], &mut []).is_err());
    let x = Matrix::<i32, _>::Dense(Dense::new(&[0.0; 6], 2, 3).unwrap());
    assert!(linear::scores(x, &[0.0; 2], &mut [0.0; 2], &team(1)).is_err());
    assert!(linear::scores(x, &[0.0; 3], &mut [0.0; 1], &team(1)).is_err());
}

const LAYOUT: ListLayout<'_> = ListLayout {
    list_ptr: &[0, 2],
    layer_ptr: &[0, 4, 8],
    layer_size: &[3, 4],
    block_ptr: &[0, 1],
    omega: &[0.0; 8],
};

#[test]
fn layouts_of_lists() {
    let x = Matrix::<i32, _>::Dense(Dense::new(&[0.0; 8], 1, 8).unwrap());
    let fits =
        |layout: ListLayout<'_>| domination::bounds(x, &layout, &mut [0.0; 4], &team(1)).is_ok();
    assert!(fits(LAYOUT));
    for list_ptr in [&[0, 1][..], &[0, 1, 2], &[0, 3], &[-1, 2], &[]] {
        assert!(!fits(ListLayout { list_ptr, ..LAYOUT }));
    }
    for layer_ptr in [&[0, 4, 7][..], &[0, 5, 8], &[0, 9, 8], &[0, -4, 8], &[0, 8]] {
        assert!(!fits(ListLayout {
            layer_ptr,
            ..LAYOUT
        }));
    }
    for layer_size in [&[3, 5][..], &[0, 4], &[-3, 4], &[3]] {
        assert!(!fits(ListLayout {
            layer_size,
            ..LAYOUT
        }));
    }
    // Sparse features have no padding.
    let x = Matrix::Sparse(Compressed::new(&[0, 0], &[], &[0.0; 0], 8).unwrap());
    assert!(domination::bounds::<i32, _>(x, &LAYOUT, &mut [0.0; 4], &team(1)).is_err());
}

#[test]
fn coordinate_descent() {
    let x = Matrix::<i32, _>::Dense(Dense::new(&[0.0; 8], 1, 8).unwrap());
    let sweep = |margins: usize, bounds: usize, column: i64| {
        let state = CoordinateState {
            margins: &mut vec![0.0; margins],
            weights: &mut [0.0],
            radius: &mut [1.0],
            bounds: &vec![1.0; bounds],
        };
        let penalty = EntryPenalty { l1: 0.0, l2: 0.0 };
        domination::sweep(x, &LAYOUT, state, &[column], penalty, true, &team(1)).is_ok()
    };
    assert!(sweep(8, 3, 0));
    assert!(!sweep(7, 3, 0) && !sweep(8, 2, 0) && !sweep(8, 3, 1) && !sweep(8, 3, -1));
    let value = |margins: &[f64], block_ptr: &[i64]| {
        let layout = ListLayout {
            block_ptr,
            ..LAYOUT
        };
        domination::value(&layout, margins, &team(1))
    };
    assert!(value(&[0.0; 8], &[0, 1]).is_ok());
    assert!(value(&[0.0; 7], &[0, 1]).is_err() && value(&[0.0; 8], &[1]).is_err());
    let none = ListLayout {
        list_ptr: &[0],
        layer_ptr: &[0],
        layer_size: &[],
        block_ptr: &[0],
        omega: &[],
    };
    assert_eq!(domination::value(&none, &[], &team(1)), Ok(0.0));
}

const POSITIVES: Positives<'_> = Positives {
    queries: &[0, 1],
    query_sums: &[],
    list_of: &[0, 1],
    member_ptr: &[0, 2, 3],
    members: &[0, 4, 1],
    member_sums: &[],
    own_document: &[-1, -1],
    member_weights: &[],
    n_documents: 5,
    any_negative: false,
};

#[test]
fn queries_without_positive_or_negative() {
    let sampling = Sampling::new(0, 0, POSITIVES).unwrap();
    assert!(sample_triplets(&sampling, 1, 3, &mut [0; 6]).is_ok());
    assert!(sample_triplets(&sampling, 1, 2, &mut [0; 2]).is_err());
    assert!(sample_triplets(&sampling, 2, 3, &mut [0; 3]).is_err());
    let only_own = Positives {
        own_document: &[-1, 1],
        ..POSITIVES
    };
    let no_negative = Positives {
        n_documents: 2,
        ..POSITIVES
    };
    let short = Positives {
        member_weights: &[1.0],
        ..POSITIVES
    };
    for positives in [only_own, no_negative, short] {
        assert!(Sampling::new(0, 0, positives).is_err());
    }
}

fn state(rows: usize) -> (Vec<i64>, Vec<f64>) {
    (vec![0; rows + 1], [1.0, 0.0, 0.0].repeat(rows))
}

#[test]
fn bilinear_stores_and_triplets() {
    let (queries, documents) = (Sparse::random(1, 12, 20, 6), Sparse::random(2, 12, 30, 20));
    let [queries, documents] =
        [&queries, &documents].map(|x| CsrRows::new(&x.indptr, &x.indices, &x.data).unwrap());
    let shrinkage = ShrinkageState::from([0.0, 1.0, 0.0, 0.0]);
    let margins = |rows: usize, columns: usize, ids: &[i64]| {
        let (indptr, row_state) = state(rows);
        let start = BilinearState::<f32> {
            indptr: &indptr,
            indices: &[],
            data: &[],
            row_state: &row_state,
            groups: &[],
            group_weights: &[],
            group_state: &[],
        };
        let triplets = Triplets::new(&queries, &documents, ids, 3, false)?;
        let out = Violations {
            margins: &mut [0.0],
            weights: &mut [0.0],
            negatives: &mut [0],
        };
        let weights = RankWeights::new(&[1.0], 12)?;
        Store::new(columns, &start)?.margins(&triplets, &weights, &shrinkage, out, &team(1))
    };
    assert!(margins(20, 30, &[0, 1, 2]).is_ok());
    for (rows, columns, ids) in [
        (20, 30, &[12, 1, 2][..]),
        (20, 30, &[0, -1, 2]),
        (20, 30, &[0, 1]),
        (2, 30, &[0, 1, 2]),
        (20, 3, &[0, 1, 2]),
    ] {
        assert!(margins(rows, columns, ids).is_err());
    }
    assert!(RankWeights::new(&[], 12).is_err());
    assert!(UpdateRule::new(0.0, 0.0, 0.0, true).is_err());
}

#[test]
fn factors_and_embeddings() {
    assert!(FactorsMut::new([&mut [], &mut [], &mut []], &mut [], 12).is_err());
    assert!(Embeddings::new(&[0.0; 8], &[0.0; 16], &[0.0], 8).is_err());
    assert!(Embeddings::new(&[0.0; 9], &[0.0; 16], &[], 8).is_err());
    let embeddings = Embeddings::new(&[0.0; 8], &[0.0; 16], &[], 8).unwrap();
    assert!(factored::factored_scores(embeddings, &mut [0.0; 3], &team(1)).is_err());
    let plain = Features::Own(1);
    assert!(factored::factored_embeddings(&plain, &[0.0], 1, &mut [0.0], &team(1)).is_err());
}

#[test]
fn half_steps() {
    let matrix = Sparse::random(1, 15, 6, 3);
    let (embeddings, mut out, mut gains) = (singles(2, 48), vec![0.0; 120], vec![0.0; 15]);
    let mut refused = |embeddings: &[f32], width, out: &mut [f32]| {
        let (matrix, rule) = (matrix.compressed(), Rule::new(0.0, 1.0));
        let result =
            alternating::half_step(matrix, embeddings, width, rule, out, &mut gains, &team(1));
        matches!(result, Err(Error::Argument(_)))
    };
    assert!(!refused(&embeddings, 8, &mut out));
    assert!(refused(&embeddings[1..], 8, &mut out));
    assert!(refused(&embeddings, 8, &mut out[1..]));
    assert!(refused(&embeddings, 4, &mut out));
    assert!(refused(&[], 0, &mut []));
    let sparse = |indptr: &[i64], dimension: i32| {
        alternating::Sparse::new(indptr, &[dimension], &[1.0], 8).is_ok()
    };
    assert!(sparse(&[0, 1], 1));
    assert!(!sparse(&[0, 1], 8) && !sparse(&[0, 1], -1) && !sparse(&[0, 2], 1));
}
