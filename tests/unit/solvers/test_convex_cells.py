"""Convex cells: SGD with a decaying rate, coordinate descent and L-BFGS reach the optimum.

The cells are those that work of convex losses, regularizers and solvers, with models that are
linear in their weights; hypothesis draws the strengths. The oracle is FISTA with a line search and
restarts, with losses and prox operators that are written out here, over all pairs, or all lists
that may be sampled. The hinge, which has no gradient at its kink, is smoothed below by at most half
of `SMOOTHING`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking import JudgedLists, MatchingData, Ranker
from ranking.registry.compatibility import Grid

Array = np.ndarray[Any, Any]
SMOOTHING = 0.002
PAIRWISE = ("hinge", "squared-hinge", "logistic", "exponential")
LISTWISE = ("domination", "listnet", "listmle", "exponential-pairs")
REGULARIZERS = (
    "none",
    "l1",
    "l2",
    "elastic",
    "max-norm",
    "l1-row",
    "l1l2-row",
    "group-l1",
)
NEGATIVES = 2
RATES = {"hinge": 1.0, "squared-hinge": 0.5, "exponential": 0.5, "exponential-pairs": 0.1}
STEPS = {"listnet": 8000, "exponential-pairs": 15_000}  # which are written in Python
LIMITS = {"max-norm": 0.4, "l1-row": 0.5, "l1l2-row": 0.5}
SGD = "sgd:schedule=inverse-sqrt,max_steps={0},steps_per_epoch={0}"
COORDINATE = "coordinate:max_epochs=300,tolerance=1e-9"
LBFGS = "lbfgs:max_epochs=100,tolerance=1e-10"
WORKS = {str(cell) for cell in Grid().cells() if cell.compatibility().works}


class Lists(NamedTuple):
    """Lists of the same size: features (lists, rows, weights), grades, and a weight for each."""

    features: Array
    grades: Array
    weights: Array


def judged() -> JudgedLists:
    rng = np.random.default_rng(1)
    qids = np.repeat(np.arange(8), [5, 8, 4, 6, 5, 7, 6, 4])
    grades = rng.integers(0, 3, qids.size).astype(float)
    grades[np.unique(qids, return_index=True)[1]] = 3.0
    features = rng.normal(size=(qids.size, 4)) + 0.4 * grades[:, None] * [1.0, -0.5, 0.0, 0.3]
    return JudgedLists(features, grades, qids)


def matching() -> MatchingData:
    rng = np.random.default_rng(0)
    queries, documents = (
        rows / np.linalg.norm(rows, axis=1, keepdims=True)
        for rows in (rng.normal(size=(9, 3)), rng.normal(size=(7, 3)))
    )
    liked = queries @ np.diag([1.0, -1.0, 0.3]) @ documents.T + 0.4 * rng.normal(size=(9, 7)) > 0.2
    liked[np.arange(9), np.arange(9) % 7] = True
    liked[np.arange(9), (np.arange(9) + 1) % 7] = False
    return MatchingData(queries, documents, relevance=liked.astype(float))


def whole_lists(data: JudgedLists, loss: str) -> list[Lists]:
    """Return the judged lists; the loss is a mean over rows, pairs or lists."""
    parts = [slice(*ends) for ends in itertools.pairwise(data.group_ptr.tolist())]
    terms = [n_terms(loss, data.grades[part]) for part in parts]
    weight = np.array([1.0 / sum(terms)])
    return [Lists(data.features[part][None], data.grades[part][None], weight) for part in parts]


def n_terms(loss: str, grades: Array) -> int:
    if loss == "exponential-pairs":
        return int((grades[:, None] > grades).sum())
    return 1 if loss == "listnet" else int((grades > grades.min()).sum())


def pairs_of_rows(data: JudgedLists) -> list[Lists]:
    """Return each row with each lower one: the mean over rows of the mean over those."""
    features, weights = [], []
    for i in range(data.n_rows):
        own = data.row_groups == data.row_groups[i]
        below = np.flatnonzero(own & (data.grades < data.grades[i]))
        features.extend(np.stack((data.features[i], data.features[j])) for j in below)
        weights.extend([1.0 / max(below.size, 1)] * below.size)
    shares = np.array(weights) / np.sum(weights)
    grades = np.tile([1.0, 0.0], (shares.size, 1))
    return [Lists(np.array(features), grades, shares)]


def sampled_lists(data: MatchingData, diagonal: bool, n_negatives: int) -> list[Lists]:
    """Return all lists that SGD may sample: uniform queries, positives and negatives."""
    queries, documents = data.query_rows.toarray(), data.document_rows.toarray()
    liked = data.relevance.toarray() > 0
    features, weights = [], []
    for q, row in zip(queries, liked, strict=True):
        negatives = itertools.product(np.flatnonzero(~row), repeat=n_negatives)
        for positive, others in itertools.product(np.flatnonzero(row), negatives):
            d = documents[[positive, *others]]
            products = q * d if diagonal else (q[None, :, None] * d[:, None, :]).reshape(-1, 9)
            features.append(products)
            weights.append(1.0 / (len(queries) * row.sum() * (~row).sum() ** n_negatives))
    grades = np.tile([1.0] + [0.0] * n_negatives, (len(weights), 1))
    return [Lists(np.array(features), grades, np.array(weights))]


def loss_of_margin(name: str, z: Array, smoothing: float) -> tuple[Array, Array]:
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


def loss_of_lists(name: str, s: Array, g: Array, smoothing: float) -> tuple[Array, Array]:
    """Return the loss of each list, and its derivative with respect to each score."""
    if name == "listnet":
        target = np.exp(g) / np.exp(g).sum(axis=1, keepdims=True)
        log_share = s - np.log(np.exp(s).sum(axis=1, keepdims=True))
        return -(target * log_share).sum(axis=1), np.exp(log_share) - target
    higher = g[:, :, None] > g[:, None, :]
    if name in ("domination", "listmle"):  # log of the sum over this row and those below it
        same = np.eye(g.shape[1], dtype=bool)
        below = higher | (same if name == "domination" else g[:, :, None] == g[:, None, :])
        powers = below * np.exp(s)[:, None, :]
        sums = powers.sum(axis=2)
        counted = higher.any(axis=2)
        slopes = (counted[:, :, None] * powers / sums[:, :, None]).sum(axis=1) - counted
        return (counted * (np.log(sums) - s)).sum(axis=1), slopes
    values, slope = loss_of_margin(name, s[:, :, None] - s[:, None, :], smoothing)
    slope = higher * slope
    return (higher * values).sum(axis=(1, 2)), slope.sum(axis=2) - slope.sum(axis=1)


def mean_loss(lists: list[Lists], loss: str, w: Array, smoothing: float) -> tuple[float, Array]:
    total, gradient = 0.0, np.zeros(w.size)
    for part in lists:
        values, slopes = loss_of_lists(loss, part.features @ w, part.grades, smoothing)
        total += float(part.weights @ values)
        gradient += np.einsum("i,ij,ijk->k", part.weights, slopes, part.features)
    return total, gradient


def soft(W: Array, by: float | Array) -> Array:
    return np.sign(W) * np.maximum(np.abs(W) - by, 0.0)


def prox(name: str, W: Array, step: float, strength: float) -> Array:
    if name in ("max-norm", "l1l2-row"):
        W = soft(W, step * strength) if name == "l1l2-row" else W
        norms = np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
        return W * np.minimum(1.0, LIMITS[name] / norms)
    if name == "l1-row":
        return np.array([within_sum(row, LIMITS[name]) for row in W])
    if name == "group-l1":
        norms = np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
        return W * np.maximum(0.0, 1.0 - step * strength / norms)
    l1, l2 = entries(name, strength)
    return soft(W, step * l1) / (1.0 + step * l2)


def within_sum(row: Array, limit: float) -> Array:
    """Project by bisection of the threshold."""
    low, high = 0.0, float(np.abs(row).max())
    if np.abs(row).sum() <= limit:
        return row
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if soft(np.abs(row), middle).sum() > limit else (low, middle)
    return soft(row, high)


def entries(name: str, strength: float) -> tuple[float, float]:
    """Return the strengths of |w| and of w**2 / 2; the share of elastic is a half."""
    shares = {"l1": (1.0, 0.0), "l1l2-row": (1.0, 0.0), "l2": (0.0, 1.0), "elastic": (0.5, 0.5)}
    l1, l2 = shares.get(name, (0.0, 0.0))
    return strength * l1, strength * l2


def penalty(name: str, W: Array, strength: float) -> float:
    if name == "group-l1":
        return float(strength * np.linalg.norm(W, axis=1).sum())
    l1, l2 = entries(name, strength)
    return float(l1 * np.abs(W).sum() + 0.5 * l2 * (W**2).sum())


def least(smooth: Callable[[Array], tuple[float, Array]], name: str, strength: float, shape: Any):
    """Return the least objective by FISTA, with a line search and restarts."""
    w = y = np.zeros(int(np.prod(shape)))
    momentum, bound, still = 1.0, 1.0, 0
    for _ in range(3000):
        if still == 50:
            break
        value, gradient = smooth(y)
        while True:
            new = prox(name, (y - gradient / bound).reshape(shape), 1.0 / bound, strength).ravel()
            d = new - y
            if smooth(new)[0] <= value + gradient @ d + 0.5 * bound * d @ d + 1e-12:
                break
            bound *= 2.0
        following = (1.0 + np.sqrt(1.0 + 4.0 * momentum**2)) / 2.0
        still = still + 1 if np.abs(new - w).max() < 1e-6 else 0
        y = new + (momentum - 1.0) / following * (new - w)
        if (y - new) @ (new - w) < 0.0:
            following, y = 1.0, new
        w, momentum, bound = new, following, 0.98 * bound
    return smooth(w)[0] + penalty(name, w.reshape(shape), strength)


def spec_of(name: str, strength: float) -> str:
    values = [] if name in ("none", "max-norm", "l1-row") else [f"strength={strength}"]
    values += [f"limit={LIMITS[name]}"] if name in LIMITS else []
    return f"{name}:{','.join(values)}" if values else name


def solvers_of(model: str, loss: str, name: str) -> list[str]:
    """Return the solvers of a cell; features of matrices have no scale of their own."""
    lists = loss in LISTWISE
    if model == "linear":
        sgd = SGD.format(3000 if lists else 60_000)
    else:
        in_loop = name in ("none", "l1", "l2", "elastic", "group-l1") and not lists
        sgd = (
            SGD.format(200_000 if in_loop else STEPS.get(loss, 30_000))
            + f",n_negatives={NEGATIVES}"
        )
        sgd += f",learning_rate={RATES.get(loss, 2.0)}"
    reached = {"sgd": sgd, "coordinate": COORDINATE, "lbfgs": LBFGS}
    return [spec for key, spec in reached.items() if f"{model} x {loss} x {name} x {key}" in WORKS]


def check(model: str, loss: str, name: str, strength: float) -> None:
    data: Any = judged() if model == "linear" else matching()
    if model == "linear":
        lists = whole_lists(data, loss) if loss in LISTWISE else pairs_of_rows(data)
        shape = (1, 4)
    else:
        n_negatives = NEGATIVES if loss in LISTWISE else 1
        lists = sampled_lists(data, model == "diagonal", n_negatives)
        shape = (3, 1) if model == "diagonal" else (3, 3)
    # group-l1 has the root of the number of columns of the matrix in its weights
    weight = strength * np.sqrt(4 if model == "linear" else 3) if name == "group-l1" else strength
    smoothing = SMOOTHING if loss == "hinge" else 0.0
    wanted = least(lambda w: mean_loss(lists, loss, w, smoothing), name, weight, shape)
    solvers = solvers_of(model, loss, name)
    assert solvers
    for solver in solvers:
        fitted = Ranker(model, loss, spec_of(name, strength), solver, random_state=1).fit(data)
        stored = fitted.model_.weights
        W = stored.toarray().astype(float) if model != "linear" else np.asarray(stored)[None]
        W = np.diag(W)[:, None] if model == "diagonal" else W
        if name in ("max-norm", "l1l2-row"):
            assert np.linalg.norm(W, axis=1).max() <= LIMITS[name] * (1.0 + 1e-5)
        if name == "l1-row":
            assert np.abs(W).sum(axis=1).max() <= LIMITS[name] * (1.0 + 1e-5)
        reached = mean_loss(lists, loss, W.ravel(), 0.0)[0] + penalty(name, W, weight)
        assert wanted - 1e-4 <= reached <= 1.01 * (wanted + 0.5 * smoothing), solver


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*PAIRWISE, *LISTWISE])
@pytest.mark.parametrize("name", REGULARIZERS)
@settings(max_examples=2, deadline=None, derandomize=True)
@given(log_strength=st.floats(-2.5, -0.7))
def test_every_solver_of_a_linear_model_reaches_the_optimum(loss, name, log_strength):
    check("linear", loss, name, 10.0**log_strength)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*PAIRWISE, *LISTWISE])
@pytest.mark.parametrize("name", REGULARIZERS)
@pytest.mark.parametrize("model", ["diagonal", "bilinear"])
@settings(max_examples=1, deadline=None, derandomize=True)
@given(log_strength=st.floats(-2.5, -1.3))
def test_matrices_reach_the_optimum(model, loss, name, log_strength):
    check(model, loss, name, 10.0**log_strength)


def test_all_convex_losses_are_here():
    """The others are not convex, as WARP, are not functions of these lists, or have own tests."""
    known = {cell.split(" x ")[1] for cell in WORKS if cell.startswith("linear x")}
    others = {"auc", "bpr", "warp", "smooth-warp", "softmax", "squared-grades", "lambdarank"}
    others |= {"approx-ndcg", "alignment", "metric-exponential", "preference-graph"}
    assert known - others == {*PAIRWISE, *LISTWISE}
