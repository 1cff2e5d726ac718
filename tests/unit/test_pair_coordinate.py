"""Coordinate descent on losses of pairs, against pairs written down one by one."""

from __future__ import annotations

import ctypes
import dataclasses
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog, minimize

from ranking import JudgedLists, Ranker, get_kernel
from ranking.contracts.loss import Loss
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import CombinationError, DataError, PartError
from ranking.native import NativePairwiseLoss, PairwiseFunctions
from ranking_plugins.losses import WARP, Hinge, Logistic, SquaredHinge, pairwise_problem
from ranking_plugins.losses.pairwise_problem import SMOOTHING, PairProblem
from ranking_plugins.solvers import Coordinate

EXACT = Coordinate(max_epochs=3000, tolerance=1e-13)
LOSSES = {"hinge": Hinge, "squared-hinge": SquaredHinge, "logistic": Logistic}


def pairs(data: JudgedLists) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Better rows, worse rows and weights: all better rows count equally, as do their pairs."""
    result = []
    for i in range(data.n_rows):
        worse = [
            j
            for j in range(data.n_rows)
            if data.row_groups[i] == data.row_groups[j] and data.grades[i] > data.grades[j]
        ]
        result += [(i, j, 1.0 / len(worse)) for j in worse]
    better, worse, weights = map(np.array, zip(*result, strict=True))
    return better, worse, weights / weights.sum()


def phi(name: str, margin: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The loss of a margin and its derivative, as the formulas say."""
    gap = 1.0 - margin
    if name == "hinge":
        parabola = gap**2 / (2 * SMOOTHING)
        value = np.where(gap <= 0, 0.0, np.where(gap <= SMOOTHING, parabola, gap - SMOOTHING / 2))
        return value, -np.clip(gap / SMOOTHING, 0.0, 1.0)
    if name == "squared-hinge":
        return np.maximum(gap, 0.0) ** 2, -2.0 * np.maximum(gap, 0.0)
    return np.logaddexp(0.0, -margin), -1.0 / (1.0 + np.exp(margin))


@pytest.fixture(params=["dense", "sparse"])
def data(request, judged) -> JudgedLists:
    if request.param == "dense":
        return judged
    selection = judged.features * (np.random.default_rng(3).random(judged.features.shape) < 0.4)
    return JudgedLists(sp.csr_array(selection), judged.grades, judged.query_ids[judged.row_groups])


def dense(data: JudgedLists) -> np.ndarray:
    return data.features.toarray() if sp.issparse(data.features) else np.asarray(data.features)


def smooth(name: str, data: JudgedLists, strength: float):
    better, worse, weights = pairs(data)
    differences = dense(data)[better] - dense(data)[worse]

    def target(w: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = phi(name, differences @ w)
        return weights @ value + strength / 2 * w @ w, differences.T @ (
            weights * slope
        ) + strength * w

    return target


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [0.0, 0.3, 3.0])
def test_value_and_slopes_are_those_of_all_pairs(name, data, scale, seed):
    weights = scale * np.random.default_rng(seed).normal(size=data.n_features)
    problem = LOSSES[name]().coordinate_problem(data, weights, get_kernel(), 1, "newton")
    value, gradient = smooth(name, data, 0.0)(weights)
    assert problem.value() == pytest.approx(value, rel=1e-10)
    result, bound = problem.slopes(np.arange(data.n_features))
    np.testing.assert_allclose(result, gradient, atol=1e-12)
    better, worse, weight = pairs(data)
    differences = dense(data)[better] - dense(data)[worse]
    largest = {"hinge": 1 / SMOOTHING, "squared-hinge": 2.0, "logistic": 0.25}[name]
    np.testing.assert_allclose(bound, largest * (weight @ differences**2), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("strength", [0.3, 0.01])
def test_l2_agrees_with_lbfgs(name, data, strength):
    ranker = Ranker("linear", name, f"l2:strength={strength}", EXACT).fit(data)
    target = smooth(name, data, strength)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    start = np.zeros(data.n_features)
    oracle = minimize(target, start, jac=True, method="L-BFGS-B", options=options)
    assert ranker.objective_ == pytest.approx(target(ranker.model_.weights)[0], rel=1e-10)
    assert ranker.objective_ <= oracle.fun + 1e-8
    np.testing.assert_allclose(ranker.model_.weights, oracle.x, atol=2e-3)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("curvature", ["newton", "popoviciu"])
def test_l1_meets_the_subgradient_conditions(name, data, curvature):
    strength = 0.08
    solver = Coordinate(max_epochs=5000, tolerance=1e-14, curvature=curvature)
    ranker = Ranker("linear", name, f"l1:strength={strength}", solver).fit(data)
    weights = ranker.model_.weights
    _, gradient = smooth(name, data, 0.0)(weights)
    at_zero = weights == 0.0
    assert at_zero.any()
    assert not at_zero.all()
    assert np.abs(gradient[at_zero]).max() <= strength + 1e-4
    np.testing.assert_allclose(
        gradient[~at_zero], -strength * np.sign(weights[~at_zero]), atol=1e-4
    )


def test_the_hinge_is_within_its_smoothing_of_a_linear_programme(judged):
    """min over w, xi of c'xi + l1 |w|_1 with xi >= 1 - w.delta and xi >= 0: the hinge itself."""
    strength = 0.05
    better, worse, weights = pairs(judged)
    differences = dense(judged)[better] - dense(judged)[worse]
    n, m = judged.n_features, weights.size
    cost = np.concatenate((np.full(2 * n, strength), weights))
    rows = np.hstack((-differences, differences, -np.eye(m)))
    best = linprog(cost, A_ub=rows, b_ub=-np.ones(m), bounds=(0, None)).fun
    ranker = Ranker("linear", "hinge", f"l1:strength={strength}", EXACT).fit(judged)
    result = ranker.model_.weights
    hinge = weights @ np.maximum(0.0, 1.0 - differences @ result) + strength * np.abs(result).sum()
    assert best <= hinge + 1e-9
    assert ranker.objective_ <= best + 1e-9  # the smoothed loss lies below
    assert hinge <= best + SMOOTHING / 2
    assert hinge <= 1.02 * best  # and it is much nearer than what is guaranteed


@given(st.integers(0, 2000), st.integers(2, 12), st.integers(1, 4), st.sampled_from([0.05, 1, 30]))
def test_windows_count_pairs(seed, size, grades, scale):
    """With ties, one document, and scores near and far: against one pair after the other."""
    rng = np.random.default_rng(seed)
    judged = rng.integers(0, grades + 1, size).astype(float)
    judged[0], judged[1] = 0.0, 1.0
    features = rng.normal(size=(size, 3))
    features[:, 0] = np.round(scale * rng.normal(size=size), 1)
    data = JudgedLists(features, judged, rng.integers(0, 2, size))
    try:
        problem = Hinge().coordinate_problem(
            data, np.array([1.0, 0.0, 0.0]), get_kernel(), 1, "newton"
        )
    except DataError:
        return
    columns = np.arange(3)
    gram = problem._gram(problem.curve, columns, np.arange(problem.lists.n_lists))
    better, worse, weights = pairs(data)
    differences = dense(data)[better] - dense(data)[worse]
    gap = 1.0 - differences[:, 0]
    kappa = weights * ((gap > 0.0) & (gap <= SMOOTHING)) / SMOOTHING
    sure = np.abs(gap[:, None] - [0.0, SMOOTHING]).min(axis=1) > 1e-9  # not at a border
    expected = differences.T @ (np.where(sure, kappa, 0.0)[:, None] * differences)
    if sure.all():
        np.testing.assert_allclose(gram, expected, atol=1e-10)
    assert problem.value() == pytest.approx(weights @ phi("hinge", differences[:, 0])[0], abs=1e-12)


REGULARIZERS = {
    "none": (0.0, 0.0),
    "l1": (1.0, 0.0),
    "l2": (0.0, 1.0),
    "elastic": (0.4, 0.6),
}


@pytest.mark.filterwarnings("ignore:.* sets all weights to 0")
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("regularizer", REGULARIZERS)
@settings(deadline=None, max_examples=8)
@given(
    strength=st.floats(1e-4, 0.3),
    seed=st.integers(0, 50),
    sparse=st.booleans(),
)
def test_the_minimum_is_that_of_lbfgs(name, regularizer, strength, seed, sparse):
    """With w = a - b and bounds a, b >= 0, L-BFGS-B minimizes L1 as well."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < (0.5 if sparse else 1.0))
    grades = np.clip(np.round(features[:, 0] + rng.normal(size=40)), 0, 3)
    grades[:2] = 0.0, 1.0
    rows: Any = sp.csr_array(features) if sparse else features
    data = JudgedLists(rows, grades, np.repeat(np.arange(4), 10))
    l1, l2 = (strength * share for share in REGULARIZERS[regularizer])
    target = smooth(name, data, 0.0)

    def split(ab: np.ndarray) -> tuple[float, np.ndarray]:
        w = ab[:5] - ab[5:]
        value, gradient = target(w)
        slope = np.concatenate((gradient + l2 * w, -gradient - l2 * w)) + l1
        return value + l1 * ab.sum() + 0.5 * l2 * w @ w, slope

    start = np.zeros(10)
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000, "maxfun": 100_000}
    oracle = minimize(
        split, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * 10, options=options
    )
    assume(oracle.fun > 1e-3)  # else pairs are separable, and there is no minimum without penalty
    spec = "none" if regularizer == "none" else f"{regularizer}:strength={strength!r}"
    if regularizer == "elastic":
        spec += ",share=0.4"
    ranker = Ranker("linear", name, spec, EXACT).fit(data)
    objective = [row["objective"] for row in ranker.history_]
    assert all(after <= before for before, after in pairwise(objective))
    assert ranker.objective_ == pytest.approx(
        split(
            np.concatenate(
                (np.maximum(ranker.model_.weights, 0), np.maximum(-ranker.model_.weights, 0))
            )
        )[0],
        rel=1e-9,
        abs=1e-12,
    )
    assert ranker.objective_ <= oracle.fun + 1e-6 * abs(oracle.fun) + 1e-9


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("regularizer", ["none", "l1:strength=0.02", "elastic:strength=0.1"])
def test_no_sweep_increases_the_objective(name, regularizer, data):
    ranker = Ranker("linear", name, regularizer, Coordinate(max_epochs=40, tolerance=0.0))
    objective = [row["objective"] for row in ranker.fit(data).history_]
    assert all(after <= before for before, after in pairwise(objective))
    assert objective[-1] < objective[0]


@pytest.mark.parametrize("name", LOSSES)
def test_the_guaranteed_decrease_is_kept(name, data):
    penalty = EntryPenalty(0.02, 0.1)
    columns = np.arange(data.n_features)

    def fresh() -> PairProblem:
        start = np.zeros(data.n_features)
        return LOSSES[name]().coordinate_problem(data, start, get_kernel(), 1, "popoviciu")

    promised = fresh().decrease(columns, penalty)
    assert (promised > 0.0).any()
    for column in columns:
        problem = fresh()
        before = problem.value()
        problem.sweep(columns[column : column + 1], penalty)
        weight = problem.weights[column]
        paid = penalty.l1 * abs(weight) + penalty.l2 / 2 * weight**2
        assert before - problem.value() - paid >= promised[column] - 1e-12


def test_induced_features_come_to_the_same(judged):
    whole = Ranker("linear", "hinge", "l1:strength=0.05", EXACT).fit(judged)
    some = Coordinate(max_epochs=3000, tolerance=1e-12, sweeps="induced", top=2)
    induced = Ranker("linear", "hinge", "l1:strength=0.05", some).fit(judged)
    assert induced.objective_ == pytest.approx(whole.objective_, rel=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_a_resumed_run_has_the_same_bits(name, judged):
    def run(epochs: int):
        solver = Coordinate(max_epochs=epochs, tolerance=0.0)
        return Ranker("linear", name, "l1:strength=0.01", solver).plan().trainer(judged)

    whole, first, second = run(8), run(3), run(8)
    whole.train()
    first.train()
    snapshot = first.snapshot()
    snapshot.facts["stopped"] = ""
    second.train(resume=snapshot)
    np.testing.assert_array_equal(whole.model.weights, second.model.weights)


def test_sgd_and_coordinate_descent_minimise_the_same(judged):
    """What sgd samples from is what coordinate descent sums up."""
    parts = ("linear", "squared-hinge", "l2:strength=0.1")
    exact = Ranker(*parts, EXACT).fit(judged)
    result = Ranker(*parts, "sgd:max_steps=400000,steps_per_epoch=100000,batch_size=1").fit(judged)
    target = smooth("squared-hinge", judged, 0.1)
    assert target(result.model_.weights)[0] <= exact.objective_ * 1.01


def test_the_weights_of_warp_make_it_jump():
    """Why it has no coordinate interface: the expected loss is not continuous along a weight.

    A document at a margin of 1 begins to violate it; its own hinge is 0, but the rank grows, and
    with it the weight of the others that do.
    """
    loss = WARP(max_trials=10)

    def expected(margins: np.ndarray) -> float:
        """The mean over all samples of L((n - 1) // N) hinge, N being the first that violates."""
        n = margins.size
        hinge = loss.pairwise_value(margins)
        violate = np.count_nonzero(hinge > 0.0)
        trials = np.arange(1, loss.trials + 1)
        chance = (1.0 - violate / n) ** (trials - 1) * violate / n
        return float(chance @ loss.rank_weight((n - 1) // trials)) * hinge.sum() / max(violate, 1)

    near, far = np.array([0.0, 5.0, 5.0, 1.0 - 1e-9]), np.array([0.0, 5.0, 5.0, 1.0 + 1e-9])
    assert abs(expected(near) - expected(far)) > 0.05
    smaller = [
        abs(expected(np.array([0.0, 5.0, 5.0, 1.0 - t])) - expected(far)) for t in (1e-3, 1e-9)
    ]
    assert smaller[1] > 0.05  # it does not go to 0 with the distance: a jump


def test_what_is_refused(judged):
    with pytest.raises(PartError, match="newton or popoviciu"):
        Ranker("linear", "hinge", "l2", Coordinate(curvature="paper")).fit(judged)
    with pytest.raises(CombinationError, match="jumps"):
        Ranker("linear", "warp", "l2", "coordinate").fit(judged)
    flat = JudgedLists(judged.features, np.zeros(judged.n_rows), judged.row_groups)
    with pytest.raises(DataError, match="no query has two different grades"):
        Ranker("linear", "hinge", "l2", "coordinate").fit(flat)

    class Own(Hinge):
        name = "own"
        form = None

    with pytest.raises(CombinationError, match="custom slope"):
        Ranker("linear", Own(), "l2", "coordinate").fit(judged)


OF_MARGIN = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_void_p)
HUBER = (
    OF_MARGIN(lambda z, _: phi("squared-hinge", np.float64(z))[0] if z > -1 else 4.0 * -z),
    OF_MARGIN(lambda z, _: -2.0 * max(0.0, 1.0 - max(z, -1.0))),
)


@dataclasses.dataclass
class Huber(NativePairwiseLoss):
    """The squared hinge, and a line from a margin of -1 on."""

    name: ClassVar[str] = "bounded-huber"
    curvature: ClassVar[float] = 2.0

    def functions(self):
        value, slope = HUBER
        addresses = (ctypes.cast(each, ctypes.c_void_p).value for each in (value, slope))
        return PairwiseFunctions.from_addresses(
            **dict(zip(("value", "slope"), addresses, strict=True))
        )


@pytest.mark.parametrize("kernel", ["reference", "cython", "rust"])
def test_a_native_loss_with_a_curvature_bound_is_trained(judged, kernel, load_kernel):
    """Against L-BFGS on all pairs; the slope is known only through its address."""
    better, worse, weights = pairs(judged)
    differences = dense(judged)[better] - dense(judged)[worse]

    def target(w: np.ndarray) -> tuple[float, np.ndarray]:
        z = differences @ w
        value = np.where(z > -1, np.maximum(1 - z, 0) ** 2, -4.0 * z)
        slope = -2.0 * np.maximum(0.0, 1.0 - np.maximum(z, -1.0))
        return weights @ value + 0.01 * w @ w, differences.T @ (weights * slope) + 0.02 * w

    solver = Coordinate(max_epochs=200, tolerance=1e-13)
    ranker = Ranker("linear", Huber(), "l2:strength=0.02", solver, kernel=load_kernel(kernel))
    ranker.fit(judged)
    start = np.zeros(judged.n_features)
    oracle = minimize(target, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    assert ranker.objective_ == pytest.approx(target(ranker.model_.weights)[0], rel=1e-10)
    assert ranker.objective_ <= oracle.fun * (1.0 + 1e-8)
    assert ranker.n_iter_ < 50


def test_a_native_loss_without_a_bound_is_refused(judged):
    class Unbounded(Huber):
        name: ClassVar[str] = "unbounded"
        curvature = Loss.curvature

    with pytest.raises(CombinationError, match="curvature"):
        Ranker("linear", Unbounded(), "l2", "coordinate").fit(judged)


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_and_samples_come_to_the_same(name, judged, monkeypatch):
    """A model of few features, and of few lists, guides the steps to the same minimum."""
    whole = Ranker("linear", name, "elastic:strength=0.02", EXACT).fit(judged)
    monkeypatch.setattr(pairwise_problem, "NARROWEST", 2)
    monkeypatch.setattr(pairwise_problem, "SCRATCH", 1)
    monkeypatch.setattr(pairwise_problem, "WORK", 1)
    monkeypatch.setattr(pairwise_problem, "SAMPLE", judged.n_rows // 2)
    ranker = Ranker("linear", name, "elastic:strength=0.02", EXACT).fit(judged)
    assert ranker.objective_ == pytest.approx(whole.objective_, rel=1e-8)
    assert ranker.n_iter_ != whole.n_iter_
