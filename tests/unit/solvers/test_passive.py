"""The passive-aggressive solver: what it draws, what it learns, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import Judged, Matching, Ranker, get_kernel
from ranking.errors import CombinationError, DataError, PartError
from ranking_plugins.lower_rows import LowerRows
from ranking_plugins.observers.checkpoint import Checkpoint
from ranking_plugins.solvers.passive import PassiveAggressive


def test_drawn_rows_are_of_one_query_and_of_falling_grade(judged):
    found, _ = LowerRows.of(judged).tuples(get_kernel(), 3, 0, 20_000)
    better, worse = found[:, 1], found[:, 2]
    assert np.all(found[:, 0] == 0)
    assert np.all(judged.row_groups[better] == judged.row_groups[worse])
    assert np.all(judged.grades[better] > judged.grades[worse])
    # All pairs that there are, a better row as often as another.
    wanted = [
        (i, j)
        for i in range(judged.n_rows)
        for j in range(judged.n_rows)
        if judged.row_groups[i] == judged.row_groups[j] and judged.grades[i] > judged.grades[j]
    ]
    assert set(map(tuple, found[:, 1:].tolist())) == set(wanted)
    counts = np.bincount(better, minlength=judged.n_rows)
    mean = 20_000 / len({i for i, _ in wanted})
    assert counts[counts > 0].min() > 0.6 * mean
    assert counts.max() < 1.5 * mean
    again, _ = LowerRows.of(judged).tuples(get_kernel(), 3, 7, 5)
    np.testing.assert_array_equal(again, found[7:12])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_linear_model_is_the_algorithm_by_hand(judged, sparse):
    X = sp.csr_array(judged.features) if sparse else judged.features
    data = Judged(X, judged.grades, judged.query_ids[judged.row_groups])
    solver = PassiveAggressive(draws=300, aggressiveness=0.05, epoch=100)
    ranker = Ranker(loss="hinge", solver=solver, seed=4).fit(data)
    w, dense = np.zeros(judged.n_features), np.asarray(judged.features)
    losses = []
    for _, i, j in LowerRows.of(judged).tuples(get_kernel(), 4, 0, 300)[0].tolist():
        delta = dense[i] - dense[j]
        loss = max(0.0, 1.0 - w @ delta)
        losses.append(loss)
        w += min(0.05, loss / (delta @ delta)) * delta
    np.testing.assert_allclose(ranker.model_.weights, w, rtol=1e-10)
    objective = [row["objective"] for row in ranker.history_]
    np.testing.assert_allclose(objective, np.mean(np.reshape(losses, (3, 100)), axis=1))


def test_it_learns_to_rank(judged, valid):
    ranker = Ranker(loss="hinge", solver="passive-aggressive:draws=20000,aggressiveness=0.01")
    oracle = Ranker(loss="domination", regularizer="l2:strength=0.01").fit(judged)
    assert ranker.fit(judged).score(valid) > oracle.score(valid) - 0.03


def test_a_matrix_whose_queries_are_indicators_is_one_vector_a_query(seed):
    """PAMIR by query: the steps of one query are those of its own linear model."""
    rng = np.random.default_rng(seed)
    documents = sp.csr_array(rng.random((30, 12)) * (rng.random((30, 12)) < 0.4))
    relevance = sp.csr_array((rng.random((3, 30)) < 0.3).astype(float))
    data = Matching(None, documents, relevance)
    solver = PassiveAggressive(draws=500, aggressiveness=0.5, epoch=500)
    ranker = Ranker("bilinear:initial=zero,dtype=float64", "hinge", solver=solver, seed=1).fit(data)
    from ranking.data.tuples import match_lists

    W, dense = np.zeros((3, 12)), documents.toarray()
    for q, i, j in get_kernel().draw_tuples(match_lists(data), 1, 0, 500).tolist():
        delta = dense[i] - dense[j]
        if delta @ delta:
            W[q] += min(0.5, max(0.0, 1.0 - W[q] @ delta) / (delta @ delta)) * delta
    np.testing.assert_allclose(ranker.model_.weights.toarray(), W, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("model", ["bilinear", "diagonal"])
def test_text_space_learns(make_matching, model):
    data = make_matching(3, n_queries=20, n_documents=40)
    start = Ranker(model, "hinge", solver="sgd:draws=0").fit(data).score(data, metric="map")
    solver = "passive-aggressive:draws=3000,aggressiveness=0.1,epoch=1000"
    ranker = Ranker(model, "hinge", solver=solver).fit(data)
    assert ranker.score(data, metric="map") > start
    if model == "diagonal":
        rows, columns = ranker.model_.weights.nonzero()
        np.testing.assert_array_equal(rows, columns)


@pytest.mark.parametrize("kind", ["judged", "matching"])
def test_a_resumed_run_has_the_same_bits(judged, make_matching, kind, tmp_path):
    data = judged if kind == "judged" else make_matching(1)

    def ranker(draws: int, *observers) -> Ranker:
        solver = PassiveAggressive(draws=draws, epoch=30)
        return Ranker(loss="hinge", solver=solver, observers=observers)

    whole = ranker(100).fit(data)
    checkpoint = Checkpoint(tmp_path / "checkpoint", every=0.0)
    ranker(60, checkpoint).fit(data)
    snapshot = checkpoint.read()
    snapshot.facts["stopped"] = ""
    run = ranker(100).prepare(data)
    run.go(snapshot)
    assert run.history == whole.history_
    for name, tensor in whole.model_.tensors().items():
        assert run.model.tensors()[name].tobytes() == tensor.tobytes()


@pytest.mark.parametrize(
    "params", [{"draws": 0}, {"epoch": 0.5}, {"aggressiveness": 0}, {"aggressiveness": "much"}]
)
def test_a_parameter_that_cannot_be_is_refused(params):
    with pytest.raises(PartError, match=next(iter(params))):
        PassiveAggressive(**params)


@pytest.mark.parametrize(
    ("loss", "regularizer", "words"),
    [
        ("domination", "none", "only the hinge is 0.*Try solver coordinate"),
        ("warp", "none", "only the hinge is 0.*Try solver sgd"),
        ("squared-hinge", "none", "only the hinge is 0.*Try solver coordinate"),
        ("hinge", "l2", "no step were passive.*Try solver coordinate"),
    ],
)
def test_other_parts_are_refused_with_a_remedy(judged, loss, regularizer, words):
    with pytest.raises(CombinationError, match=words):
        Ranker("linear", loss, regularizer, "passive-aggressive").fit(judged)


def test_nothing_to_rank_is_refused():
    with pytest.raises(DataError, match="no query has two different grades"):
        Ranker("linear", "hinge", solver="passive-aggressive").fit(np.eye(2), [1, 1], qid=[1, 1])
