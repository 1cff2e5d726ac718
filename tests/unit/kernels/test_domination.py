"""The mathematics of the domination loss, for every kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.kernels.contract import CoordinateState, EntryPenalty
from ranking.kernels.domination import LayeredLists
from ranking.kernels.kernel import Kernel

MakeProblem = Callable[..., Any]


def naive_value(lists: LayeredLists, margins: np.ndarray) -> float:
    """The definition: over each row of a layer, and all rows of the layers below it."""
    total = 0.0
    for q in range(lists.n_lists):
        below = np.zeros(0)
        for layer in range(lists.list_ptr[q], lists.list_ptr[q + 1]):
            start = int(lists.layer_ptr[layer])
            rows = range(start, start + int(lists.layer_size[layer]))
            for i in rows:
                if below.size:
                    total += lists.omega[i] * np.logaddexp.reduce([0.0, *(below - margins[i])])
            below = np.concatenate([below, margins[rows]])
    return total


def objective(
    kernel: Kernel, lists: LayeredLists, state: CoordinateState, penalty: EntryPenalty
) -> float:
    l1, l2 = float(np.abs(state.weights).sum()), float(state.weights @ state.weights)
    loss = kernel.domination.value(lists, state.margins)
    return loss + penalty.l1 * l1 + penalty.l2 / 2.0 * l2


@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 1e3, 1e6])
@pytest.mark.parametrize("sparse", [False, True])
def test_value(kernel: Kernel, make_problem: MakeProblem, spread: float, sparse: bool) -> None:
    _, lists, margins = make_problem(1, spread=spread, sparse=sparse)
    value = kernel.domination.value(lists, margins)
    assert value == pytest.approx(naive_value(lists, margins), rel=1e-13)


def test_value_of_a_pair(kernel: Kernel) -> None:
    lists = LayeredLists.build(np.array([0, 2]), np.array([0.0, 1.0]), np.array([1.0, 3.0]), pad=1)
    assert kernel.domination.value(lists, np.array([2.0, 5.0])) == pytest.approx(
        3.0 * math.log1p(math.exp(-3.0)), rel=1e-15
    )


@pytest.mark.parametrize("spread", [0.0, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_slopes_are_derivatives(
    kernel: Kernel, make_problem: MakeProblem, spread: float, sparse: bool
) -> None:
    problem = make_problem(2, spread=spread, sparse=sparse)
    features, lists, margins = problem
    gradient, curvature = kernel.domination.slopes(features, lists, margins, problem.columns)
    x = features.toarray() if sparse else features
    for r in problem.columns:

        def along(t: float, r: int = r) -> float:
            return kernel.domination.value(lists, margins + t * x[:, r])

        step = 1e-5
        assert gradient[r] == pytest.approx(
            (along(step) - along(-step)) / (2.0 * step), rel=1e-6, abs=1e-7
        )
        step = 1e-3
        assert curvature[r] == pytest.approx(
            (along(step) - 2.0 * along(0.0) + along(-step)) / step**2, rel=1e-4, abs=1e-6
        )


@pytest.mark.parametrize("spread", [1.0, 100.0, 1e3])
def test_dense_equals_sparse(kernel: Kernel, make_problem: MakeProblem, spread: float) -> None:
    features, lists, margins = make_problem(3, spread=spread)
    real = lists.source >= 0
    sizes = lists.layer_size
    unpadded = LayeredLists(
        list_ptr=lists.list_ptr,
        layer_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        layer_size=sizes,
        block_ptr=lists.block_ptr,
        omega=lists.omega[real],
        source=lists.source[real],
    )
    csc = sp.csc_array(features[real])
    columns = np.arange(features.shape[1])
    dense = kernel.domination.bounds(features, lists)
    np.testing.assert_allclose(kernel.domination.bounds(csc, unpadded), dense, rtol=1e-12)
    np.testing.assert_allclose(
        kernel.domination.slopes(csc, unpadded, margins[real], columns),
        kernel.domination.slopes(features, lists, margins, columns),
        rtol=1e-9,
        atol=1e-12,
    )

    bounds = np.ascontiguousarray(dense[[0, 2, 3]])
    states = []
    for by_column, layout, start in ((features, lists, margins), (csc, unpadded, margins[real])):
        state = CoordinateState(start.copy(), np.zeros(columns.size), 1.0 / bounds[1], bounds)
        for _ in range(5):
            penalty = EntryPenalty(0.0, 0.1)
            kernel.domination.sweep(by_column, layout, state, columns, penalty=penalty)
        states.append(state)
    one, two = states
    np.testing.assert_allclose(two.weights, one.weights, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(two.margins, one.margins[real], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sparse", [False, True])
def test_bounds_bound_the_curvature(
    kernel: Kernel, make_problem: MakeProblem, sparse: bool
) -> None:
    for seed in range(10):
        problem = make_problem(seed, spread=2.0, sparse=sparse)
        features, lists, margins = problem
        popoviciu, paper, reach, peak = kernel.domination.bounds(features, lists)
        _, curvature = kernel.domination.slopes(features, lists, margins, problem.columns)
        slack = 1.0 + 1e-12
        assert np.all(curvature <= popoviciu * slack)
        assert np.all(popoviciu <= paper * slack)
        x = features.toarray() if sparse else features
        assert np.array_equal(peak, np.abs(x).max(axis=0))
        starts = lists.layer_ptr[lists.list_ptr[:-1]]
        if sparse:  # padding would count as a zero
            ranges = np.maximum.reduceat(x, starts) - np.minimum.reduceat(x, starts)
            assert np.array_equal(reach, ranges.max(axis=0))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32),
    sparse=st.booleans(),
    newton=st.booleans(),
    penalty=st.builds(
        EntryPenalty, st.sampled_from([0.0, 0.05, 2.0]), st.sampled_from([0.0, 0.05, 2.0])
    ),
    scale=st.sampled_from([0.01, 1.0, 20.0]),
    radius=st.sampled_from([0.1, 1.0, 100.0]),
)
def test_every_step_decreases_the_objective(
    kernel: Kernel, make_problem: MakeProblem, seed, sparse, newton, penalty, scale, radius
) -> None:
    problem = make_problem(seed, sizes=(6, 9, 3), n_features=3, scale=scale, sparse=sparse)
    features, lists, _ = problem
    bounds = problem.bounds(kernel)
    weights = np.random.default_rng(seed).normal(size=3) / scale
    margins = np.asarray(features @ weights, dtype=np.float64)
    radii = radius / np.where(bounds[1] > 0.0, bounds[1], 1.0)
    state = CoordinateState(margins, weights, radii, bounds)
    before = objective(kernel, lists, state, penalty)
    for _ in range(3):
        for r in range(3):
            options = {"penalty": penalty, "newton": newton}
            kernel.domination.sweep(features, lists, state, np.array([r]), **options)
            after = objective(kernel, lists, state, penalty)
            assert after <= before + 1e-12 * abs(before)
            before = after
    np.testing.assert_allclose(margins, features @ weights, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.5), (0.5, 0.0), (0.3, 0.2)])
def test_sweeps_reach_the_minimum(
    kernel: Kernel, make_problem: MakeProblem, sparse: bool, l1: float, l2: float
) -> None:
    problem = make_problem(5, n_features=4, sparse=sparse)
    features, lists, _ = problem
    bounds = problem.bounds(kernel)
    weights, margins = np.zeros(4), np.zeros(lists.n_rows)
    state = CoordinateState(margins, weights, 1.0 / bounds[1], bounds)
    for _ in range(60):
        penalty = EntryPenalty(l1, l2)
        kernel.domination.sweep(features, lists, state, problem.columns, penalty=penalty)
    gradient, _ = kernel.domination.slopes(features, lists, margins, problem.columns)
    gradient += l2 * weights
    moved = weights != 0.0
    np.testing.assert_allclose(gradient[moved], -l1 * np.sign(weights[moved]), atol=1e-8)
    assert np.all(np.abs(gradient[~moved]) <= l1 + 1e-12)


def test_padding_changes_nothing(kernel: Kernel, make_problem: MakeProblem) -> None:
    problem = make_problem(6)
    features, lists, margins = problem
    assert np.any(lists.source < 0)
    padded = margins.copy()
    padded[lists.source < 0] = 123.0
    np.testing.assert_array_equal(
        kernel.domination.slopes(features, lists, padded, problem.columns),
        kernel.domination.slopes(features, lists, margins, problem.columns),
    )
