"""SGD on judged rows, and penalties of rows between two calls of a kernel, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import JudgedLists, Ranker, get_kernel
from ranking.errors import CombinationError, DataError
from ranking_plugins.losses import WARP
from ranking_plugins.preference_pairs import LowerRows
from ranking_plugins.regularizers import L1L2Row, MaxNorm
from ranking_plugins.solvers.penalty import Penalty

SEED, STEPS = 3, 300


def by_hand(data, regularizer, every, rate, *, warp=None, by_query=False):
    """Plain SGD with rate / sqrt(t), and at every boundary the operator of the regularizer."""
    trials = 1 if warp is None else warp.trials
    rows = LowerRows.of(data)
    triplets, below = rows.sample(get_kernel(), SEED, 0, STEPS, trials, by_query=by_query)
    X, w, owed = np.asarray(data.features, float), np.zeros(data.n_features), 0.0
    for t, ((_, better, *worse), n) in enumerate(zip(triplets.tolist(), below, strict=True), 1):
        eta = rate / np.sqrt(t)
        for trial, other in enumerate(worse, 1):
            delta = X[better] - X[other]
            if w @ delta < 1.0:
                weight = 1.0 if warp is None else warp.rank_weight(np.array([n // trial]))[0]
                w = w + eta * weight * delta
                break
        owed += eta
        if t % every == 0:
            w, owed = regularizer.prox(w[None, :], owed)[0], 0.0
    return w


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("sampling", ["positives", "queries"])
@pytest.mark.parametrize("spec", ["max-norm:limit=0.5", "l1l2-row:strength=0.1,limit=0.7"])
def test_sgd_matches_the_algorithm_by_hand(judged, sparse, sampling, spec):
    X = sp.csr_array(judged.features) if sparse else judged.features
    data = JudgedLists(X, judged.grades, judged.query_ids[judged.row_groups])
    solver = f"sgd:max_steps={STEPS},steps_per_epoch=100,prox_interval=20,learning_rate=0.3"
    solver += f",sampling={sampling}"
    ranker = Ranker("linear", "hinge", spec, solver, random_state=SEED).fit(data)
    expected = by_hand(judged, ranker.regularizer_, 20, 0.3, by_query=sampling == "queries")
    np.testing.assert_allclose(ranker.model_.weights, expected, rtol=1e-9, atol=1e-12)


def test_l1_in_the_loop_is_its_operator_at_the_boundary(judged):
    spec = f"sgd:max_steps={STEPS},steps_per_epoch=100,prox_interval=20,learning_rate=0.3"
    ranker = Ranker("linear", "hinge", "l1:strength=0.1", spec, random_state=SEED).fit(judged)
    expected = by_hand(judged, ranker.regularizer_, 20, 0.3)
    np.testing.assert_allclose(ranker.model_.weights, expected, rtol=1e-9, atol=1e-12)


def test_warp_estimates_ranks_among_lower_grades(judged):
    spec = (
        f"sgd:max_steps={STEPS},steps_per_epoch=100,prox_interval=20,learning_rate=0.3,batch_size=1"
    )
    loss = WARP(max_trials=4)
    ranker = Ranker("linear", loss, "max-norm:limit=0.5", spec, random_state=SEED).fit(judged)
    expected = by_hand(judged, ranker.regularizer_, 20, 0.3, warp=loss)
    np.testing.assert_allclose(ranker.model_.weights, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_the_rate_follows_the_scale_of_the_features(judged, scale):
    data = JudgedLists(scale * judged.features, judged.grades, judged.query_ids[judged.row_groups])
    ranker = Ranker("linear", "hinge", "none", "sgd:max_steps=2000,steps_per_epoch=500")
    plain = ranker.fit(judged).predict(judged)
    np.testing.assert_allclose(ranker.fit(data).predict(data), plain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", [MaxNorm(0.7), L1L2Row(0.2, 0.7)])
def test_prox_of_packed_rows_is_that_of_full_rows(kind, seed, monkeypatch):
    """Also if they come in several blocks, and some are empty."""
    monkeypatch.setattr("ranking_plugins.solvers.penalty.BLOCK", 7)
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(30, 12)) * (rng.random((30, 12)) < rng.random((30, 1)))
    dense[[3, 8]] = 0.0
    penalty = Penalty.__new__(Penalty)
    penalty.regularizer, penalty.structure = kind, None
    matrix = penalty.prox(sp.csr_array(dense), 0.5)
    np.testing.assert_allclose(matrix.toarray(), kind.prox(dense, 0.5), rtol=1e-12)
    assert matrix.nnz == np.count_nonzero(kind.prox(dense, 0.5))


@pytest.mark.parametrize("model", ["linear", "bilinear"])
def test_a_resumed_run_has_the_same_bits(model, judged, make_matching):
    data = judged if model == "linear" else make_matching(1)

    def run(steps: int):
        solver = f"sgd:max_steps={steps},steps_per_epoch=50,prox_interval=30,learning_rate=0.5"
        return (
            Ranker(model, "hinge", "l1l2-row:strength=0.02,limit=1.2", solver).plan().trainer(data)
        )

    whole, first, second = run(200), run(100), run(200)
    whole.train()
    first.train()
    snapshot = first.snapshot()
    snapshot.facts["stopped"] = ""
    second.train(resume=snapshot)
    for key, expected in whole.model.tensors().items():
        np.testing.assert_array_equal(second.model.tensors()[key], expected)


def test_what_is_refused(judged):
    for words in ("sampling=weighted", "negatives=any"):
        with pytest.raises(CombinationError, match=f"{words} is for queries and documents"):
            Ranker("linear", "hinge", "none", f"sgd:{words}").fit(judged)
    with pytest.raises(CombinationError, match="these are judged lists"):
        Ranker("linear", "hinge", "none", "sgd").partial_fit(judged)
    flat = JudgedLists(judged.features, np.zeros(judged.n_rows), judged.row_groups)
    with pytest.raises(DataError, match="no query has two different grades"):
        Ranker("linear", "hinge", "none", "sgd").fit(flat)
