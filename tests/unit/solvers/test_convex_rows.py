"""SGD on convex cells of matrices, and with penalties of rows: the optimum of proximal gradients.

The oracle is FISTA with a line search and restarts, written out here with its own prox operators.
The hinge, which has no gradient at its kink, is smoothed below by at most half of `SMOOTHING`. The
cells of `diagonal` with l1 are left out: there a weight that has become 0 stays 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking import MatchingData, Ranker

Array = np.ndarray[Any, Any]
SMOOTHING = 0.002
LOSSES = ("hinge", "squared-hinge", "logistic", "exponential")
KERNEL = "sgd:max_steps=300000,steps_per_epoch=300000,schedule=inverse-sqrt,learning_rate=0.3"
BETWEEN = (
    "sgd:max_steps=40000,steps_per_epoch=40000,schedule=inverse-sqrt,learning_rate=0.3,"
    "prox_interval=20"
)


def matching(seed: int) -> MatchingData:
    rng = np.random.default_rng(seed)
    queries, documents = rng.normal(size=(9, 3)), rng.normal(size=(7, 3))
    liked = queries @ np.diag([1.0, -1.0, 0.3]) @ documents.T + rng.normal(size=(9, 7)) > 0.6
    liked[np.arange(9), np.arange(9) % 7] = True
    liked[np.arange(9), (np.arange(9) + 1) % 7] = False
    return MatchingData(queries, documents, relevance=liked.astype(float))


def pairs_of(data: MatchingData, diagonal: bool) -> tuple[Array, Array]:
    """Return one row of features per pair, and its share: uniform queries, then positives."""
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    liked = data.relevance.toarray() > 0
    rows, shares = [], []
    for q, row in zip(queries, liked, strict=True):
        for positive in np.flatnonzero(row):
            for negative in np.flatnonzero(~row):
                change = documents[positive] - documents[negative]
                rows.append(q * change if diagonal else np.outer(q, change).ravel())
                shares.append(1.0 / (len(queries) * row.sum() * (~row).sum()))
    return np.array(rows), np.array(shares)


def loss_and_slope(name: str, z: Array, smoothing: float) -> tuple[Array, Array]:
    gap = np.maximum(0.0, 1.0 - z)
    if name == "hinge":
        near = gap < smoothing
        smooth = np.where(near, gap**2 / (2.0 * max(smoothing, 1e-300)), gap - 0.5 * smoothing)
        return smooth, -np.where(near, gap / max(smoothing, 1e-300), 1.0)
    if name == "squared-hinge":
        return gap**2, -2.0 * gap
    if name == "logistic":
        return np.logaddexp(0.0, -z), -1.0 / (1.0 + np.exp(z))
    return np.exp(-z), -np.exp(-z)


def soft(W: Array, by: float) -> Array:
    return np.sign(W) * np.maximum(np.abs(W) - by, 0.0)


def scaled(W: Array, limit: float) -> Array:
    return W * np.minimum(1.0, limit / np.maximum(np.linalg.norm(W, axis=1), 1e-300))[:, None]


def prox(name: str, W: Array, step: float, strength: float) -> Array:
    if name == "l2":
        return W / (1.0 + step * strength)
    if name == "max-norm":
        return scaled(W, 0.4)
    if name == "group-l1":
        norms = np.maximum(np.linalg.norm(W, axis=1), 1e-300)
        return W * np.maximum(0.0, 1.0 - step * strength * np.sqrt(W.shape[1]) / norms)[:, None]
    if name == "elastic":
        return soft(W, 0.5 * step * strength) / (1.0 + 0.5 * step * strength)
    if name == "none":
        return W
    return soft(W, step * strength) if name == "l1" else scaled(soft(W, step * strength), 0.5)


def penalty(name: str, W: Array, strength: float) -> float:
    absolute, square = strength * np.abs(W).sum(), 0.5 * strength * (W**2).sum()
    if name == "group-l1":
        return float(strength * np.sqrt(W.shape[1]) * np.linalg.norm(W, axis=1).sum())
    values = {"l1": absolute, "l2": square, "l1l2-row": absolute}
    return float(values.get(name, 0.5 * (absolute + square) if name == "elastic" else 0.0))


def least(pairs: tuple[Array, Array], loss: str, name: str, strength: float, shape: Any) -> float:
    """Return the least objective by FISTA."""
    D, shares = pairs
    w = y = np.zeros(D.shape[1])
    momentum, bound = 1.0, 1.0
    for _ in range(2000):
        values, slopes = loss_and_slope(loss, D @ y, SMOOTHING)
        value, gradient = float(shares @ values), D.T @ (shares * slopes)
        while True:
            new = prox(name, (y - gradient / bound).reshape(shape), 1.0 / bound, strength).ravel()
            d = new - y
            reached = float(shares @ loss_and_slope(loss, D @ new, SMOOTHING)[0])
            if reached <= value + gradient @ d + 0.5 * bound * d @ d + 1e-12:
                break
            bound *= 2.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        y = new + (momentum - 1.0) / following * (new - w)
        if (y - new) @ (new - w) < 0.0:
            following, y = 1.0, new
        w, momentum, bound = new, following, 0.98 * bound
    values = loss_and_slope(loss, D @ w, SMOOTHING)[0]
    return float(shares @ values) + penalty(name, w.reshape(shape), strength)


def check(model: str, loss: str, name: str, strength: float, solver: str) -> None:
    data = matching(0)
    pairs = pairs_of(data, model == "diagonal")
    options = {"max-norm": "limit=0.4", "l1l2-row": f"strength={strength},limit=0.5"}
    spec = f"{name}:{options.get(name, f'strength={strength}')}" if name != "none" else name
    fitted = Ranker(model, loss, spec, solver, random_state=1).fit(data)
    W = fitted.model_.weights.toarray().astype(float)
    shape = (3, 1) if model == "diagonal" else (3, 3)
    W = np.diag(W)[:, None] if model == "diagonal" else W
    objective = float(pairs[1] @ loss_and_slope(loss, pairs[0] @ W.ravel(), 0.0)[0])
    objective += penalty(name, W, strength)
    wanted = least(pairs, loss, name, strength, shape)
    assert wanted - 1e-4 <= objective <= 1.01 * (wanted + 0.5 * SMOOTHING)


KERNEL_CELLS = [("diagonal", "none"), ("diagonal", "l2")] + [
    ("bilinear", name) for name in ("none", "l1", "l2", "elastic", "group-l1")
]


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("model", "name"), KERNEL_CELLS)
@settings(max_examples=1, deadline=None, derandomize=True)
@given(log_strength=st.floats(-2.5, -1.3))
def test_matrices_reach_the_optimum(model, loss, name, log_strength):
    check(model, loss, name, 10.0**log_strength, KERNEL)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["max-norm", "l1l2-row"])
@settings(max_examples=1, deadline=None, derandomize=True)
@given(log_strength=st.floats(-2.5, -1.3))
def test_penalties_of_rows_reach_the_optimum(loss, name, log_strength):
    check("bilinear", loss, name, 10.0**log_strength, BETWEEN)
