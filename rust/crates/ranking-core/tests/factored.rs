//! What the parity tests cannot see of the factored loops: teams of any size, refused triplets.

mod common;

use common::{Sparse, singles, team, triplets};
use ranking_core::Error;
use ranking_core::factored::{
    FactoredFeatures, FactoredState, FactorsMut, Features, Plan, RankWeights, RowPenalty,
    StepResults, TripletSource, factored_train,
};
use ranking_core::pairwise::PairwiseForm;

const WIDTH: usize = 40;
const STEPS: usize = 150;
const TRIALS: usize = 3;

fn features(x: &Sparse, is_sparse: bool) -> Features<'_> {
    if is_sparse {
        x.features()
    } else {
        Features::Own(12)
    }
}

/// Train from random parameters; return the bits of all parameters, squares, margins and weights.
fn train(
    (is_sparse, contexts, batch_size): (bool, bool, usize),
    triplets: &[i64],
    threads: usize,
) -> Result<Vec<u32>, Error> {
    let [queries, documents] = [1, 2].map(|seed| Sparse::random(seed, 12, 9, 6));
    let rows = if is_sparse { 9 } else { 12 };
    let contexts = contexts.then(|| Sparse::random(3, 12, rows, 6));
    let rows = rows as usize;
    let features = FactoredFeatures {
        queries: features(&queries, is_sparse),
        documents: features(&documents, is_sparse),
        contexts: contexts.as_ref().map(Sparse::features),
    };
    let context_rows = if contexts.is_some() { rows } else { 0 };
    let lengths = [rows * WIDTH, rows * WIDTH, context_rows * WIDTH, rows];
    let mut factors = lengths.map(|length| singles(5 + length as u64, length));
    let mut squares = lengths.map(|length| vec![0.1; length]);
    let [u, v, s, biases] = &mut factors;
    let [u2, v2, s2, biases2] = &mut squares;
    let mut state = FactoredState {
        factors: FactorsMut::new([u, v, s], biases, WIDTH)?,
        squares: FactorsMut::new([u2, v2, s2], biases2, WIDTH)?,
    };
    let source = TripletSource {
        triplets,
        width: 2 + TRIALS,
        sampling: None,
        n_positives: 1,
        positive_rank: 0,
    };
    let rates: Vec<_> = singles(7, STEPS).iter().map(|x| 0.1 * x.abs()).collect();
    let plan = Plan {
        learning_rates: &rates,
        form: PairwiseForm::Logistic,
        rank_weights: RankWeights {
            weights: &[0.0, 0.5, 1.5],
            n_documents: 12,
        },
        penalty: RowPenalty {
            l2: 0.5,
            max_norm: 1.25,
        },
        batch_size,
    };
    let (mut margins, mut weights) = (vec![0.0; STEPS], vec![0.0; STEPS]);
    let out = StepResults {
        margins: &mut margins,
        weights: &mut weights,
    };
    factored_train(&features, &mut state, &source, &plan, out, &team(threads))?;
    let all = factors.iter().chain(&squares).chain([&margins, &weights]);
    Ok(all.flatten().map(|x| x.to_bits()).collect())
}

#[test]
fn threads_change_no_bit() {
    let triplets = triplets(4, STEPS, 2 + TRIALS, 12);
    for is_sparse in [false, true] {
        for (contexts, batch_size) in [(false, 16), (true, 50), (false, 1000)] {
            let kind = (is_sparse, contexts, batch_size);
            let one = train(kind, &triplets, 1).unwrap();
            for threads in [2, 3, 20] {
                assert_eq!(train(kind, &triplets, threads).unwrap(), one);
            }
        }
    }
}

#[test]
fn documents_that_do_not_exist_are_refused() {
    let mut triplets = triplets(4, STEPS, 2 + TRIALS, 12);
    for bad in [-1, 12] {
        triplets[7] = bad;
        assert!(train((false, false, 16), &triplets, 1).is_err());
    }
}
