"""Convex cells: SGD with a decaying rate and coordinate descent reach the optimum of L-BFGS.

The objective is written out here over all pairs: the mean over rows (or over queries, then their
positives) of the mean over lower rows (over the other documents) of the loss of a margin.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranking import JudgedLists, MatchingData, Ranker
from ranking.registry.compatibility import Grid

LOSSES = ("hinge", "squared-hinge", "logistic", "exponential")
ENTRIES = ("none", "l1", "l2", "elastic")
RATES = {"hinge": 3.0, "logistic": 3.0, "squared-hinge": 0.3, "exponential": 0.3}
SGD = "sgd:max_steps=60000,steps_per_epoch=60000,schedule=inverse-sqrt"
COORDINATE = "coordinate:max_epochs=300,tolerance=1e-9"


class Pairs(NamedTuple):
    """Differences of features, one row per pair, and the share of each pair in the mean."""

    differences: np.ndarray[Any, Any]
    shares: np.ndarray[Any, Any]


def judged(seed: int) -> JudgedLists:
    rng = np.random.default_rng(seed)
    qids = np.repeat(np.arange(8), [5, 8, 4, 6, 5, 7, 6, 4])
    grades = rng.integers(0, 3, qids.size).astype(float)
    grades[np.unique(qids, return_index=True)[1]] = 3.0
    features = rng.normal(size=(qids.size, 4)) + 0.4 * grades[:, None] * [1.0, -0.5, 0.0, 0.3]
    return JudgedLists(features, grades, qids)


def pairs_of_lists(data: JudgedLists) -> Pairs:
    differences, shares = [], []
    for i in range(data.n_rows):
        own = data.row_groups == data.row_groups[i]
        below = np.flatnonzero(own & (data.grades < data.grades[i]))
        differences.extend(data.features[i] - data.features[below])
        shares.extend([1.0 / max(below.size, 1)] * below.size)
    weights = np.array(shares)
    return Pairs(np.array(differences), weights / weights.sum())


def matching(seed: int) -> MatchingData:
    rng = np.random.default_rng(seed)
    queries, documents = rng.normal(size=(9, 3)), rng.normal(size=(7, 3))
    liked = queries @ np.diag([1.0, -1.0, 0.3]) @ documents.T + rng.normal(size=(9, 7)) > 0.6
    liked[np.arange(9), np.arange(9) % 7] = True
    liked[np.arange(9), (np.arange(9) + 1) % 7] = False
    return MatchingData(queries, documents, relevance=liked.astype(float))


def pairs_of_queries(data: MatchingData, diagonal: bool) -> Pairs:
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    liked = data.relevance.toarray() > 0
    differences, shares = [], []
    for q, row in zip(queries, liked, strict=True):
        for positive in np.flatnonzero(row):
            for negative in np.flatnonzero(~row):
                change = documents[positive] - documents[negative]
                differences.append(q * change if diagonal else np.outer(q, change).ravel())
                shares.append(1.0 / (len(queries) * row.sum() * (~row).sum()))
    return Pairs(np.array(differences), np.array(shares))


def loss_and_slope(name: str, z: np.ndarray[Any, Any]) -> tuple[Any, Any]:
    if name == "hinge":
        return np.maximum(0.0, 1.0 - z), -(z < 1.0).astype(float)
    if name == "squared-hinge":
        return np.maximum(0.0, 1.0 - z) ** 2, -2.0 * np.maximum(0.0, 1.0 - z)
    if name == "logistic":
        return np.logaddexp(0.0, -z), -1.0 / (1.0 + np.exp(z))
    return np.exp(-z), -np.exp(-z)


def strengths(regularizer: str, strength: float) -> tuple[float, float]:
    """Return the strengths of |w| and of w**2 / 2; the share of elastic is a half."""
    return {
        "none": (0.0, 0.0),
        "l1": (strength, 0.0),
        "l2": (0.0, strength),
        "elastic": (0.5 * strength, 0.5 * strength),
    }[regularizer]


def objective(pairs: Pairs, loss: str, w: np.ndarray[Any, Any], l1: float, l2: float) -> float:
    values, _ = loss_and_slope(loss, pairs.differences @ w)
    return float(pairs.shares @ values + l1 * np.abs(w).sum() + 0.5 * l2 * w @ w)


def optimum(pairs: Pairs, loss: str, l1: float, l2: float) -> float:
    """Return the least objective by L-BFGS-B, with w = a - b and a, b >= 0."""
    size = pairs.differences.shape[1]

    def cost(both: np.ndarray[Any, Any]) -> tuple[float, Any]:
        w = both[:size] - both[size:]
        values, slopes = loss_and_slope(loss, pairs.differences @ w)
        gradient = pairs.differences.T @ (pairs.shares * slopes) + l2 * w
        value = pairs.shares @ values + l1 * both.sum() + 0.5 * l2 * w @ w
        return float(value), np.concatenate((gradient + l1, l1 - gradient))

    starts = [np.full(2 * size, 0.1)]
    starts += [np.random.default_rng(seed).random(2 * size) for seed in range(6)]
    options = {"ftol": 1e-14, "gtol": 1e-10, "maxiter": 5000, "maxfun": 20000}
    bounds = [(0.0, None)] * (2 * size)
    return min(minimize(cost, x, jac=True, bounds=bounds, options=options).fun for x in starts)


def solvers_of(model: str, loss: str, regularizer: str) -> list[str]:
    works = {str(cell) for cell in Grid().cells() if cell.compatibility().works}
    solvers = {"sgd": SGD, "coordinate": COORDINATE}
    cells = {name: " x ".join((model, loss, regularizer, name)) for name in solvers}
    return [solvers[name] for name, cell in cells.items() if cell in works]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("regularizer", ENTRIES)
@pytest.mark.parametrize("model", ["linear"])
@settings(max_examples=2, deadline=None, derandomize=True)
@given(log_strength=st.floats(-2.5, -0.7), seed=st.integers(0, 3))
def test_every_solver_reaches_the_optimum(model, loss, regularizer, log_strength, seed):
    strength = 10.0**log_strength
    l1, l2 = strengths(regularizer, strength)
    spec = "none" if regularizer == "none" else f"{regularizer}:strength={strength}"
    data = judged(seed) if model == "linear" else matching(seed)
    if isinstance(data, JudgedLists):
        pairs = pairs_of_lists(data)
    else:
        pairs = pairs_of_queries(data, model == "diagonal")
    least = optimum(pairs, loss, l1, l2)
    for solver in solvers_of(model, loss, regularizer):
        rate = ""
        if model != "linear" and solver.startswith("sgd"):  # curvature limits the rate
            rate = f",learning_rate={RATES[loss]}"
        fitted = Ranker(model, loss, spec, solver + rate, random_state=1).fit(data)
        weights = fitted.model_.weights
        dense = weights.toarray() if hasattr(weights, "toarray") else np.asarray(weights)
        w = np.diag(dense) if model == "diagonal" and dense.ndim == 2 else dense.ravel()
        result = objective(pairs, loss, w.astype(float), l1, l2)
        assert least - 1e-7 <= result <= 1.01 * least, solver
