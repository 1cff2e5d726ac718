"""The passive-aggressive solver: what it samples, what it learns, what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from ranking import JudgedLists, MatchingData, Ranker, get_kernel
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError, DataError, PartError
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear
from ranking.registry.compatibility import Grid
from ranking_plugins.callbacks import Checkpoint
from ranking_plugins.losses import (
    BPR,
    WARP,
    Alignment,
    Domination,
    Hinge,
    Logistic,
    Squared,
    SquaredHinge,
)
from ranking_plugins.preference_pairs import LowerRows
from ranking_plugins.regularizers import NoPenalty
from ranking_plugins.solvers import PassiveAggressive


def test_sampled_rows_are_of_one_query_with_decreasing_grades(judged):
    result, _ = LowerRows.of(judged).sample(get_kernel(), 3, 0, 20_000)
    better, worse = result[:, 1], result[:, 2]
    assert np.all(result[:, 0] == 0)
    assert np.all(judged.row_groups[better] == judged.row_groups[worse])
    assert np.all(judged.grades[better] > judged.grades[worse])
    # All pairs that there are, a better row as often as another.
    expected = [
        (i, j)
        for i in range(judged.n_rows)
        for j in range(judged.n_rows)
        if judged.row_groups[i] == judged.row_groups[j] and judged.grades[i] > judged.grades[j]
    ]
    assert set(map(tuple, result[:, 1:].tolist())) == set(expected)
    counts = np.bincount(better, minlength=judged.n_rows)
    mean = 20_000 / len({i for i, _ in expected})
    assert counts[counts > 0].min() > 0.6 * mean
    assert counts.max() < 1.5 * mean
    again, _ = LowerRows.of(judged).sample(get_kernel(), 3, 7, 5)
    np.testing.assert_array_equal(again, result[7:12])


def best_tau(gap: float, n: float, c: float, power: int) -> float:
    """tau of least tau**2 n / 2 + c max(0, gap - tau n)**power; a search finds the same.

    The search alone would not do: it leaves margins just beside 1, where they decide what is next.
    """
    if gap <= 0.0 or n == 0.0:
        return 0.0
    tau = min(c, gap / n) if power == 1 else gap / (n + 0.5 / c)
    solution = minimize_scalar(
        lambda tau: tau * tau * n / 2.0 + c * max(0.0, gap - tau * n) ** power,
        bounds=(0.0, gap / n),
        method="bounded",
        options={"xatol": 1e-13},
    )
    assert solution.x == pytest.approx(tau, rel=1e-5, abs=1e-9)
    return tau


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "warp:max_trials=4"])
def test_a_linear_model_is_the_algorithm_by_hand(judged, loss, sparse):
    X = sp.csr_array(judged.features) if sparse else judged.features
    data = JudgedLists(X, judged.grades, judged.query_ids[judged.row_groups])
    solver = PassiveAggressive(max_steps=300, aggressiveness=0.05, steps_per_epoch=100)
    ranker = Ranker(loss=loss, solver=solver, random_state=4).fit(data)
    w, dense = np.zeros(judged.n_features), np.asarray(judged.features)
    losses, power, trials = [], 2 if loss == "squared-hinge" else 1, 4 if "warp" in loss else 1
    for _, i, *others in LowerRows.of(judged).sample(get_kernel(), 4, 0, 300, trials)[0].tolist():
        n_worse = int(
            np.sum((judged.row_groups == judged.row_groups[i]) & (judged.grades < judged.grades[i]))
        )
        violations = (N for N, j in enumerate(others, 1) if w @ (dense[i] - dense[j]) < 1.0)
        trial = next(violations, 1)
        delta = dense[i] - dense[others[trial - 1]]
        weight = sum(1.0 / k for k in range(1, n_worse // trial + 1)) if trials > 1 else 1.0
        gap = max(0.0, 1.0 - w @ delta)
        losses.append(weight * gap**power)
        w += best_tau(gap, delta @ delta, 0.05 * weight, power) * delta
    np.testing.assert_allclose(ranker.model_.weights, w, rtol=1e-9)
    objective = [row["objective"] for row in ranker.history_]
    expected = np.mean(np.reshape(losses, (3, 100)), axis=1)
    np.testing.assert_allclose(objective, expected)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "warp"])
def test_it_learns_to_rank(judged, valid, loss):
    ranker = Ranker(loss=loss, solver="passive-aggressive:max_steps=20000,aggressiveness=0.01")
    oracle = Ranker(loss="domination", regularizer="l2:strength=0.01").fit(judged)
    assert ranker.fit(judged).score(valid) > oracle.score(valid) - 0.03


def test_a_matrix_whose_queries_are_indicators_is_one_vector_per_query(seed):
    """PAMIR by query: the steps of one query are those of its own linear model."""
    rng = np.random.default_rng(seed)
    documents = sp.csr_array(rng.random((30, 12)) * (rng.random((30, 12)) < 0.4))
    relevance = sp.csr_array((rng.random((3, 30)) < 0.3).astype(float))
    data = MatchingData(None, documents, relevance)
    solver = PassiveAggressive(max_steps=500, aggressiveness=0.5, steps_per_epoch=500)
    ranker = Ranker(
        "bilinear:initial=zero,dtype=float64", "hinge", solver=solver, random_state=1
    ).fit(data)
    W, dense = np.zeros((3, 12)), documents.toarray()
    for q, i, j in get_kernel().sampling.sample_triplets(positive_lists(data), 1, 0, 500).tolist():
        delta = dense[i] - dense[j]
        if delta @ delta:
            W[q] += min(0.5, max(0.0, 1.0 - W[q] @ delta) / (delta @ delta)) * delta
    np.testing.assert_allclose(ranker.model_.weights.toarray(), W, rtol=1e-9, atol=1e-12)


def test_the_k_th_best_positive_is_learnt_from(make_matching):
    """Positives are chosen at the weights of every 64th step, ranks found at those of each."""
    data = make_matching(2, n_queries=10, n_documents=30)
    solver = PassiveAggressive(max_steps=150, aggressiveness=0.02, steps_per_epoch=75)
    loss = "kos-warp:k=2,n=3,max_trials=4"
    ranker = Ranker("bilinear:initial=zero,dtype=float64", loss, solver=solver, random_state=1).fit(
        data
    )
    sides = (data.query_rows, data.document_rows)
    queries, documents = (side.toarray().astype(np.float64) for side in sides)
    W = np.zeros((queries.shape[1], documents.shape[1]))
    sample = get_kernel().sampling.sample_triplets(positive_lists(data), 1, 0, 150, 4, 3)
    for step, (q, *rest) in enumerate(sample.tolist()):
        if step % 75 % 64 == 0:
            frozen = W.copy()
        scores = [queries[q] @ frozen @ documents[d] for d in rest[:3]]
        better = rest[int(np.argsort(-np.array(scores), kind="stable")[1])]
        for trial, worse in enumerate(rest[3:], 1):
            block = np.outer(queries[q], documents[better] - documents[worse])
            z, n = float((W * block).sum()), float((block * block).sum())
            if z < 1.0:
                rank = (data.n_documents - 1) // trial
                c = 0.02 * sum(1.0 / k for k in range(1, rank + 1))
                W += best_tau(1.0 - z, n, c, 1) * block
                break
    np.testing.assert_allclose(ranker.model_.weights.toarray(), W, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "warp"])
def test_the_density_of_a_diagonal_counts_its_own_weights(make_matching, loss):
    """With C large, the pair of a step has a margin of 1 after it."""
    data = make_matching(3)
    solver = PassiveAggressive(max_steps=1, aggressiveness=1e9)
    ranker = Ranker("diagonal:dtype=float64", loss, solver=solver).fit(data)
    trials = 10 if loss == "warp" else 1
    q, better, worse, *_ = get_kernel().sampling.sample_triplets(
        positive_lists(data), 0, 0, 1, trials
    )[0]
    scores = ranker.predict(data)[q]
    assert scores[better] - scores[worse] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "warp", "kos-warp:k=1,n=2"])
@pytest.mark.parametrize("model", ["bilinear", "diagonal"])
def test_text_space_learns(make_matching, model, loss):
    data = make_matching(3, n_queries=20, n_documents=40)
    start = Ranker(model, "hinge", solver="sgd:max_steps=0").fit(data).score(data, metric="map")
    solver = "passive-aggressive:max_steps=3000,aggressiveness=0.1,steps_per_epoch=1000"
    ranker = Ranker(model, loss, solver=solver).fit(data)
    assert ranker.score(data, metric="map") > start
    if model == "diagonal":
        rows, columns = ranker.model_.weights.nonzero()
        np.testing.assert_array_equal(rows, columns)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("judged", "hinge"),
        ("judged", "warp"),
        ("matching", "hinge"),
        ("matching", "squared-hinge"),
        ("matching", "kos-warp:k=1,n=2"),
    ],
)
def test_a_resumed_run_has_the_same_bits(judged, make_matching, kind, loss, tmp_path):
    data = judged if kind == "judged" else make_matching(1)
    model = "linear" if kind == "judged" else "bilinear"

    def ranker(steps: int, *callbacks) -> Ranker:
        solver = PassiveAggressive(max_steps=steps, steps_per_epoch=30)
        return Ranker(model, loss, solver=solver, callbacks=callbacks)

    whole = ranker(100).fit(data)
    checkpoint = Checkpoint(tmp_path / "checkpoint", every=0.0)
    ranker(60, checkpoint).fit(data)
    snapshot = checkpoint.read()
    snapshot.facts["stopped"] = ""
    run = ranker(100).plan().trainer(data)
    run.train(snapshot)
    assert run.history == whole.history_
    for name, tensor in whole.model_.tensors().items():
        assert run.model.tensors()[name].tobytes() == tensor.tobytes()


@pytest.mark.parametrize(
    "params",
    [{"max_steps": 0}, {"steps_per_epoch": 0.5}, {"aggressiveness": 0}, {"aggressiveness": "much"}],
)
def test_invalid_parameters_are_refused(params):
    with pytest.raises(PartError, match=next(iter(params))):
        PassiveAggressive(**params)


@pytest.mark.parametrize(
    ("loss", "regularizer", "words"),
    [
        ("domination", "none", "not a function of the margin.*Try solver coordinate"),
        ("logistic", "none", "positive at every margin.*Try solver coordinate"),
        ("kos-warp", "none", "several grades.*Try loss"),
        ("hinge", "l2", "away from that minimum.*Try solver coordinate"),
        ("warp", "max-norm", "away from that minimum.*Try solver sgd"),
    ],
)
def test_other_parts_are_refused_with_a_remedy(judged, loss, regularizer, words):
    with pytest.raises(CombinationError, match=words):
        Ranker("linear", loss, regularizer, "passive-aggressive").fit(judged)


def test_nothing_to_rank_is_refused():
    with pytest.raises(DataError, match="no query has two different grades"):
        Ranker("linear", "hinge", solver="passive-aggressive").fit(np.eye(2), [1, 1], qid=[1, 1])


class Steep(Hinge):
    """A loss whose slopes are asked in Python."""

    name = "steep"
    form = None


def test_a_custom_slope_is_refused():
    compatibility = PassiveAggressive.accepts(Linear, Steep, NoPenalty)
    assert "not for an unknown slope" in compatibility.reason


# --- what the reasons say is so -------------------------------------------------------------------


def test_only_scores_that_are_linear_in_all_weights_have_a_half_space_of_right_weights():
    """Of factors, (U, V) and (-U, -V) set a pair right, and what is between them does not."""
    q, delta, U, V = np.ones(2), np.ones(3), np.ones((2, 1)), np.ones((3, 1))
    margin = lambda U, V: float(q @ U @ V.T @ delta)  # noqa: E731
    assert margin(U, V) == margin(-U, -V) == 6.0
    assert margin(0 * U, 0 * V) == 0.0


@pytest.mark.parametrize("loss", [Domination(), Alignment(), Squared()])
def test_listwise_losses_are_refused(loss):
    assert "pairwise" not in loss.interfaces
    assert "not a function" in PassiveAggressive.accepts(Linear, type(loss), NoPenalty).reason
    grades, one, other = np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0]), np.zeros(3)
    other[:2], other[2] = one[:2], 5.0  # the first pair has the same margin, the second has not
    values = {
        "domination": lambda scores: loss.listwise_value(scores, grades),
        "alignment": lambda scores: -float(loss.pair_weights(grades) @ (scores + scores.sum())),
        "squared": lambda scores: float(((grades - scores) ** 2).sum()),
    }[loss.name]
    assert values(one) != values(other)


def test_no_step_of_the_logistic_loss_would_be_passive():
    margins = np.linspace(-30.0, 30.0, 61)
    for loss in (Logistic(), BPR()):
        assert (loss.pairwise_value(margins) > 0.0).all()
        assert (loss.pairwise_slope(margins) < 0.0).all()
    for z in (1.0, 4.0, 9.0):
        solution = minimize_scalar(
            lambda tau, z=z: tau * tau / 2.0 + float(Logistic().pairwise_value(np.array(z + tau))),
            options={"xtol": 1e-12},
        )
        assert solution.x > 1e-5
    for loss in (Hinge(), SquaredHinge(), WARP()):
        assert (loss.pairwise_value(margins)[margins >= 1.0] == 0.0).all()


def test_several_positives_of_judged_lists_are_refused():
    data = JudgedLists(np.eye(3), [2, 1, 1], [1, 1, 1])
    sample, below = LowerRows.of(data).sample(get_kernel(), 0, 0, 50)
    assert set(sample[:, 2]) == {1, 2}
    assert set(below) == {2}  # rows 1 and 2 are below row 0, and neither is below the other


PENALTIES = {part.name: part for part in Grid().parts["regularizer"] if part.name != NoPenalty.name}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("loss", [Hinge(), SquaredHinge()])
def test_penalties_are_refused(name, loss, seed):
    """The minimum is strict: any other W has more of distance plus C times loss."""
    assert (
        "away from that minimum"
        in PassiveAggressive.accepts(Bilinear, Hinge, PENALTIES[name]).reason
    )
    rng = np.random.default_rng(seed)
    W, block, c = 3.0 * rng.normal(size=(5, 4)), rng.normal(size=(5, 4)), 0.3
    block *= -np.sign((W * block).sum())
    z, n = float((W * block).sum()), float((block * block).sum())
    tau = best_tau(1.0 - z, n, c, 2 if loss.name == "squared-hinge" else 1)

    def objective(V: np.ndarray) -> float:
        return float(((V - W) ** 2).sum()) / 2.0 + c * float(
            loss.pairwise_value(np.array((V * block).sum()))
        )

    least = W + tau * block
    regularizer = PENALTIES[name]()
    after = regularizer.prox(least.copy(), 50.0)
    assert not np.allclose(after, least, atol=1e-3)
    assert objective(after) > objective(least) + 1e-6
