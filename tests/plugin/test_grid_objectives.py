"""The reported objective of every cell of the grid over a whole run.

`coordinate`, and `alternating` for losses of fixed lists, never raise it. SGD is stochastic: an
epoch may raise it by its stochastic error, for which the test takes three standard errors of the
mean loss of the evaluation sample, from the losses of that sample after the epoch.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ranking import JudgedLists, MatchingData, Ranker
from ranking.registry.compatibility import Grid
from ranking_plugins.solvers.steps import Steps

LOSSES = ("hinge", "warp:max_trials=5", "domination")
REGULARIZERS = ("l1", "l2", "l1l2-row", "orthonormal")
SOLVERS = (
    "sgd:epochs=25",
    "coordinate:max_epochs=15,tolerance=0",
    "alternating:max_epochs=12,tolerance=0",
)
CELLS = list(itertools.product(LOSSES, REGULARIZERS, SOLVERS))


LINEAR_CELLS = [
    (model, loss, regularizer, solver)
    for model, loss, regularizer, solver in itertools.product(
        ("linear", "diagonal", "bilinear"),
        LOSSES,
        ("none", *REGULARIZERS),
        ("sgd:epochs=25,steps_per_epoch=500", "coordinate:max_epochs=15,tolerance=0"),
    )
    if " x ".join(part.partition(":")[0] for part in (model, loss, regularizer, solver))
    in {str(cell) for cell in Grid().cells() if cell.compatibility().works}
]


@pytest.fixture
def errors(monkeypatch):
    """Standard errors of the reported means; whole lists, which SGD may report, have none."""
    errors_of_means, losses = [], Steps.losses

    def with_error(self, source):
        values = losses(self, source)
        errors_of_means.append(float(values.std() / np.sqrt(values.size)))
        return values

    monkeypatch.setattr(Steps, "losses", with_error)
    return errors_of_means


def check(objectives, errors, fixed):
    assert len(objectives) > 2
    assert objectives[-1] < objectives[0]
    if fixed:
        assert objectives == sorted(objectives, reverse=True)
        return
    errors = errors or [0.002 * objectives[0]] * len(objectives)
    assert len(errors) == len(objectives)
    for (before, after), error in zip(itertools.pairwise(objectives), errors[1:], strict=True):
        assert after <= before + 3.0 * error
    # Nor does the sum of small rises exceed that.
    assert objectives[-1] <= min(objectives) + 3.0 * max(errors)


@pytest.mark.slow
@pytest.mark.parametrize(("loss", "regularizer", "solver"), CELLS, ids=map(" x ".join, CELLS))
def test_the_objective_of_a_run_does_not_rise(make_tastes, errors, loss, regularizer, solver):
    data = make_tastes(1, 60, 80, share=0.4)
    model = "factored:dimensions=8,init_scale=0.1"
    fitted = Ranker(model, loss, regularizer, solver, random_state=1).fit(data)
    fixed = solver.startswith("coordinate") or (
        solver.startswith("alternating") and not loss.startswith("warp")
    )
    check([row["objective"] for row in fitted.history_], errors, fixed)


def judged():
    rng = np.random.default_rng(5)
    qids = np.repeat(np.arange(20), 12)
    X = rng.normal(size=(qids.size, 8))
    grades = np.digitize(X[:, :4] @ [1.0, -1.0, 0.7, 0.5] + rng.normal(size=qids.size), [-1.0, 1.0])
    return JudgedLists(X, grades, qids)


def featured():
    rng = np.random.default_rng(6)
    queries, documents = rng.normal(size=(40, 6)), rng.normal(size=(30, 6))
    scores = queries @ np.diag([2.0, -1.0, 1.0, 0.5, 0.0, 0.0]) @ documents.T
    likes = scores + rng.normal(size=scores.shape) > 2.5
    likes[np.arange(40), np.arange(40) % 30] = True
    sides = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (queries, documents))
    return MatchingData(*sides, relevance=likes.astype(float))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "loss", "regularizer", "solver"), LINEAR_CELLS, ids=map(" x ".join, LINEAR_CELLS)
)
def test_that_of_a_linear_model_does_not_rise(errors, model, loss, regularizer, solver):
    data = judged() if model == "linear" else featured()
    if model != "linear":  # the default is for sparse texts
        solver += ",learning_rate=1"
    fitted = Ranker(model, loss, regularizer, solver, random_state=1).fit(data)
    untrained = Ranker(model, loss, regularizer, "sgd:epochs=0", random_state=1).fit(data)
    objectives = [row["objective"] for row in fitted.history_]
    if solver.startswith("sgd"):
        del errors[len(objectives) :]  # of the untrained one
        if objectives[0] < untrained.objective_:  # else the first epoch has not decreased it
            objectives, errors = (
                [untrained.objective_, *objectives],
                errors and [errors[0], *errors],
            )
    check(objectives, errors, solver.startswith("coordinate"))
