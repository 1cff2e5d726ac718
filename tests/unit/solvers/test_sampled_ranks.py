"""What WARP reports: the integral of L(1 + t) / (1 + t), whose gradient its steps follow."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.integrate import quad

from ranking import JudgedLists, MatchingData, Ranker
from ranking.errors import CombinationError
from ranking_plugins.losses import WARP, Hinge
from ranking_plugins.losses.sampled_ranks import rank_losses
from ranking_plugins.solvers.diagonal_steps import DiagonalSteps
from ranking_plugins.solvers.sgd import SGD

HARMONIC = np.concatenate(([0.0], np.cumsum(1.0 / np.arange(1, 2001))))


@pytest.mark.parametrize("n_ranked", [1, 3, 40])
def test_the_loss_of_sampled_ranks_is_the_integral(n_ranked):
    rng = np.random.default_rng(n_ranked)
    margins = rng.normal(0.5, 1.0, size=(12, 5))
    margins[0] = 2.0  # no violation
    losses_found = rank_losses(WARP(5), margins, n_ranked)
    sums = n_ranked * np.maximum(0.0, 1.0 - margins).mean(axis=1)

    def weight(x):
        return HARMONIC[min(int(x), n_ranked)] / x

    for loss, total in zip(losses_found, sums, strict=True):
        places = [float(i) for i in range(2, int(total) + 2)]
        wanted = quad(weight, 1.0, 1.0 + total, points=places or None, limit=500)[0]
        assert loss == pytest.approx(wanted, rel=1e-6)
    assert losses_found[0] == 0.0
    each = rank_losses(WARP(5), margins, np.full(12, n_ranked))
    np.testing.assert_array_equal(each, losses_found)


def test_its_slopes_are_the_expected_weights_of_a_search():
    """Where every violation is 1, of k rows, a search with replacement finds each equally often.

    Its weight is L(n / trial) in the mean, about L(k) for k violations among n negatives.
    """
    n, step = 400, 1e-4
    for k in (30, 100, 300):
        margins = np.where(np.arange(n) < k, 0.0, 2.0)[None]
        moved = margins.copy()
        moved[0, 0] += step
        slope = (rank_losses(WARP(n), moved, n) - rank_losses(WARP(n), margins, n))[0] / step
        trials = np.arange(1, 10_000)
        chances = (k / n) * (1.0 - k / n) ** (trials - 1)
        expected = (chances * HARMONIC[n // trials]).sum() / k
        assert -slope == pytest.approx(HARMONIC[k] / (k + 1), rel=1e-3)
        assert -slope == pytest.approx(expected, rel=0.2)


def test_the_loss_of_the_papers_rises_when_a_violation_disappears():
    """L(rank) times the mean violation: 1.5 * 0.55 before, 1 * 1 after."""
    before, after = np.array([[0.0, 0.9]]), np.array([[0.0, 1.0]])

    def of_papers(margins):
        h = np.maximum(0.0, 1.0 - margins[0])
        return HARMONIC[(h > 0.0).sum()] * h[h > 0.0].mean()

    assert of_papers(before) == pytest.approx(0.825)
    assert of_papers(after) == pytest.approx(1.0)
    assert rank_losses(WARP(2), after, 2)[0] < rank_losses(WARP(2), before, 2)[0]


def test_the_learning_rate_is_divided_by_the_weight_of_ranks():
    rng = np.random.default_rng(0)
    qids, grades = np.repeat(np.arange(6), 20), np.tile(np.arange(20) % 2, 6)
    data = JudgedLists(rng.normal(size=(120, 3)), grades, qids)

    def rate(loss):
        problem = Ranker("linear", loss, "none", "sgd").plan().trainer(data).problem(None)
        return SGD().auto_values(dataclasses.replace(problem, loss=loss))["learning_rate"]

    assert rate(Hinge()) == pytest.approx(rate(WARP(10)) * HARMONIC[10])


def two_sided() -> MatchingData:
    rng = np.random.default_rng(3)
    names = ["a", "b", "c", "d", "e"]
    queries, documents = rng.normal(size=(14, 5)), rng.normal(size=(11, 5))
    likes = queries @ np.diag([2.0, -1.0, 0.0, 0.0, 0.5]) @ documents.T > 0.5
    likes[np.arange(14), np.arange(14) % 11] = True
    likes[np.arange(14), (np.arange(14) + 1) % 11] = False
    return MatchingData(
        queries,
        documents,
        relevance=likes.astype(float),
        query_feature_ids=names,
        document_feature_ids=names[::-1],
    )


@pytest.mark.parametrize(
    "loss", ["warp:max_trials=4", "kos-warp:max_trials=3,k=1,n=2", "domination"]
)
@pytest.mark.parametrize("regularizer", ["l1:strength=0.02", "group-l1:strength=0.01", "max-norm"])
def test_a_diagonal_is_a_matrix_that_is_only_read_on_its_diagonal(loss, regularizer):
    """The loss at the weights that were found, by all scores of the model."""
    data = two_sided()
    solver = "sgd:max_steps=600,steps_per_epoch=300,learning_rate=0.3,n_negatives=3"
    fitted = Ranker("diagonal", loss, regularizer, solver, random_state=2).fit(data)
    model = fitted.model_
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    np.testing.assert_allclose(
        fitted.predict(data), queries @ model.weights.toarray() @ documents.T, rtol=1e-5, atol=1e-6
    )
    rows, columns = model.weights.tocoo().coords
    assert (model.query_feature_ids[rows] == model.document_feature_ids[columns]).all()
    steps = DiagonalSteps(SGD(n_negatives=3), _problem(fitted, data))
    triplets = steps.evaluation_sample(40)
    scores = fitted.predict(data)
    if steps.loss.positives[0] == 1:
        margins = (
            scores[triplets[:, :1], triplets[:, 1:2]] - scores[triplets[:, :1], triplets[:, 2:]]
        )
        if loss == "domination":
            wanted = np.log1p(np.exp(-margins).sum(axis=1))
        else:
            wanted = rank_losses(steps.loss, margins, data.n_documents - 1)
        np.testing.assert_allclose(steps.losses(triplets), wanted, rtol=1e-5, atol=1e-6)


def _problem(fitted, data):
    trainer = (
        Ranker(fitted.model_, fitted.loss_, fitted.regularizer_, "sgd:n_negatives=3")
        .plan()
        .trainer(data)
    )
    return dataclasses.replace(trainer.problem(None), model=fitted.model_)


def test_a_weight_of_a_diagonal_comes_back_from_0():
    data = two_sided()
    strong = Ranker("diagonal", "hinge", "l1:strength=5", "sgd:max_steps=400", random_state=0)
    begun = strong.partial_fit(data, steps=400)
    assert begun.model_.weights.nnz == 0
    weak = Ranker("diagonal", "hinge", "l1:strength=0.001", "sgd:max_steps=400", random_state=0)
    weak.fit(data)
    weak.model_.weights = begun.model_.weights
    weak.partial_fit(data, steps=400)
    assert weak.model_.weights.nnz > 0


def test_a_refit_of_a_diagonal_keeps_its_zeros():
    data = two_sided()
    parts = ("diagonal", "hinge", "l1:strength=0.03")
    free = Ranker(*parts, "sgd:max_steps=400,learning_rate=1", random_state=0).fit(data)
    refit = Ranker(*parts, "sgd:max_steps=400,learning_rate=1,refit=true", random_state=0).fit(data)
    zeros = free.model_.weights.toarray() == 0.0
    assert 20 < zeros.sum() < 25
    np.testing.assert_array_equal(refit.model_.weights.toarray() == 0.0, zeros)


def test_new_features_of_a_diagonal_are_trained():
    data = two_sided()
    narrow = MatchingData(
        data.query_rows[:, :3],
        data.document_rows[:, 2:],
        relevance=data.relevance,
        query_feature_ids=["a", "b", "c"],
        document_feature_ids=["c", "b", "a"],
    )
    growing = Ranker("diagonal", "hinge", "none", "sgd:learning_rate=0.3", random_state=0)
    growing.partial_fit(narrow, steps=200)
    before = growing.model_.weights.toarray()
    growing.partial_fit(data, steps=200)
    assert growing.model_.weights.nnz == 5
    assert not np.allclose(growing.model_.weights.toarray()[:3, :3], before)


def test_a_diagonal_trains_shared_features_only():
    with pytest.raises(CombinationError, match="weights of shared features only"):
        Ranker("diagonal:trainable=unshared", "hinge", "none", "sgd").fit(two_sided())
