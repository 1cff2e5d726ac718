"""Every cell of the grid at default settings, on real data: the reported objective does not rise.

An epoch of SGD may raise it by its stochastic error, three standard errors of the mean over the
sample that it is reported for, and so may a whole run. Deterministic solvers never raise it.
Regularized cells are better than popularity on validation data.
"""

from __future__ import annotations

import itertools
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranking import JudgedLists, MatchingData, Ranker
from ranking.registry.compatibility import Grid
from ranking_plugins.reproductions.held_out import read_likes
from ranking_plugins.reproductions.letor import read_fold
from ranking_plugins.solvers.steps import Steps

pytestmark = [
    pytest.mark.slow,
    pytest.mark.reproduction,
    pytest.mark.filterwarnings("ignore:.* queries"),  # of users who have no other positives
    pytest.mark.filterwarnings("ignore::ranking.errors.ConvergenceWarning"),
]

LOSSES = ("hinge", "warp", "domination")
REGULARIZERS = ("none", "l1", "l2", "l1l2-row", "orthonormal")
SOLVERS = ("sgd", "coordinate", "alternating")
CELLS = list(itertools.product(LOSSES, REGULARIZERS, SOLVERS))
POPULARITY = [  # of `coordinate`, which is slow, those that are closest to popularity
    (loss, regularizer, solver)
    for loss, regularizer, solver in CELLS
    if regularizer != "none"
    and (solver != "coordinate" or (loss, regularizer) in (("warp", "orthonormal"), ("warp", "l2")))
]
WORKS = {str(cell) for cell in Grid().cells() if cell.compatibility().works}


@cache
def movies(folder: Path) -> tuple[MatchingData, MatchingData]:
    return read_likes(folder / "interactions", 0, validate=True)


@cache
def judged(folder: Path) -> JudgedLists:
    return read_fold(folder / "letor/ohsumed/QueryLevelNorm", 0)[0].select(np.arange(12))


@pytest.fixture
def errors(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The standard errors of the reported mean losses of SGD."""
    standard_errors: list[float] = []
    losses = Steps.losses

    def with_error(self: Steps, source: Any) -> np.ndarray:
        values = losses(self, source)
        standard_errors.append(float(values.std() / np.sqrt(values.size)))
        return values

    monkeypatch.setattr(Steps, "losses", with_error)
    return standard_errors


def check(ranker: Ranker, errors: list[float], *, fixed: bool) -> None:
    objectives = [row["objective"] for row in ranker.history_]
    assert len(objectives) > 1
    if fixed:
        assert not errors
        assert objectives == sorted(objectives, reverse=True)
        assert objectives[-1] < objectives[0]
        return
    if not errors:  # the mean over whole lists is exact, and the weights vary
        errors = [0.0005 * objectives[0]] * len(objectives)
    assert len(errors) == len(objectives)
    for (before, after), error in zip(itertools.pairwise(objectives), errors[1:], strict=True):
        assert after <= before + 3.0 * error
    assert objectives[-1] <= min(objectives) + 3.0 * max(errors)


@pytest.mark.parametrize(
    ("loss", "regularizer", "solver"), CELLS, ids=[" x ".join(cell) for cell in CELLS]
)
def test_the_objective_of_embeddings_of_films(real_data: Path, errors, loss, regularizer, solver):
    train = movies(real_data)[0].select(np.arange(120))
    ranker = Ranker("factored", loss, regularizer, solver, random_state=0).fit(train)
    check(ranker, errors, fixed=solver != "sgd" and (loss, solver) != ("warp", "alternating"))


@pytest.mark.parametrize(
    ("loss", "regularizer", "solver"), POPULARITY, ids=[" x ".join(cell) for cell in POPULARITY]
)
def test_default_strengths_are_better_than_popularity(real_data: Path, loss, regularizer, solver):
    train, valid = movies(real_data)
    ranker = Ranker("factored", loss, regularizer, solver, random_state=0).fit(train)
    popularity = Ranker("factored", "squared", "none", "popularity").fit(train)
    least = popularity.score(valid, exclude=train, metric="map")
    assert ranker.score(valid, exclude=train, metric="map") > least


@pytest.mark.parametrize(
    ("loss", "regularizer", "solver"), CELLS, ids=[" x ".join(cell) for cell in CELLS]
)
def test_the_objective_of_linear_models_of_judged_lists(
    real_data: Path, errors, loss, regularizer, solver
):
    if f"linear x {loss} x {regularizer} x {solver}" not in WORKS:
        pytest.skip("served by another model")
    train = judged(real_data)
    ranker = Ranker("linear", loss, regularizer, solver, random_state=0).fit(train)
    check(ranker, errors, fixed=solver != "sgd")
    zero = Ranker("linear", loss, regularizer, "sgd:epochs=0", random_state=0).fit(train)
    if solver == "sgd":
        assert ranker.objective_ < zero.objective_
