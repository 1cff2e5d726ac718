"""Least squares of all pairs by alternating half-steps (iALS)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.errors import CombinationError, DataError
from ranking.models.factored import Factored

USERS, ITEMS, D = 30, 20, 4
OBSERVED, UNOBSERVED, STRENGTH = 1.5, 0.05, 0.3
LOSS = f"squared:observed={OBSERVED},unobserved={UNOBSERVED}"
MODEL = f"factored:dimensions={D},biases=false"
MANY = "alternating:max_epochs=300,tolerance=0,steps=4"


def interactions() -> np.ndarray:
    rng = np.random.default_rng(3)
    dense = rng.normal(size=(USERS, 3)) @ rng.normal(size=(3, ITEMS))
    return np.where(dense > 1.2, 1.0 + (dense > 2.5), 0.0)


def features(rows: int, columns: int) -> sp.csr_array:
    rng = np.random.default_rng(rows)
    return sp.csr_array(np.where(rng.random((rows, columns)) < 0.4, rng.random((rows, columns)), 0))


def fitted(solver: str, frequency: float, data: MatchingData | None = None, **parts: Any) -> Ranker:
    data = MatchingData(relevance=interactions()) if data is None else data
    regularizer = f"l2:strength={STRENGTH},frequency={frequency}"
    return Ranker(MODEL, LOSS, regularizer, solver, **parts).fit(data)


def pair_weights() -> np.ndarray:
    return np.where(interactions() != 0.0, OBSERVED, UNOBSERVED)


def embeddings(ranker: Ranker) -> tuple[np.ndarray, np.ndarray]:
    model = ranker.model_
    assert isinstance(model, Factored)
    return model.U[:, :D].astype(float), model.V[:, :D].astype(float)


def objective(
    U: np.ndarray, V: np.ndarray, frequency: float, X: np.ndarray, Y: np.ndarray
) -> float:
    """The objective from its formula, over all pairs."""
    weights = pair_weights()
    loss = (weights * (interactions() - (X @ U) @ (Y @ V).T) ** 2).sum()
    counts = interactions() != 0.0
    rows, columns = (X**2).T @ counts.sum(1), (Y**2).T @ counts.sum(0)
    penalty = rows**frequency @ (U**2).sum(1) + columns**frequency @ (V**2).sum(1)
    return float(loss + STRENGTH / 2 * penalty)


@pytest.mark.parametrize("frequency", [0.0, 0.5, 1.0])
def test_reported_objective_is_that_of_all_pairs_and_falls(frequency: float):
    ranker = fitted("alternating:max_epochs=6,tolerance=0", frequency)
    U, V = embeddings(ranker)
    expected = objective(U, V, frequency, np.eye(USERS), np.eye(ITEMS))
    assert ranker.objective_ == pytest.approx(expected, rel=1e-5)
    halves = [row[name] for row in ranker.history_ for name in ("half objective", "objective")]
    assert (np.diff(halves) < 0.0).all()


def test_enough_steps_solve_the_normal_equations():
    ranker = fitted("alternating:max_epochs=1,steps=30", 1.0)
    U, V = embeddings(ranker)
    clicks, weights = interactions(), pair_weights()
    for item in range(ITEMS):
        own = weights[:, item]
        system = (U * own[:, None]).T @ U + STRENGTH / 2 * (own == OBSERVED).sum() * np.eye(D)
        expected = np.linalg.solve(system, U.T @ (own * clicks[:, item]))
        assert V[item] == pytest.approx(expected, rel=1e-3, abs=1e-4)


@pytest.mark.parametrize("sides", ["none", "users", "items", "both"])
def test_gradient_vanishes_at_convergence_with_and_without_features(sides: str):
    X = features(USERS, 6) if sides in ("users", "both") else None
    Y = features(ITEMS, 5) if sides in ("items", "both") else None
    ranker = fitted(MANY, 0.5, MatchingData(X, Y, interactions()))
    U, V = embeddings(ranker)
    rows = np.eye(USERS) if X is None else X.toarray()
    columns = np.eye(ITEMS) if Y is None else Y.toarray()
    value = objective(U, V, 0.5, rows, columns)
    assert ranker.objective_ == pytest.approx(value, rel=1e-5)
    objectives = np.array([row["objective"] for row in ranker.history_])
    assert (np.diff(objectives) <= 1e-5 * value).all()
    rng, width = np.random.default_rng(0), 1e-4
    for _ in range(5):
        dU, dV = rng.normal(size=U.shape), rng.normal(size=V.shape)
        ends = [
            objective(U + sign * width * dU, V + sign * width * dV, 0.5, rows, columns)
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / (2 * width)
        curvature = (ends[0] + ends[1] - 2 * value) / width**2
        assert abs(slope) < 0.02 * abs(curvature)


def test_equal_weights_converge_to_singular_vectors():
    clicks = interactions()
    data = MatchingData(relevance=clicks)
    ranker = Ranker(MODEL, "squared", "none", "alternating:max_epochs=200,tolerance=0,steps=4")
    scores = ranker.fit(data).predict(data)
    left, values, right = np.linalg.svd(clicks)
    best = (left[:, :D] * values[:D]) @ right[:D]
    assert scores == pytest.approx(best, abs=2e-2)


def test_resumed_training_has_the_same_bits(tmp_path: Any):
    data = MatchingData(relevance=interactions())
    once = fitted("alternating:max_epochs=4,tolerance=0", 1.0)
    plan = Ranker(
        MODEL, LOSS, f"l2:strength={STRENGTH},frequency=1.0", "alternating:max_epochs=4,tolerance=0"
    ).plan()
    first = plan.trainer(data)
    epochs = first.solver.run_epochs(first.problem())
    next(epochs)
    state = next(epochs).state()
    second = plan.trainer(data, initial=first.model.tensors())
    for _ in second.solver.run_epochs(second.problem(state)):
        pass
    tensors = once.model_.tensors()
    assert all(
        np.array_equal(value, tensors[name]) for name, value in second.model.tensors().items()
    )


def test_a_new_user_solves_the_normal_equations():
    ranker = fitted("alternating:max_epochs=5,tolerance=0", 1.0)
    _, V = embeddings(ranker)
    history = [1, 4, 7]
    own = np.full(ITEMS, UNOBSERVED)
    own[history] = OBSERVED
    system = (V * own[:, None]).T @ V + STRENGTH / 2 * len(history) * np.eye(D)
    scores = V @ np.linalg.solve(system, OBSERVED * V[history].sum(0))
    scores[history] = -np.inf
    result = ranker.fold_in(MatchingData(relevance=interactions()), {"new": history}, 5)["new"]
    best = np.argsort(-scores, kind="stable")[:5]
    assert [item for item, _ in result] == best.tolist()
    assert [score for _, score in result] == pytest.approx(scores[best], rel=1e-3)


def test_frequency_is_refused_where_no_weights_are_known():
    data = MatchingData(relevance=interactions())
    with pytest.raises(CombinationError, match="recipe ials"):
        Ranker(MODEL, "bpr", "l2:strength=0.1,frequency=1", "sgd").fit(data)


@pytest.mark.parametrize("solver", ["svd", "nmf"])
def test_factorizations_refuse_weights(solver: str):
    with pytest.raises(CombinationError, match="weights all pairs by 1"):
        Ranker(MODEL, LOSS, "none", solver).fit(MatchingData(relevance=interactions()))


def test_labels_are_refused():
    data = MatchingData([[1.0], [2.0]], [[1.0], [2.0]], labels=(["a", "b"], ["a", "b"]))
    with pytest.raises(DataError, match="pass relevance"):
        Ranker("factored:dimensions=1", LOSS, "l2", "alternating").fit(data)


def test_auto_is_the_root_of_the_share_of_stored_pairs(tmp_path):
    rng = np.random.default_rng(0)
    relevance = sp.csr_array((rng.random((50, 40)) < 0.1).astype(float))
    data = MatchingData(None, None, relevance)
    expected = float(f"{np.sqrt(relevance.nnz / 2000):.3g}")
    parts = {"model": "factored:dimensions=3,biases=false", "solver": "alternating:max_epochs=3"}
    auto, explicit = (
        Ranker(
            **parts, loss=f"squared:unobserved={value}", regularizer="l2:strength=0.1,frequency=1"
        ).fit(data)
        for value in ("auto", expected)
    )
    assert auto.loss_.unobserved == expected
    assert auto.model_.U.tobytes() == explicit.model_.U.tobytes()
    auto.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert loaded.loss_.unobserved == expected
    assert auto.loss == "squared:unobserved=auto"  # a new fit on other data resolves it again
