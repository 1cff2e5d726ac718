"""The domination loss and its solver against independent oracles: L-BFGS, subgradients."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranking import Judged, Ranker, get_kernel
from ranking_plugins.losses.domination import Domination
from ranking_plugins.regularizers.l1 import L1
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.regularizers.none import NoPenalty
from ranking_plugins.solvers.coordinate import Coordinate

EXACT = Coordinate(max_epochs=5000, tolerance=0.0)


def objective(data: Judged, weights: np.ndarray, loss: Domination) -> tuple[float, np.ndarray]:
    """Mean loss and gradient by the list face: plain NumPy, no kernel."""
    scores = np.asarray(data.features, dtype=float) @ weights
    slopes, value, dominating = np.zeros(data.n_rows), 0.0, 0
    ptr = data.group_ptr if loss.queries == "apart" else data.group_ptr[[0, -1]]
    for rows in map(slice, ptr[:-1], ptr[1:]):
        value += loss.list_value(scores[rows], data.grades[rows])
        slopes[rows] = loss.list_slopes(scores[rows], data.grades[rows])
        dominating += np.count_nonzero(data.grades[rows] > data.grades[rows].min())
    gradient = np.asarray(data.features, dtype=float).T @ slopes
    return value / dominating, gradient / dominating


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 5), st.sampled_from([0.1, 1, 30]))
def test_list_slopes_are_the_derivative(seed, size, grades, scale):
    rng = np.random.default_rng(seed)
    scores, judged = rng.normal(size=size) * scale, rng.integers(0, grades, size).astype(float)
    loss, tiny = Domination(), 1e-5
    slopes = loss.list_slopes(scores, judged)
    for i, unit in enumerate(np.eye(size)):
        up = loss.list_value(scores + tiny * unit, judged)
        down = loss.list_value(scores - tiny * unit, judged)
        assert slopes[i] == pytest.approx((up - down) / (2 * tiny), abs=1e-5)


def test_the_thesis_by_hand():
    # Two above one: each has the term log(1 + exp(f_low - f_i)).
    value = Domination().list_value(np.array([2.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.0]))
    assert value == pytest.approx(np.log1p(np.exp(-1.5)) + np.log1p(np.exp(-0.5)))


@pytest.mark.parametrize("queries", ["apart", "pooled"])
@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_l2_agrees_with_lbfgs(judged, queries, strength):
    loss = Domination(queries=queries)
    ranker = Ranker(loss=loss, regularizer=L2(strength), solver=EXACT).fit(judged)

    def target(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, gradient = objective(judged, w, loss)
        return value + strength / 2 * w @ w, gradient + strength * w

    oracle = minimize(
        target,
        np.zeros(judged.n_features),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 10_000},
    )
    assert ranker.objective_ == pytest.approx(oracle.fun, rel=1e-6)
    assert ranker.objective_ <= oracle.fun * (1 + 1e-9)
    np.testing.assert_allclose(ranker.model_.weights, oracle.x, atol=1e-5)


@pytest.mark.parametrize("queries", ["apart", "pooled"])
def test_l1_meets_the_subgradient_condition(judged, queries):
    loss, strength = Domination(queries=queries), 0.05
    ranker = Ranker(loss=loss, regularizer=L1(strength), solver=EXACT).fit(judged)
    w = ranker.model_.weights
    _, gradient = objective(judged, w, loss)
    on = w != 0
    assert on.any()
    assert not on.all()
    np.testing.assert_allclose(gradient[on], -strength * np.sign(w[on]), atol=1e-7)
    assert np.all(np.abs(gradient[~on]) <= strength + 1e-9)


@pytest.mark.parametrize("curvature", ["newton", "popoviciu", "paper"])
@pytest.mark.parametrize("regularizer", [NoPenalty(), L1(0.02), L2(0.02)], ids=lambda r: r.name)
def test_every_step_decreases_the_objective(judged, curvature, regularizer):
    problem = Domination().coordinate_problem(
        judged, np.zeros(judged.n_features), get_kernel(), 1, curvature
    )
    before = problem.value()
    for epoch in range(4):
        for column in range(judged.n_features):
            problem.sweep(np.array([column]), regularizer.entry_penalty())
            after = problem.value() + regularizer.penalty(problem.weights)
            assert after <= before + 1e-12 * abs(before), (epoch, column)
            before = after


def test_slopes_are_those_of_the_list_face(judged):
    weights = np.linspace(-1, 1, judged.n_features)
    problem = Domination().coordinate_problem(judged, weights, get_kernel(), 1, "newton")
    value, gradient = objective(judged, weights, Domination())
    assert problem.value() == pytest.approx(value, rel=1e-12)
    slopes, curvature = problem.slopes(np.arange(judged.n_features))
    np.testing.assert_allclose(slopes, gradient, rtol=1e-10, atol=1e-12)
    assert np.all(curvature > 0)


def test_a_constant_feature_gets_no_weight(judged):
    X = np.array(judged.features)
    X[:, 2] = 7.0
    data = Judged(X, judged.grades, judged.query_ids[judged.row_groups])
    assert Ranker(loss="domination", regularizer=L2(0.1)).fit(data).model_.weights[2] == 0.0


def test_huge_features_stay_finite_and_monotone(judged):
    data = Judged(
        np.array(judged.features) * 1e4, judged.grades, judged.query_ids[judged.row_groups]
    )
    ranker = Ranker(loss="domination", regularizer=L2(1e-9), solver="coordinate:max_epochs=30")
    history = [row["objective"] for row in ranker.fit(data).history_]
    assert np.all(np.isfinite(history))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(history))
