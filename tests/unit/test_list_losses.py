"""Listwise losses of judged lists: values from their formulas, slopes from differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize

from ranking import JudgedLists, Ranker
from ranking.contracts.loss import Loss
from ranking.kernels.builtin import cython_kernel, reference_kernel
from ranking.metrics.evaluation import evaluate
from ranking.metrics.parse import parse_metric
from ranking.testing import check_loss
from ranking.testing.common import small_judged
from ranking_plugins.losses import (
    ApproxNDCG,
    Domination,
    ExponentialPairs,
    LambdaRank,
    ListMLE,
    ListNet,
    PreferenceGraph,
    SquaredGrades,
)
from ranking_plugins.losses.gains import pessimistic_discounts
from ranking_plugins.losses.whole_lists import ValueLists, mean_and_slopes, whole_lists

LOSSES: list[Loss] = [
    ListNet(),
    ListNet(temperature=0.3),
    ListMLE(),
    LambdaRank(),
    LambdaRank(k=3),
    ApproxNDCG(),
    ApproxNDCG(temperature=1.0),
    ExponentialPairs(),
    ExponentialPairs(weighting="queries"),
    *(PreferenceGraph(graphs) for graphs in ("dominating", "dominated", "pairs", "list")),
]
SPECS = [loss.spec() for loss in LOSSES]


@pytest.mark.slow
@pytest.mark.parametrize("loss", [*LOSSES, SquaredGrades()], ids=[*SPECS, "squared-grades"])
def test_losses_pass_the_checks_of_plugins(loss: Loss):
    check_loss(loss)


def softmax(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values)
    return powers / powers.sum()


def listnet(s: np.ndarray, g: np.ndarray) -> float:
    return float(-(softmax(g) * np.log(softmax(s))).sum())


def listmle(s: np.ndarray, g: np.ndarray) -> float:
    above = np.flatnonzero(g > g.min())
    return sum(float(np.log(np.exp(s[g <= g[i]]).sum()) - s[i]) for i in above)


def exponential(s: np.ndarray, g: np.ndarray) -> float:
    pairs = itertools.product(range(s.size), repeat=2)
    return sum(float(np.exp(s[j] - s[i])) for i, j in pairs if g[i] > g[j])


def ideal(g: np.ndarray) -> float:
    return float(((2.0 ** np.sort(g)[::-1] - 1) / np.log2(np.arange(g.size) + 2)).sum())


def approx_ndcg(s: np.ndarray, g: np.ndarray) -> float:
    dcg = 0.0
    for i in range(s.size):
        others = [j for j in range(s.size) if j != i]
        rank = 1 + sum(1 / (1 + np.exp((s[i] - s[j]) / 0.1)) for j in others)
        dcg += (2.0 ** g[i] - 1) / np.log2(1 + rank)
    return 1 - dcg / ideal(g)


def lambdarank(s: np.ndarray, g: np.ndarray) -> float:
    """Swap each pair in the ranking and measure the change of DCG; scores are all different."""
    order = np.argsort(-s)

    def dcg(ranking: np.ndarray) -> float:
        return float(((2.0 ** g[ranking] - 1) / np.log2(np.arange(g.size) + 2)).sum())

    total = 0.0
    for a, b in itertools.combinations(range(s.size), 2):
        i, j = order[a], order[b]
        if g[i] == g[j]:
            continue
        swapped = order.copy()
        swapped[[a, b]] = j, i
        margin = (s[i] - s[j]) * np.sign(g[i] - g[j])
        total += abs(dcg(swapped) - dcg(order)) * np.log1p(np.exp(-margin))
    return total / ideal(g)


def preference_graph(graphs: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return the formula of the paper: a log-sum-exp over the edges of each subgraph."""

    def formula(s: np.ndarray, g: np.ndarray) -> float:
        edges = [(i, j) for i, j in itertools.permutations(range(s.size), 2) if g[i] > g[j]]
        key = {
            "dominating": lambda edge: edge[0],
            "dominated": lambda edge: edge[1],
            "pairs": lambda edge: edge,
            "list": lambda edge: 0,
        }[graphs]
        sums: dict[object, float] = {}
        for i, j in edges:
            sums[key((i, j))] = sums.get(key((i, j)), 0.0) + float(np.exp(s[j] - s[i]))
        return float(np.mean([np.log1p(total) for total in sums.values()]))

    return formula


FORMULAS: dict[str, tuple[Loss, Callable[[np.ndarray, np.ndarray], float]]] = {
    "listnet": (ListNet(), listnet),
    "listmle": (ListMLE(), listmle),
    "exponential-pairs": (ExponentialPairs(), exponential),
    "approx-ndcg": (ApproxNDCG(), approx_ndcg),
    "lambdarank": (LambdaRank(), lambdarank),
    **{
        f"graphs={graphs}": (PreferenceGraph(graphs), preference_graph(graphs))
        for graphs in ("dominating", "dominated", "pairs", "list")
    },
}


@pytest.mark.parametrize("name", FORMULAS)
def test_value_of_a_list_is_that_of_the_formula(name: str):
    loss, formula = FORMULAS[name]
    rng = np.random.default_rng(4)
    for size in (2, 5, 12):
        scores, grades = rng.normal(size=size), rng.integers(0, 3, size).astype(float)
        grades[:2] = 0.0, 2.0
        assert loss.listwise_value(scores, grades) == pytest.approx(formula(scores, grades))


def test_a_preference_graph_bounds_its_error_and_is_the_domination_loss():
    rng = np.random.default_rng(7)
    scores, grades = rng.normal(size=12), rng.integers(0, 4, 12).astype(float)
    above = np.count_nonzero(grades > grades.min())
    domination = Domination().listwise_value(scores, grades) / above
    assert PreferenceGraph().listwise_value(scores, grades) == pytest.approx(domination)
    data = JudgedLists(scores[:, None], grades, np.zeros(12, np.int64))
    for graphs in ("dominating", "dominated", "pairs", "list"):
        name = f"generalized-error(graphs={graphs})"
        (error,) = evaluate([parse_metric(name)], data, scores).values()
        loss = PreferenceGraph(graphs).listwise_value(scores, grades)
        assert loss / np.log(2.0) >= error[0]
    assert PreferenceGraph().listwise_value(scores, np.ones(12)) == 0.0


@pytest.mark.parametrize("name", ["listnet", "listmle", "approx-ndcg"])
def test_a_cold_temperature_or_one_positive_leads_to_known_limits(name: str):
    rng = np.random.default_rng(1)
    scores, grades = rng.normal(size=9), np.eye(9)[4]
    if name == "approx-ndcg":  # the exact ranks
        data = JudgedLists(scores[:, None], grades, np.zeros(9, np.int64))
        ndcg = evaluate([parse_metric("ndcg(gain=exp2)")], data, scores)
        (values,) = ndcg.values()
        assert ApproxNDCG(temperature=1e-4).listwise_value(scores, grades) == pytest.approx(
            1.0 - values[0], abs=1e-9
        )
        return
    loss = ListNet(temperature=1e-3) if name == "listnet" else ListMLE()
    expected = Domination().listwise_value(scores, grades)  # log(1 + sum exp(f_j - f_i))
    assert loss.listwise_value(scores, grades) == pytest.approx(expected)


@pytest.mark.parametrize("loss", LOSSES, ids=SPECS)
def test_all_lists_in_one_call_are_the_sum_of_single_lists(loss: Loss):
    data, rng = small_judged(3), np.random.default_rng(0)
    lists = whole_lists(loss, data, reference_kernel())
    for spread in (1.0, 500.0):
        scores = spread * rng.normal(size=lists.rows.size)
        value, slopes = mean_and_slopes(lists, scores)
        single = [
            lists.list_slopes(at, scores[start:stop])
            for at, (start, stop) in enumerate(itertools.pairwise(lists.list_ptr.tolist()))
        ]
        assert value == pytest.approx(
            sum(s * v for s, (v, _) in zip(lists.shares, single, strict=True))
        )
        by_list = [share * part for share, (_, part) in zip(lists.shares, single, strict=True)]
        expected = np.concatenate(by_list)
        assert slopes == pytest.approx(expected, rel=1e-9, abs=1e-12 * np.abs(expected).max())


def test_ties_of_lambdarank_count_as_errors_and_rows_may_come_in_any_order():
    grades, scores = np.array([2.0, 0.0, 1.0, 0.0]), np.array([1.0, 1.0, 0.5, 1.0])
    by_rank = 1.0 / np.log2(np.arange(2, 6))
    shared = by_rank[:2].mean()  # the two of grade 0 share ranks 1 and 2
    assert pessimistic_discounts(scores, grades) == pytest.approx(
        [by_rank[2], shared, by_rank[3], shared]
    )
    order = np.array([3, 1, 0, 2])
    for loss in (LambdaRank(), ListMLE(), ListNet()):
        value = loss.listwise_value(scores, grades)
        assert loss.listwise_value(scores[order], grades[order]) == pytest.approx(value)


def objective_by_formula(
    data: JudgedLists, formula: Callable[[np.ndarray, np.ndarray], float], terms: str
) -> Callable[[np.ndarray], float]:
    """Return the mean loss plus 0.005 |w|^2 as NumPy computes it from the formula."""
    parts = [slice(*ends) for ends in itertools.pairwise(data.group_ptr.tolist())]
    parts = [part for part in parts if np.ptp(data.grades[part]) > 0]

    def count(g: np.ndarray) -> int:
        if terms == "pairs":
            return int((g[:, None] > g).sum())
        return int((g > g.min()).sum()) if terms == "documents" else 1

    total = sum(count(data.grades[part]) for part in parts)

    def objective(w: np.ndarray) -> float:
        scores = data.features @ w
        losses = [formula(scores[part], data.grades[part]) for part in parts]
        return sum(losses) / total + 0.005 * float(w @ w)

    return objective


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("listnet", "lists"),
        ("listmle", "documents"),
        ("exponential-pairs", "pairs"),
        ("graphs=dominating", "lists"),
        ("graphs=dominated", "lists"),
        ("graphs=pairs", "lists"),
        ("graphs=list", "lists"),
    ],
)
def test_convex_losses_are_minimized_to_the_optimum_of_the_formula(name: str, terms: str):
    data = small_judged(5)
    objective = objective_by_formula(data, FORMULAS[name][1], terms)
    oracle = minimize(objective, np.zeros(data.n_features), options={"gtol": 1e-7})
    solvers = ["lbfgs:tolerance=1e-13"]
    solvers += ["coordinate:tolerance=1e-12,max_epochs=2000"] * (name != "exponential-pairs")
    for solver in solvers:
        spec = f"preference-graph:{name}" if "=" in name else name
        ranker = Ranker(loss=spec, regularizer="l2:strength=0.01", solver=solver).fit(data)
        assert ranker.objective_ == pytest.approx(objective(ranker.model_.weights), rel=1e-12)
        assert ranker.objective_ == pytest.approx(oracle.fun, rel=1e-8)
        assert ranker.model_.weights == pytest.approx(oracle.x, abs=2e-4)


def test_approx_ndcg_ends_where_the_gradient_of_the_formula_is_zero():
    data = small_judged(5)
    ranker = Ranker(
        loss="approx-ndcg:temperature=1",
        regularizer="l2:strength=0.01",
        solver="lbfgs:tolerance=1e-14",
    ).fit(data)

    def formula(s: np.ndarray, g: np.ndarray) -> float:
        return approx_ndcg(0.1 * s, g)

    objective = objective_by_formula(data, formula, "lists")
    w = ranker.model_.weights
    assert ranker.objective_ == pytest.approx(objective(w))
    slopes = [objective(w + step) - objective(w - step) for step in 1e-5 * np.eye(w.size)]
    assert np.abs(slopes).max() / 2e-5 < 1e-5
    assert ranker.objective_ < objective(np.zeros(w.size)) - 0.05


def test_lambdarank_renews_its_weights_between_epochs():
    data = small_judged(5)
    ranker = Ranker(
        loss="lambdarank",
        regularizer="l2:strength=0.01",
        solver="lbfgs:max_epochs=4,iterations=3,tolerance=0",
    ).fit(data)
    lists = LambdaRank().whole_lists(data, reference_kernel())
    weights = ranker.model_.weights
    value, _ = lists.slopes(data.features[lists.rows] @ weights)
    assert ranker.objective_ == pytest.approx(value + 0.005 * float(weights @ weights))
    assert ranker.score(data, metric="ndcg(gain=exp2)") > 0.8


@pytest.mark.parametrize("intercept", ["global", "query"])
@pytest.mark.parametrize("solver", ["lbfgs:tolerance=1e-13", "coordinate:tolerance=1e-13"])
def test_regression_is_that_of_least_squares(intercept: str, solver: str):
    data = small_judged(2)
    n = data.n_rows
    ones = np.ones((n, 1)) if intercept == "global" else np.eye(data.n_queries)[data.row_groups]
    solution, *_ = np.linalg.lstsq(np.hstack([data.features, ones]), data.grades)
    ranker = Ranker(
        model="linear", loss=f"squared-grades:intercept={intercept}", solver=solver
    ).fit(data)
    assert ranker.model_.weights == pytest.approx(solution[: data.n_features], abs=1e-5)
    errors = np.hstack([data.features, ones]) @ solution - data.grades
    assert ranker.objective_ == pytest.approx(float((errors**2).mean()), rel=1e-9)


def test_ridge_regression_has_the_closed_form():
    data, strength = small_judged(2), 0.3
    X = data.features - data.features.mean(axis=0)
    y = data.grades - data.grades.mean()
    matrix = 2.0 * X.T @ X / len(y) + strength * np.eye(X.shape[1])
    expected = np.linalg.solve(matrix, 2.0 * X.T @ y / len(y))
    ranker = Ranker.from_recipe(
        "regression", regularizer=f"l2:strength={strength}", solver="lbfgs:tolerance=1e-13"
    ).fit(data)
    assert ranker.model_.weights == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("loss", ["listnet", "listmle", "squared-grades"])
@pytest.mark.parametrize("curvature", ["newton", "popoviciu"])
def test_sweeps_never_increase_the_objective(loss: str, curvature: str):
    ranker = Ranker(
        loss=loss,
        regularizer="l1:strength=0.02",
        solver=f"coordinate:curvature={curvature},max_epochs=30,tolerance=0",
    ).fit(small_judged(7))
    assert (np.diff([row["objective"] for row in ranker.history_]) <= 0.0).all()


def test_lists_with_a_single_grade_are_left_out():
    data = JudgedLists(np.eye(4), [1, 1, 0, 1], [1, 1, 2, 2])
    lists = ValueLists.of(ListNet(), data)
    assert lists.rows.tolist() == [2, 3]
    assert ListNet().whole_lists(data, cython_kernel()).shares.tolist() == [1.0]
