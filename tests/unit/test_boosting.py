"""AdaRank, RankBoost and boosted trees against independent computations."""

from __future__ import annotations

import builtins
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import JudgedLists, Ranker
from ranking.errors import CombinationError, DataError, ModelFileError, PartError
from ranking.kernels.builtin import cython_kernel, reference_kernel
from ranking.models.thresholds import Thresholds
from ranking.models.trees import Trees
from ranking.testing.common import small_judged

GRID = np.arange(-3.0, 3.1, 0.5)


def coarse(seed: int) -> JudgedLists:
    """Make lists whose features have few values, so that many documents are tied."""
    data = small_judged(seed, n_queries=20)
    rows = GRID[np.abs(data.features[:, :, None] - GRID).argmin(axis=2)]
    return JudgedLists(rows, data.grades, data.query_ids[data.row_groups])


def average_precision(scores: np.ndarray, grades: np.ndarray) -> float:
    order = np.lexsort((np.arange(scores.size), -scores))
    relevant = grades[order] > 0
    if not relevant.any():
        return 0.0
    hits = np.cumsum(relevant) / np.arange(1, scores.size + 1)
    return float(hits[relevant].mean())


def adarank_by_formula(data: JudgedLists, rounds: int) -> np.ndarray:
    """Algorithm 1 of Xu and Li (2007), a feature being divided by its largest range.

    A choice that changes no metric is left out until another one changes some.
    """
    parts = [slice(*ends) for ends in itertools.pairwise(data.group_ptr.tolist())]
    ranges = np.max([np.ptp(data.features[part], axis=0) for part in parts], axis=0)
    rows = data.features / ranges
    weak = np.array(
        [[average_precision(rows[p, k], data.grades[p]) for p in parts] for k in range(6)]
    )
    weights, distribution = np.zeros(6), np.full(len(parts), 1.0 / len(parts))
    before, left_out = np.zeros(0), []
    for _ in range(rounds):
        merits = weak @ distribution
        merits[left_out] = -1.0
        best = int(np.argmax(merits))
        weights[best] += 0.5 * np.log((1.0 + merits[best]) / (1.0 - merits[best]))
        own = np.array([average_precision(rows[p] @ weights, data.grades[p]) for p in parts])
        left_out = [*left_out, best] if np.array_equal(own, before) else []
        before, distribution = own, np.exp(-own) / np.exp(-own).sum()
    return weights / ranges


def test_adarank_is_that_of_the_paper():
    rng = np.random.default_rng(3)
    qids = np.repeat(np.arange(25), 8)
    rows = rng.normal(size=(qids.size, 6))
    liked = rows @ np.array([1.0, 0.9, 0.8, 0.7, -0.5, 0.0]) + rng.normal(size=qids.size)
    liked[::8] = 1.0  # the formula has no rule for queries without positives
    data = JudgedLists(rows, liked > 0.8, qids)
    relevant = np.add.reduceat(data.grades, data.group_ptr[:-1])
    assert (relevant > 0).all()
    for rounds in (1, 2, 4):
        recipe = Ranker.from_recipe("adarank-map", solver=f"adarank:max_epochs={rounds}")
        expected = adarank_by_formula(data, rounds)
        assert recipe.fit(data).model_.weights == pytest.approx(expected, rel=1e-9), rounds
    assert np.count_nonzero(expected) > 1


def test_adarank_does_not_repeat_a_choice_that_changes_nothing():
    rows = np.array([[1.0, 0.5], [0.0, 0.0], [1.0, 0.0], [0.0, 0.7]])
    data = JudgedLists(rows, [1, 0, 1, 0], [1, 1, 2, 2])
    ranker = Ranker.from_recipe("adarank-map").fit(data)
    assert ranker.stopped_ == "converged"
    assert ranker.n_iter_ < 10
    with pytest.raises(DataError, match="no feature varies"):
        Ranker.from_recipe("adarank-map").fit(
            JudgedLists(np.ones((4, 2)), [1, 0, 1, 0], [1, 1, 2, 2])
        )


def test_adarank_does_not_depend_on_the_scale_of_features():
    data = coarse(1)
    factors = 2.0 ** np.arange(6)
    other = JudgedLists(data.features * factors, data.grades, data.query_ids[data.row_groups])
    first, second = (
        Ranker.from_recipe("adarank-ndcg").fit(each).model_.weights for each in (data, other)
    )
    assert second * factors == pytest.approx(first)


def rankboost_by_formula(data: JudgedLists, rounds: int, by_query: bool) -> list[float]:
    """Return the objective of each round by trying every threshold on every pair."""
    pairs = [
        (i, j, q)
        for q, (start, stop) in enumerate(itertools.pairwise(data.group_ptr.tolist()))
        for i in range(start, stop)
        for j in range(start, stop)
        if data.grades[i] > data.grades[j]
    ]
    better, worse, query = (np.array(column) for column in zip(*pairs, strict=True))
    prior = np.full(better.size, 1.0 / better.size)
    if by_query:
        counts = np.bincount(query)
        prior = 1.0 / counts[query] / np.count_nonzero(counts)
    scores, objectives = np.zeros(data.n_rows), []
    for _ in range(rounds):
        weights = prior * np.exp(scores[worse] - scores[better])
        weights /= weights.sum()
        merits = {}
        for feature in range(data.n_features):
            for value in np.unique(data.features[:, feature])[:-1]:
                weak = (data.features[:, feature] > value).astype(float)
                merits[feature, value] = float((weights * (weak[better] - weak[worse])).sum())
        feature, value = max(merits, key=lambda key: round(abs(merits[key]), 12))
        weak = (data.features[:, feature] > value).astype(float)
        step, least = weak[better] - weak[worse], 0.5 / better.size
        right, wrong = weights[step > 0].sum() + least, weights[step < 0].sum() + least
        scores += 0.5 * np.log(right / wrong) * weak
        objectives.append(float((prior * np.exp(scores[worse] - scores[better])).sum()))
    return objectives


@pytest.mark.parametrize("weighting", ["pairs", "queries"])
def test_rankboost_is_that_of_all_pairs_and_thresholds(weighting: str):
    data = coarse(0)
    ranker = Ranker.from_recipe(
        "rankboost",
        loss=f"exponential-pairs:weighting={weighting}",
        solver="rankboost:max_epochs=8",
    ).fit(data)
    objectives = [row["objective"] for row in ranker.history_]
    assert objectives == pytest.approx(rankboost_by_formula(data, 8, weighting == "queries"))
    assert (np.diff(objectives) < 0.0).all()


def test_rankboost_of_sparse_rows_and_quantiles():
    data = coarse(2)
    rows = np.where(np.abs(data.features) < 0.6, 0.0, data.features)
    qids = data.query_ids[data.row_groups]
    dense = JudgedLists(rows, data.grades, qids)
    sparse = JudgedLists(sp.csr_array(rows), data.grades, qids)
    one, other = (Ranker.from_recipe("rankboost").fit(each) for each in (dense, sparse))
    assert np.array_equal(one.predict(dense), other.predict(sparse))
    few = Ranker.from_recipe("rankboost", solver="rankboost:max_thresholds=2").fit(dense)
    _, counts = np.unique(few.model_.features, return_counts=True)
    assert counts.max() <= 2
    assert few.objective_ > one.objective_


RESUMED = ["adarank-map", "rankboost", "mart", "lambdamart"]


@pytest.mark.parametrize("recipe", RESUMED)
def test_resumed_saved_and_threaded_trainings_have_the_same_bits(recipe: str, tmp_path: Path):
    if recipe in ("mart", "lambdamart"):
        pytest.importorskip("lightgbm")
    data = coarse(4)
    base = Ranker.from_recipe(recipe)
    solver = base.solver.partition(":")[0]
    extra = ",min_data_in_leaf=5,bagging_fraction=0.7" if solver == "lightgbm" else ""
    whole = Ranker.from_recipe(recipe, solver=f"{solver}:max_epochs=6{extra}").fit(data)
    half = Ranker.from_recipe(recipe, solver=f"{solver}:max_epochs=3{extra}").plan().trainer(data)
    half.train()
    snapshot = half.snapshot()
    snapshot.facts["ending"] = snapshot.facts["stopped"] = ""
    for kernel, threads in ((cython_kernel(), 2), (reference_kernel(), 1)):
        plan = Ranker.from_recipe(
            recipe, solver=f"{solver}:max_epochs=6{extra}", kernel=kernel, threads=threads
        ).plan()
        rest = plan.trainer(data)
        rest.train(snapshot)
        for name, tensor in whole.model_.tensors().items():
            assert np.array_equal(rest.model.tensors()[name], tensor), name
    whole.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert np.array_equal(loaded.predict(data), whole.predict(data))
    assert [row["objective"] for row in rest.history] == pytest.approx(
        [row["objective"] for row in whole.history_][3:]
        if len(rest.history) == 3
        else [row["objective"] for row in whole.history_]
    )


@pytest.mark.parametrize("recipe", ["mart", "lambdamart"])
@pytest.mark.parametrize("kind", ["float64", "float32", "sparse"])
def test_trees_are_those_of_lightgbm_called_directly(recipe: str, kind: str):
    lightgbm = pytest.importorskip("lightgbm")
    data = small_judged(6, n_queries=40)
    rows: Any = data.features
    rows = sp.csr_array(np.maximum(rows, 0.0)) if kind == "sparse" else rows.astype(kind)
    data = JudgedLists(rows, data.grades, data.query_ids[data.row_groups])
    solver = "lightgbm:max_epochs=20,num_leaves=5,learning_rate=0.2"
    loss = "lambdarank:k=7" if recipe == "lambdamart" else "squared-grades"
    ranker = Ranker.from_recipe(recipe, solver=solver, loss=loss, random_state=3).fit(data)
    settings = {
        "objective": "lambdarank" if recipe == "lambdamart" else "regression",
        "lambdarank_truncation_level": 7,
        "num_leaves": 5,
        "learning_rate": 0.2,
        "seed": 3,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbose": -1,
    }
    group = np.diff(data.group_ptr) if recipe == "lambdamart" else None
    features = sp.csr_matrix(data.features) if kind == "sparse" else data.features
    dataset = lightgbm.Dataset(features, data.grades, group=group)
    direct = lightgbm.train(settings, dataset, num_boost_round=20).predict(features)
    assert np.array_equal(ranker.model_.scores(data, reference_kernel()), direct)
    assert np.ptp(direct) > 0.5


def test_trees_without_lightgbm_say_what_to_install(monkeypatch: pytest.MonkeyPatch):
    actual = builtins.__import__

    def refuse(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "lightgbm":
            raise ImportError(name)
        return actual(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(PartError, match=r"install ranking-kit\[trees\]"):
        Ranker.from_recipe("mart").fit(small_judged(0))


def test_lambdamart_refuses_grades_without_a_gain():
    pytest.importorskip("lightgbm")
    data = JudgedLists(np.eye(4), [0.5, 0, 1, 2], [1, 1, 2, 2])
    with pytest.raises(DataError, match=r"integers from 0 to 30, and there is 0\.5"):
        Ranker.from_recipe("lambdamart").fit(data)


def damaged(model: Any, name: str, value: Any) -> dict[str, Any]:
    return {**model.tensors(), name: value}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("left", [1, 0], "children that do not exist"),
        ("left", [2, -1], "children that do not exist"),
        ("right", [-4, -1], "children that do not exist"),
        ("roots", [2], "roots that do not exist"),
        ("features", [0, 9], "features that do not exist"),
        ("thresholds", [0.0, np.nan], "must be finite"),
        ("leaves", [[1.0]], "'leaves'"),
        ("left", [1], "by node"),
    ],
)
def test_damaged_trees_are_refused(name: str, value: list[Any], reason: str):
    model = Trees()
    model.feature_ids = np.arange(1, 3)
    nodes = np.array([0, 1]), np.array([0.5, 0.5])
    model.append(*nodes, np.array([1, -1]), np.array([-3, -2]), np.array([1.0, 2.0, 3.0]))
    data = JudgedLists([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 0], [1, 1, 1])
    assert model.scores(data, reference_kernel()).tolist() == [1.0, 2.0, 3.0]
    tensor = np.array(value, dtype=model.tensors()[name].dtype)
    with pytest.raises(ModelFileError, match=reason):
        Trees().restore(damaged(model, name, tensor))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("features", [0, 5], "unknown features"),
        ("features", [1, 0], "must ascend"),
        ("thresholds", [np.inf, 0.0], "must be finite"),
        ("thresholds", [1.0], "one feature and value"),
        ("values", [1, 2], "float64"),
    ],
)
def test_damaged_thresholds_are_refused(name: str, value: list[Any], reason: str):
    model = Thresholds()
    model.feature_ids = np.arange(1, 3)
    model.add(1, 0.5, 2.0)
    model.add(0, 0.5, 1.0)
    model.add(1, 0.5, 0.25)
    data = JudgedLists([[0.5, 0.5], [0.6, 0.0], [0.0, 1.0]], [0, 0, 0], [1, 1, 1])
    assert model.scores(data, reference_kernel()).tolist() == [0.0, 1.0, 2.25]
    tensor = np.array(value) if name == "values" else np.array(value, model.tensors()[name].dtype)
    with pytest.raises(ModelFileError, match=reason):
        Thresholds().restore(damaged(model, name, tensor))


@pytest.mark.parametrize("solver", ["adarank", "rankboost", "lightgbm"])
def test_boosting_refuses_penalties_with_the_reason(solver: str):
    model = {"adarank": "linear", "rankboost": "thresholds", "lightgbm": "trees"}[solver]
    loss = {
        "adarank": "metric-exponential",
        "rankboost": "exponential-pairs",
        "lightgbm": "lambdarank",
    }
    with pytest.raises(CombinationError, match="penal"):
        Ranker(model=model, loss=loss[solver], regularizer="l2", solver=solver).fit(small_judged(0))
    with pytest.raises(CombinationError):
        Ranker(model=model, loss="domination", regularizer="none", solver=solver).fit(
            small_judged(0)
        )
