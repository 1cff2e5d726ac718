"""A small factored problem: SGD ends near the minimum of the objective that it reports.

The objective is written out here over all positives and all other documents, and minimised by
L-BFGS from several starts. It is not convex, so SGD has three starts as well. Every row is
penalised, those that no step moved too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from ranking import MatchingData, Ranker
from ranking.errors import PartError, TrainingWarning

N_QUERIES, N_DOCUMENTS, D = 15, 12, 3
Array = np.ndarray[Any, Any]


def likes() -> Array:
    rng = np.random.default_rng(5)
    liked = rng.random((N_QUERIES, N_DOCUMENTS)) < 0.1 + 0.5 * (
        np.arange(N_QUERIES)[:, None] % 3 == np.arange(N_DOCUMENTS) % 3
    )
    liked[np.arange(N_QUERIES), np.arange(N_QUERIES) % 10] = True
    liked[:, -1] = False  # never a positive
    return liked


LIKED = likes()
TRIPLETS = np.array(
    [(q, p, n) for q, p in np.argwhere(LIKED) for n in np.flatnonzero(~LIKED[q])], dtype=int
)
POSITIVES, NEGATIVES = (TRIPLETS[:, :1] * N_DOCUMENTS + TRIPLETS[:, 1:]).T  # of flat scores
SHARES = 1.0 / ((~LIKED).sum(axis=1)[TRIPLETS[:, 0]] * LIKED.sum())


def value_of(loss: str, z: Array) -> tuple[Array, Array]:
    if loss == "hinge":
        return np.maximum(0.0, 1.0 - z), -(z < 1.0).astype(float)
    return np.logaddexp(0.0, -z), -1.0 / (1.0 + np.exp(z))


def mean_loss(loss: str, U: Array, V: Array, b: Array) -> tuple[float, Array, Array, Array]:
    """Return the mean over positives of the mean over negatives, and its gradient."""
    scores = (U @ V.T + b).ravel()
    values, slopes = value_of(loss, scores[POSITIVES] - scores[NEGATIVES])
    of_scores = np.bincount(POSITIVES, SHARES * slopes, minlength=scores.size)
    of_scores -= np.bincount(NEGATIVES, SHARES * slopes, minlength=scores.size)
    of_scores = of_scores.reshape(N_QUERIES, N_DOCUMENTS)
    return float(SHARES @ values), of_scores @ V, of_scores.T @ U, of_scores.sum(axis=0)


def smooth_penalty(name: str, rows: Array, strength: float) -> tuple[float, Array]:
    """Return the penalty, with |x| as sqrt(x**2 + 1e-10), and its gradient."""
    if name == "l2":
        return 0.5 * strength * float((rows**2).sum()), strength * rows
    if name == "group-l1":
        norms = np.sqrt((rows**2).sum(axis=1, keepdims=True) + 1e-10)
        weight = strength * np.sqrt(D)
        return weight * float(norms.sum()), weight * rows / norms
    sizes = np.sqrt(rows**2 + 1e-10)
    value, slope = strength * float(sizes.sum()), strength * rows / sizes
    if name == "elastic":
        second, more = smooth_penalty("l2", rows, 0.5 * strength)
        return 0.5 * value + second, 0.5 * slope + more
    return (0.0, 0.0 * rows) if name == "max-norm" else (value, slope)


def least(loss: str, name: str, strength: float, limit: float | None) -> float:
    """Return the least objective of several starts; a limit is kept by scaling rows back."""
    cut = N_QUERIES * D, (N_QUERIES + N_DOCUMENTS) * D

    def cost(x: Array) -> tuple[float, Array]:
        raw = x[: cut[0]].reshape(-1, D), x[cut[0] : cut[1]].reshape(-1, D)
        rows = [_within(part, limit) for part in raw]
        value, *slopes, of_biases = mean_loss(loss, *rows, x[cut[1] :])
        gradients = []
        for part, row, slope in zip(raw, rows, slopes, strict=True):
            penalty, more = smooth_penalty(name, row, strength)
            value += penalty
            gradients.append(_pull_back(part, slope + more, limit).ravel())
        return value, np.concatenate((*gradients, of_biases))

    best = np.inf
    for seed in range(8):
        start = 0.5 * np.random.default_rng(seed).normal(size=cut[1] + N_DOCUMENTS)
        options = {"maxiter": 3000, "maxfun": 6000}
        best = min(best, minimize(cost, start, jac=True, method="L-BFGS-B", options=options).fun)
    return float(best)


def _within(rows: Array, limit: float | None) -> Array:
    if limit is None:
        return rows
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1.0, limit / np.maximum(norms, 1e-12))


def _pull_back(rows: Array, gradient: Array, limit: float | None) -> Array:
    """Return the gradient before rows were scaled back."""
    if limit is None:
        return gradient
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = rows / np.maximum(norms, 1e-12)
    along = (gradient * unit).sum(axis=1, keepdims=True)
    return np.where(
        norms > limit, limit / np.maximum(norms, 1e-12) * (gradient - along * unit), gradient
    )


PENALTIES = [
    ("l2:strength=0.01", None),
    ("l1:strength=0.003", None),
    ("elastic:strength=0.006", None),
    ("l1l2-row:strength=0.003,limit=1.2", 1.2),
    ("group-l1:strength=0.002", None),
    ("max-norm:limit=1.2", 1.2),
]
CELLS = [("hinge", *penalty) for penalty in PENALTIES] + [("bpr", *p) for p in PENALTIES[:3]]
RATES = {
    "adagrad": "schedule=adagrad,learning_rate=0.3",
    "inverse-sqrt": "schedule=inverse-sqrt,learning_rate=2",
}


@pytest.mark.slow
@pytest.mark.parametrize("schedule", RATES)
@pytest.mark.parametrize(("loss", "spec", "limit"), CELLS)
def test_sgd_ends_near_the_minimum(loss, spec, limit, schedule):
    data = MatchingData(relevance=LIKED.astype(float))
    steps = "max_steps=200000,steps_per_epoch=100000,prox_interval=50,batch_size=10"
    best, least_value = np.inf, 0.0
    for seed in (4, 5, 3):
        fitted = Ranker(
            f"factored:dimensions={D},init_scale=0.5",
            loss,
            spec,
            f"sgd:{steps},{RATES[schedule]}",
            random_state=seed,
        ).fit(data)
        name, strength = fitted.regularizer_.name, getattr(fitted.regularizer_, "strength", 0.0)
        model = fitted.model_
        U, V = model.U[:, :D].astype(float), model.V[:, :D].astype(float)
        value = mean_loss(loss, U, V, model.document_biases.astype(float))[0]
        value += sum(smooth_penalty(name, rows, strength)[0] for rows in (U, V))
        best = min(best, value)
        least_value = least_value or least(loss, name, strength, limit)
        if best <= 1.05 * least_value:
            break
    assert best <= 1.05 * least_value


SOLVERS = ("sgd:epochs=5", "coordinate:max_epochs=4,tolerance=0", "alternating:max_epochs=3")


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_penalty_that_removes_all_embeddings_warns(solver):
    data = MatchingData(relevance=LIKED.astype(float))
    with pytest.warns(TrainingWarning, match="sets all embeddings to 0; reduce its strength"):
        fitted = Ranker("factored:dimensions=3", "hinge", "l1:strength=10", solver).fit(data)
    assert not fitted.model_.has_embeddings


def test_frequencies_weigh_the_rows_of_l2():
    """By hand: shares of positives, and 1 / (number of documents) for the negative."""
    data = MatchingData(relevance=LIKED.astype(float))
    parts = ("factored:dimensions=3", "bpr", "l2:strength=0.3,scaling=frequency")
    queries = LIKED.sum(axis=1) / LIKED.sum()
    documents = LIKED.sum(axis=0) / LIKED.sum() + 1.0 / N_DOCUMENTS
    for solver in ("sgd:epochs=3", "coordinate:max_epochs=3,tolerance=0"):
        fitted = Ranker(*parts, solver, random_state=0).fit(data)
        model, last = fitted.model_, fitted.history_[-1]
        norms = [(side.astype(float) ** 2).sum(axis=1) for side in (model.U, model.V)]
        penalty = 0.15 * (queries @ norms[0] + documents @ norms[1])
        if solver.startswith("sgd"):
            assert last["objective"] - last["loss"] == pytest.approx(penalty, rel=1e-5)
        else:
            assert last["objective"] > penalty
            history = [row["objective"] for row in fitted.history_]
            assert history == sorted(history, reverse=True)


def test_frequencies_are_for_embeddings():
    data = MatchingData(np.eye(4), np.eye(4), relevance=np.eye(4))
    with pytest.raises(PartError, match="for the rows of embeddings"):
        Ranker("bilinear", "hinge", "l2:scaling=frequency", "sgd").fit(data)
