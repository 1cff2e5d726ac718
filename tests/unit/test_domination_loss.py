"""The domination loss and its solver against independent oracles: L-BFGS, subgradients."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranking import JudgedLists, Ranker, get_kernel
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import DataError, PartError
from ranking.registry import get_registry
from ranking_plugins.losses import Domination
from ranking_plugins.losses.emphasis import parse_boundaries
from ranking_plugins.regularizers import L1, L2, NoPenalty
from ranking_plugins.solvers import Coordinate

EXACT = Coordinate(max_epochs=5000, tolerance=0.0)


VARIANTS = {
    "plain": {},
    "pooled": {"queries": "pooled"},
    "gain": {"weights": "gain"},
    "query": {"weights": "query"},
    "grade": {"margin": "grade", "slope": 0.7, "offset": 0.3},
    "log": {"margin": "log", "slope": 2.0, "offset": 1.0},
    "layers": {"margin": "layers", "boundaries": "0.5+2+1"},
    "all": {
        "queries": "pooled",
        "weights": "gain",
        "margin": "layers",
        "boundaries": (0.2, 1.0, 3.0),
    },
}


@pytest.fixture(params=VARIANTS.values(), ids=VARIANTS)
def loss(request) -> Domination:
    return Domination(**request.param)


def literal(scores: np.ndarray, grades: np.ndarray, loss: Domination) -> tuple[float, float]:
    """Loss and total weight of a list, as the formula says, by loops over single items."""
    lowest, value, total = grades.min(), 0.0, 0.0
    dominating = np.count_nonzero(grades > lowest)

    def s(grade: float) -> float:
        if grade == lowest or loss.margin in ("none", "layers"):
            return 0.0
        return loss.slope * (np.log(grade) if loss.margin == "log" else grade) + loss.offset

    for i in np.flatnonzero(grades > lowest):
        omega = {"one": 1.0, "gain": 2.0 ** grades[i] - 1.0, "query": 1.0 / dominating}
        inner = 0.0
        for j in np.flatnonzero(grades < grades[i]):
            margin = s(grades[i]) - s(grades[j])
            if loss.margin == "layers":
                margin = parse_boundaries(loss.boundaries)[int(grades[i]) - 1]
            inner += np.exp(scores[j] - scores[i] + margin)
        value += omega[loss.weights] * np.log1p(inner)
        total += omega[loss.weights]
    return value, total


def objective(data: JudgedLists, weights: np.ndarray, loss: Domination) -> tuple[float, np.ndarray]:
    """Mean loss by loops, gradient by the listwise interface: plain NumPy, no kernel."""
    scores = np.asarray(data.features, dtype=float) @ weights
    slopes, value, total = np.zeros(data.n_rows), 0.0, 0.0
    ptr = data.group_ptr if loss.queries == "separate" else data.group_ptr[[0, -1]]
    for rows in map(slice, ptr[:-1], ptr[1:]):
        loss_here, weight = literal(scores[rows], data.grades[rows], loss)
        value, total = value + loss_here, total + weight
        slopes[rows] = loss.listwise_slopes(scores[rows], data.grades[rows])
    gradient = np.asarray(data.features, dtype=float).T @ slopes
    return value / total, gradient / total


@given(
    st.integers(0, 1000),
    st.integers(1, 12),
    st.integers(1, 4),
    st.sampled_from([0.1, 1, 30]),
    st.sampled_from(list(VARIANTS.values())),
)
def test_list_slopes_are_the_derivative(seed, size, grades, scale, variant):
    rng = np.random.default_rng(seed)
    scores, judged = rng.normal(size=size) * scale, rng.integers(0, grades, size).astype(float)
    loss, tiny = Domination(**variant), 1e-5
    assert loss.listwise_value(scores, judged) == pytest.approx(literal(scores, judged, loss)[0])
    slopes = loss.listwise_slopes(scores, judged)
    for i, unit in enumerate(np.eye(size)):
        up = loss.listwise_value(scores + tiny * unit, judged)
        down = loss.listwise_value(scores - tiny * unit, judged)
        assert slopes[i] == pytest.approx((up - down) / (2 * tiny), abs=1e-5)


def test_the_thesis_by_hand():
    # Two above one: each has the term log(1 + exp(f_low - f_i)).
    value = Domination().listwise_value(np.array([2.0, 1.0, 0.5]), np.array([1.0, 1.0, 0.0]))
    assert value == pytest.approx(np.log1p(np.exp(-1.5)) + np.log1p(np.exp(-0.5)))


@pytest.mark.parametrize("strength", [1.0, 0.01])
def test_l2_agrees_with_lbfgs(judged, loss, strength):
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


@pytest.mark.parametrize("queries", ["separate", "pooled"])
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
            problem.sweep(np.array([column]), regularizer.kernel_form("vector"))
            after = problem.value() + regularizer.penalty(problem.weights)
            assert after <= before + 1e-12 * abs(before), (epoch, column)
            before = after


def test_slopes_are_those_of_the_listwise_interface(judged, loss):
    weights = np.linspace(-1, 1, judged.n_features)
    problem = loss.coordinate_problem(judged, weights, get_kernel(), 1, "newton")
    value, gradient = objective(judged, weights, loss)
    assert problem.value() == pytest.approx(value, rel=1e-12)
    slopes, curvature = problem.slopes(np.arange(judged.n_features))
    np.testing.assert_allclose(slopes, gradient, rtol=1e-10, atol=1e-12)
    assert np.all(curvature > 0)


def test_the_spec_makes_the_same_loss(loss):
    own_loss = get_registry().create("loss", loss.spec())
    assert own_loss.spec() == loss.spec()
    scores, grades = np.arange(5.0), np.array([3.0, 0.0, 2.0, 1.0, 0.0])
    assert own_loss.listwise_value(scores, grades) == loss.listwise_value(scores, grades)
    sampled = Domination(negatives=0.5, seed=3)
    assert get_registry().create("loss", sampled.spec()) == sampled


def test_given_weights_and_margins_follow_the_rows(judged):
    """They are given in the order of the input, which data may keep in another."""
    shuffled = np.random.default_rng(1).permutation(judged.n_rows)
    data = JudgedLists(
        judged.features[shuffled],
        judged.grades[shuffled],
        judged.query_ids[judged.row_groups][shuffled],
    )
    assert not np.array_equal(data.row_order, np.arange(data.n_rows))
    gain = 2.0 ** judged.grades[shuffled] - 1.0
    lowest = np.minimum.reduceat(judged.grades, judged.group_ptr[:-1])[judged.row_groups]
    s = np.where(judged.grades > lowest, judged.grades, 0.0)[shuffled]
    result = Ranker(loss=Domination(weights=gain, margin=s), regularizer="l2").fit(data)
    named = Ranker(loss="domination:weights=gain,margin=grade", regularizer="l2").fit(data)
    np.testing.assert_array_equal(result.model_.weights, named.model_.weights)
    assert "weights=given,margin=given" in result.loss_.spec()


def test_given_values_stay_with_their_rows_in_a_selection(judged):
    weights = np.arange(1.0, judged.n_rows + 1)
    part = judged.select(np.arange(4, judged.n_queries))
    loss = Domination(weights=weights)
    problem = loss.coordinate_problem(part, np.zeros(6), get_kernel(), 1, "newton")
    real = problem.lists.omega > 0
    expected = weights[part.row_order][problem.lists.source[real]]
    np.testing.assert_allclose(problem.lists.omega[real], expected / expected.sum())


def test_sampled_negatives_stand_for_all(judged):
    """With all their features the same, a few stand for the others exactly."""
    lowest = np.minimum.reduceat(judged.grades, judged.group_ptr[:-1])[judged.row_groups]
    X = np.where((judged.grades == lowest)[:, None], 1.0, judged.features)
    data = JudgedLists(X, judged.grades, judged.query_ids[judged.row_groups])
    weights = np.linspace(-1, 1, 6)

    def problem(**params):
        return Domination(**params).coordinate_problem(data, weights, get_kernel(), 1, "newton")

    whole, some = problem(), problem(negatives=0.3, seed=5)
    assert np.sum(some.lists.source >= 0) < np.sum(whole.lists.source >= 0)
    assert some.value() == pytest.approx(whole.value(), rel=1e-12)
    sources = [set(problem(negatives=0.3, seed=s).lists.source.tolist()) for s in (5, 5, 6)]
    assert sources[0] == sources[1] != sources[2]


def test_a_huge_margin_stays_finite_and_monotone(judged):
    loss = Domination(margin="grade", slope=1e4)
    ranker = Ranker(loss=loss, regularizer="l2", solver="coordinate:tolerance=0")
    history = [row["objective"] for row in ranker.fit(judged).history_]
    assert np.all(np.isfinite(history))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(history))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"queries": "together"}, "one of separate, pooled"),
        ({"weights": "much"}, "an array or one of one, gain, query"),
        ({"margin": "wide"}, "an array or one of none, grade, log, layers"),
        ({"weights": [[1.0]]}, "one finite number per row"),
        ({"weights": [-1.0]}, "must be >= 0"),
        ({"slope": np.inf}, "slope=inf; it must be a finite number"),
        ({"negatives": 0.0}, r"a finite number in \(0, 1\]"),
        ({"margin": "layers"}, "one number per grade"),
        ({"margin": "layers", "boundaries": "1+x"}, "one number per grade"),
    ],
)
def test_invalid_parameters_are_refused(params, words):
    with pytest.raises(PartError, match=words):
        Domination(**params)


@pytest.mark.parametrize(
    ("params", "grades", "words"),
    [
        ({"weights": "gain"}, [2000.0, 0.0], "the largest grade is 2000"),
        ({"weights": "gain"}, [-1.0, -2.0], "weight 0"),
        ({"margin": "log"}, [0.0, -1.0], "margin=grade"),
        ({"margin": "layers", "boundaries": "1"}, [2.0, 0.0], "give one per grade"),
        ({"weights": np.ones(3)}, [1.0, 0.0], "weights has 3 values, and the data have 2 rows"),
    ],
)
def test_data_that_the_parameters_do_not_fit_are_refused(params, grades, words):
    with pytest.raises(DataError, match=words):
        Ranker(loss=Domination(**params)).fit(np.eye(2), grades, qid=[1, 1])


def test_a_single_list_has_no_row_values():
    with pytest.raises(PartError, match="but no array"):
        Domination(weights="given").listwise_value(np.zeros(2), np.array([0.0, 1.0]))
    with pytest.raises(PartError, match="but no array"):
        Domination(margin=np.ones(2)).listwise_value(np.zeros(2), np.array([0.0, 1.0]))


def test_a_constant_feature_gets_no_weight(judged):
    X = np.array(judged.features)
    X[:, 2] = 7.0
    data = JudgedLists(X, judged.grades, judged.query_ids[judged.row_groups])
    assert Ranker(loss="domination", regularizer=L2(0.1)).fit(data).model_.weights[2] == 0.0


def test_huge_features_stay_finite_and_monotone(judged):
    data = JudgedLists(
        np.array(judged.features) * 1e4, judged.grades, judged.query_ids[judged.row_groups]
    )
    ranker = Ranker(loss="domination", regularizer=L2(1e-9), solver="coordinate:max_epochs=30")
    history = [row["objective"] for row in ranker.fit(data).history_]
    assert np.all(np.isfinite(history))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(history))


HUGE_WEIGHTS = np.array([1e3, -1e3, 500.0, 0.0])


def huge_list(sparse):
    """100,000 items of one query with features of 1e4; weights of 1e3 make scores of 1e7."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 4)) * 1e4 * (rng.random((100_000, 4)) < 0.5)
    grades = rng.integers(0, 3, 100_000)
    return JudgedLists(sp.csr_array(X) if sparse else X, grades, np.zeros(100_000, int))


@pytest.mark.parametrize("name", ["cython", "rust"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("sweeps", ["all", "induced"])
def test_a_huge_list_of_huge_numbers_stays_finite_and_monotone(load_kernel, name, sparse, sweeps):
    """Warnings are errors."""
    data = huge_list(sparse)
    solver = Coordinate(max_epochs=6, tolerance=0.0, sweeps=sweeps)
    ranker = Ranker(
        "linear", Domination(weights="gain"), L2(1e-6), solver, kernel=load_kernel(name)
    )
    start = {"weights": HUGE_WEIGHTS, "feature_ids": data.feature_ids}
    run = ranker.plan().trainer(data, initial=start)
    first = run.loss.coordinate_problem(data, run.model.weights, run.kernel, 1, "newton").value()
    run.train()
    history = [first, *(row["objective"] for row in run.history)]
    history[0] += L2(1e-6).penalty(start["weights"])
    assert np.all(np.isfinite(history))
    assert np.all(np.isfinite(run.model.weights))
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(history))
    assert history[-1] < history[0]


@pytest.mark.slow
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_a_huge_list_of_huge_numbers_has_the_same_bits_in_every_kernel(load_kernel, sparse):
    """A step along one feature each: the reference is slow."""
    data, result = huge_list(sparse), {}
    for name in ("reference", "cython", "rust"):
        problem = Domination(weights="gain").coordinate_problem(
            data, HUGE_WEIGHTS, load_kernel(name), 1, "newton"
        )
        before = problem.value()
        problem.sweep(np.arange(1), EntryPenalty(0.0, 1e-6))
        result[name] = (before, problem.weights.tobytes(), problem.margins.tobytes())
    after = problem.value()
    assert np.isfinite([before, after]).all()
    assert after < before
    assert result["reference"] == result["cython"] == result["rust"]
