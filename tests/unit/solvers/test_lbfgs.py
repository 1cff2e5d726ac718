"""L-BFGS and OWL-QN: the optimum of other solvers, any scale of features, the same bits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize

from ranking import JudgedLists, Ranker
from ranking.errors import CombinationError
from ranking.kernels.builtin import cython_kernel, reference_kernel
from ranking.testing import check_solver
from ranking.testing.common import small_judged, small_matching
from ranking_plugins.solvers import LBFGS

EXACT = "lbfgs:tolerance=1e-13"


@pytest.mark.slow
def test_the_solver_passes_the_checks_of_plugins():
    check_solver(LBFGS())


def rank_svm_objective(data: JudgedLists, strength: float, power: int):
    """Return the primal of RankSVM: each row's mean hinge over its pairs, and 1/2 s |w|^2."""
    pairs = []
    for start, stop in zip(data.group_ptr[:-1], data.group_ptr[1:], strict=True):
        for i in range(start, stop):
            below = start + np.flatnonzero(data.grades[start:stop] < data.grades[i])
            pairs.extend((i, j, 1.0 / below.size) for j in below)
    better, worse, weight = (np.array(column) for column in zip(*pairs, strict=True))
    differences = data.features[better] - data.features[worse]
    weight = weight / np.unique(better).size

    def objective(w: np.ndarray) -> float:
        gaps = np.maximum(0.0, 1.0 - differences @ w)
        return float((weight * gaps**power).sum() + 0.5 * strength * w @ w)

    return objective


def test_squared_hinge_has_the_optimum_of_the_primal_rank_svm():
    data = small_judged(1, n_queries=20)
    objective = rank_svm_objective(data, 0.01, 2)
    oracle = minimize(objective, np.zeros(data.n_features), options={"gtol": 1e-8})
    for solver in (EXACT, "coordinate:tolerance=1e-13"):
        ranker = Ranker(loss="squared-hinge", regularizer="l2:strength=0.01", solver=solver).fit(
            data
        )
        assert ranker.objective_ == pytest.approx(oracle.fun, rel=1e-8)
        assert ranker.objective_ == pytest.approx(objective(ranker.model_.weights), rel=1e-12)


def test_the_recipe_rank_svm_linear_has_the_optimum_of_the_primal():
    """The hinge is smoothed by at most 0.05, below the primal (`pairwise_problem`)."""
    data = small_judged(1, n_queries=20)
    objective = rank_svm_objective(data, 0.01, 1)
    start = np.zeros(data.n_features)
    oracle = minimize(objective, start, method="Powell", options={"xtol": 1e-9, "ftol": 1e-12})
    ranker = Ranker.from_recipe("rank-svm-linear", regularizer="l2:strength=0.01").fit(data)
    reached = objective(ranker.model_.weights)
    assert oracle.fun - 1e-9 <= reached <= oracle.fun + 0.002
    assert reached - 0.05 <= ranker.objective_ <= reached


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge", "domination"])
@pytest.mark.parametrize(
    "regularizer", ["l2:strength=0.01", "l1:strength=0.25", "elastic:strength=0.02"]
)
def test_the_optimum_is_that_of_coordinate_descent(loss: str, regularizer: str):
    data = small_judged(1)
    parts = {"loss": loss, "regularizer": regularizer}
    ours = Ranker(**parts, solver=EXACT).fit(data)
    other = Ranker(**parts, solver="coordinate:tolerance=1e-13,max_epochs=5000").fit(data)
    assert ours.objective_ == pytest.approx(other.objective_, rel=1e-8)
    assert ours.model_.weights == pytest.approx(other.model_.weights, abs=5e-4)
    if regularizer.startswith("l1"):
        assert np.array_equal(ours.model_.weights == 0.0, other.model_.weights == 0.0)
        assert (ours.model_.weights == 0.0).any()


def scaled(data: JudgedLists, factors: np.ndarray, offset: float) -> JudgedLists:
    rows = data.features * factors + offset
    return JudgedLists(rows, data.grades, data.query_ids[data.row_groups])


@pytest.mark.parametrize("loss", ["listnet", "listmle", "squared-grades", "logistic"])
def test_features_of_any_scale_take_as_many_iterations(loss: str):
    data = small_judged(4)
    factors = 10.0 ** np.arange(-3, 3)
    plain = Ranker(loss=loss, solver="lbfgs", model="linear").fit(data)
    other = Ranker(loss=loss, solver="lbfgs", model="linear").fit(scaled(data, factors, 1000.0))
    assert abs(other.n_iter_ - plain.n_iter_) <= 1
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert other.model_.weights * factors == pytest.approx(plain.model_.weights, abs=2e-2)


@pytest.mark.parametrize("loss", ["listnet", "domination", "lambdarank", "logistic"])
def test_kernels_threads_and_sparse_rows_agree(loss: str):
    data = small_judged(2)
    solver = "lbfgs:max_epochs=5,tolerance=0"
    parts = {"loss": loss, "regularizer": "l1:strength=0.01", "solver": solver, "model": "linear"}
    expected = Ranker(**parts, kernel=reference_kernel()).fit(data).model_.weights
    for threads in (1, 2):
        ranker = Ranker(**parts, kernel=cython_kernel(), threads=threads).fit(data)
        assert np.array_equal(ranker.model_.weights, expected)
    rows = sp.csr_array(data.features)
    sparse = JudgedLists(rows, data.grades, data.query_ids[data.row_groups])
    assert Ranker(**parts).fit(sparse).model_.weights == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("regularizer", ["l1:strength=0.01", "l2:strength=0.01"])
@pytest.mark.parametrize("loss", ["listnet", "lambdarank"])
def test_a_resumed_training_has_the_same_bits(loss: str, regularizer: str):
    data = small_judged(3)
    parts = {"loss": loss, "regularizer": regularizer, "model": "linear"}
    solver = "lbfgs:iterations=2,tolerance=0,max_epochs="
    whole = Ranker(**parts, solver=f"{solver}6").fit(data)
    half = Ranker(**parts, solver=f"{solver}3").plan().trainer(data)
    half.train()
    rest = Ranker(**parts, solver=f"{solver}6").plan().trainer(data)
    snapshot = half.snapshot()
    snapshot.facts["ending"] = snapshot.facts["stopped"] = ""
    rest.train(snapshot)
    assert np.array_equal(rest.model.weights, whole.model_.weights)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"loss": "hinge", "model": "linear"}, "kinks"),
        ({"loss": "smooth-warp", "model": "linear"}, "kinks"),
        ({"loss": "logistic", "model": "bilinear"}, "queries times documents"),
        ({"loss": "logistic", "model": "trees"}, "no gradient"),
        ({"loss": "logistic", "model": "linear", "regularizer": "max-norm"}, "single weights"),
    ],
)
def test_a_refusal_has_the_reason(parts: dict[str, str], reason: str):
    data = small_matching(0) if parts["model"] == "bilinear" else small_judged(0)
    ranker = Ranker(**{"regularizer": "none", **parts}, solver="lbfgs")
    with pytest.raises(CombinationError, match=reason):
        ranker.fit(data)
