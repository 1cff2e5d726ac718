"""Item-item models: EASE, SLIM, sparse approximate inverses and graph filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import ElasticNet

from ranking import MatchingData, Ranker
from ranking.errors import CombinationError, DataError
from ranking.models.item_item import ItemItem
from ranking_plugins.solvers.pruning import pruned

USERS, ITEMS = 40, 18
EASE = "l2:strength=6"


def interactions(seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(USERS, 3)) @ rng.normal(size=(3, ITEMS))
    clicks = (dense > 1.0).astype(float)
    clicks[:, 4] = 0.0  # an item that nobody has
    clicks[0, :3] = 1.0
    clicks[clicks.sum(axis=1) == 0.0, 5] = 1.0  # every user has an item
    return clicks


@pytest.fixture
def data() -> MatchingData:
    return MatchingData(relevance=interactions())


def fitted(recipe: str, data: MatchingData, **parts: Any) -> Ranker:
    return Ranker.from_recipe(recipe, **parts).fit(data)


def weights(ranker: Ranker) -> np.ndarray:
    assert isinstance(ranker.model_, ItemItem)
    return np.asarray(ranker.model_.weights.toarray(), dtype=float)


def error(result: np.ndarray) -> float:
    clicks = interactions()
    return float(((clicks - clicks @ result) ** 2).sum())


def test_ease_solves_a_ridge_regression_for_each_item(data: MatchingData):
    ranker, clicks = fitted("ease", data, regularizer=EASE), interactions()
    expected = np.zeros((ITEMS, ITEMS))
    for item in range(ITEMS):
        others = np.delete(np.arange(ITEMS), item)
        X = clicks[:, others]
        system = X.T @ X + 3.0 * np.eye(others.size)
        expected[others, item] = np.linalg.solve(system, X.T @ clicks[:, item])
    assert weights(ranker) == pytest.approx(expected, abs=1e-6)
    objective = error(expected) + 3.0 * (expected**2).sum()
    assert ranker.objective_ == pytest.approx(objective, rel=1e-9)


def test_ease_inverts_in_blocks(monkeypatch: pytest.MonkeyPatch, data: MatchingData):
    whole = weights(fitted("ease", data, regularizer=EASE))
    monkeypatch.setattr("ranking_plugins.solvers.closed_form.BLOCK", 5)
    assert np.array_equal(weights(fitted("ease", data, regularizer=EASE)), whole)


def test_pruned_ease_reports_the_objective_of_what_is_left(data: MatchingData):
    ranker = fitted("ease", data, regularizer=EASE, solver="closed-form:density=0.2")
    result = weights(ranker)
    assert 0 < np.count_nonzero(result) <= 0.2 * ITEMS**2
    assert ranker.objective_ == pytest.approx(error(result) + 3.0 * (result**2).sum(), rel=1e-6)
    full = weights(fitted("ease", data, regularizer=EASE))
    largest = np.sort(np.abs(full).ravel())[-np.count_nonzero(result) :]
    assert np.sort(np.abs(result[result != 0.0])) == pytest.approx(largest)


def test_ease_refuses_a_gram_matrix_above_the_limit(data: MatchingData):
    with pytest.raises(DataError, match=r"18 items needs .* gigabytes, and max"):
        fitted("ease", data, solver="closed-form:max_gigabytes=1e-6")


@pytest.mark.parametrize("nonnegative", [False, True])
def test_slim_is_an_elastic_net_for_each_item(data: MatchingData, nonnegative: bool):
    sign = "true" if nonnegative else "false"
    ranker = fitted(
        "slim",
        data,
        regularizer="elastic:strength=4,share=0.6",
        solver=f"coordinate:tolerance=1e-14,nonnegative={sign}",
    )
    clicks, expected = interactions(), np.zeros((ITEMS, ITEMS))
    for item in range(ITEMS):
        others = np.delete(np.arange(ITEMS), item)
        net = ElasticNet(
            alpha=4 / (2 * USERS),
            l1_ratio=0.6,
            fit_intercept=False,
            positive=nonnegative,
            tol=1e-12,
            max_iter=100_000,
        )
        expected[others, item] = net.fit(clicks[:, others], clicks[:, item]).coef_
    assert weights(ranker) == pytest.approx(expected, abs=1e-6)
    assert (expected < 0.0).any() == (not nonnegative)
    penalty = 4 * (0.6 * np.abs(expected).sum() + 0.2 * (expected**2).sum())
    assert ranker.objective_ == pytest.approx(error(expected) + penalty, rel=1e-9)


def test_slim_without_l1_converges_to_ease(data: MatchingData):
    slim = fitted("slim", data, regularizer=EASE, solver="coordinate:tolerance=1e-14")
    assert weights(slim) == pytest.approx(weights(fitted("ease", data, regularizer=EASE)), abs=1e-5)


def test_neighbors_restrict_each_column_to_similar_items(data: MatchingData):
    ranker = fitted("slim", data, regularizer=EASE, solver="coordinate:tolerance=1e-14,neighbors=3")
    clicks, expected = interactions(), np.zeros((ITEMS, ITEMS))
    gram = clicks.T @ clicks
    cosines = gram / np.sqrt(np.maximum(np.outer(gram.diagonal(), gram.diagonal()), 1e-12))
    for item in range(ITEMS):
        cosines[item, item] = 0.0
        best = np.argsort(-cosines[item], kind="stable")[:3]
        best = best[cosines[item, best] > 0.0]
        system = gram[np.ix_(best, best)] + 3.0 * np.eye(best.size)
        expected[best, item] = np.linalg.solve(system, gram[best, item])
    assert weights(ranker) == pytest.approx(expected, abs=1e-5)


def test_slim_never_increases_its_objective_and_continues(data: MatchingData):
    parts: dict[str, Any] = {"regularizer": "elastic:strength=0.01,share=0.5"}
    solver = "coordinate:tolerance=0,max_epochs=4"
    ranker = fitted("slim", data, solver=solver, **parts)
    objectives = [row["objective"] for row in ranker.history_]
    assert (np.diff(objectives) <= 1e-12).all()


def test_slim_of_many_items_needs_neighbors(monkeypatch: pytest.MonkeyPatch, data: MatchingData):
    monkeypatch.setattr("ranking_plugins.solvers.item_columns.MOST_ITEMS", 17)
    with pytest.raises(DataError, match="neighbors=200, or nonnegative=true"):
        fitted("slim", data, solver="coordinate")


@pytest.mark.parametrize("solver", ["closed-form", "coordinate"])
def test_weighted_pairs_are_for_ials_only(data: MatchingData, solver: str):
    with pytest.raises(CombinationError, match="recipe ials"):
        Ranker("item-item", "squared:unobserved=0.1", "l2", solver).fit(data)


def filtered(
    clicks: np.ndarray, exponents: tuple[float, float], low_pass: float, dimensions: int
) -> np.ndarray:
    """The graph filter by a full singular value decomposition."""
    users, items = clicks.sum(1, keepdims=True), clicks.sum(0, keepdims=True)
    a, b = exponents
    powers = np.where(items > 0, np.maximum(items, 1) ** -b, 0.0)
    normalized = clicks * np.where(users > 0, np.maximum(users, 1) ** -a, 0.0) * powers
    _, values, rows = np.linalg.svd(normalized)
    vectors = rows[:dimensions].T
    smooth = (clicks * powers) @ vectors @ vectors.T * np.where(items > 0, items**b, 0.0)
    gram = clicks @ normalized.T @ normalized
    result: np.ndarray = gram + low_pass * values[0] ** 2 * smooth
    return result


@pytest.mark.parametrize("exponents", [(0.5, 0.5), (0.4, 0.3)])
@pytest.mark.parametrize("dimensions", [0, 3])
def test_graph_filter_equals_the_formula(
    data: MatchingData, dimensions: int, exponents: tuple[float, float]
):
    a, b = exponents
    ranker = fitted(
        "graph-filter",
        data,
        model=f"item-item:dimensions={dimensions},low_pass=0.4",
        loss=f"alignment:per_query=false,query_degree={a},document_degree={b}",
        solver="graph-filter:max_epochs=200,tolerance=0",
    )
    expected = filtered(interactions(), exponents, 0.4 if dimensions else 0.0, dimensions)
    assert ranker.predict(data) == pytest.approx(expected, rel=1e-4, abs=4e-4)


def test_degree_normalization_changes_the_clicks_of_pls():
    clicks = interactions()
    powers = [np.maximum(clicks.sum(axis, keepdims=True), 1) ** -0.5 for axis in (1, 0)]
    loss = "alignment:per_query=false"
    parts: dict[str, Any] = {"model": "factored:dimensions=3,biases=false"}
    normalized = fitted(
        "pls", MatchingData(relevance=clicks * powers[0] * powers[1]), loss=loss, **parts
    )
    ranker = fitted(
        "pls",
        MatchingData(relevance=clicks),
        loss=f"{loss},query_degree=0.5,document_degree=0.5",
        **parts,
    )
    assert ranker.objective_ == pytest.approx(normalized.objective_, rel=1e-5)


def test_degree_normalization_needs_relevance():
    data = MatchingData([[1.0], [2.0]], [[1.0], [2.0]], labels=(["a", "b"], ["a", "b"]))
    with pytest.raises(DataError, match="labelled by class; leave query_degree"):
        fitted("pls", data, features=None, loss="alignment:document_degree=0.5")


def test_a_new_user_gets_the_scores_of_a_known_one_with_the_same_items(data: MatchingData):
    ranker = fitted("graph-filter", data, model="item-item:dimensions=3")
    history = np.flatnonzero(interactions()[0]).tolist()
    assert list(ranker.fold_in(data, {"new": history}, 5)["new"]) == list(
        ranker.recommend([0], 5)[0]
    )


def test_explanation_adds_up_to_the_score(data: MatchingData):
    ranker = fitted("graph-filter", data, model="item-item:dimensions=3")
    parts = ranker.explain("0", "7")
    assert {part.query_feature for part in parts} == set(np.flatnonzero(interactions()[0]).tolist())
    total = sum(part.contribution for part in parts)
    assert total == pytest.approx(ranker.predict(data)[0, 7], rel=1e-4)
    assert [abs(part.contribution) for part in parts] == sorted(
        (abs(part.contribution) for part in parts), reverse=True
    )


def test_similar_items_are_those_with_the_largest_weights(data: MatchingData):
    ranker = fitted("ease", data, regularizer=EASE)
    result = ranker.similar_items([3], 4)[3]
    row = weights(ranker)[3]
    row[3] = -np.inf
    best = np.argsort(-row, kind="stable")[:4].tolist()
    assert [item for item, _ in result] == best
    assert [related.feature for related in ranker.related_features(best[0], 1)]


def test_similar_users_need_embeddings(data: MatchingData):
    with pytest.raises(CombinationError, match="weights between items only"):
        fitted("ease", data).similar(data, 3, side="queries")


def test_model_file_has_the_same_scores_and_can_forget_who_has_what(
    data: MatchingData, tmp_path: Path
):
    ranker = fitted("graph-filter", data, model="item-item:dimensions=3")
    ranker.save(tmp_path / "model")
    again = Ranker.load(tmp_path / "model")
    assert np.array_equal(again.predict(data), ranker.predict(data))
    assert list(again.recommend([1], 3)[1]) == list(ranker.recommend([1], 3)[1])
    ranker.save(tmp_path / "private", seen=False)
    private = Ranker.load(tmp_path / "private")
    assert isinstance(private.model_, ItemItem)
    assert private.model_.histories.nnz == 0
    history = {"new": [1, 2]}
    expected = list(ranker.fold_in(data, history, 3)["new"])
    assert list(private.fold_in(data, history, 3)["new"]) == expected


def test_documents_of_a_part_of_the_items_keep_their_scores(data: MatchingData):
    ranker = fitted("graph-filter", data, model="item-item:dimensions=3")
    few = np.array([9, 2, 5])
    part = MatchingData(
        relevance=interactions()[:4][:, few], query_ids=np.arange(4), document_ids=few
    )
    assert ranker.predict(part) == pytest.approx(ranker.predict(data)[:4][:, few], rel=1e-6)


def test_evaluation_by_top_k_equals_the_full_sort(data: MatchingData):
    ranker = fitted("graph-filter", data, model="item-item:dimensions=3")
    test = MatchingData(relevance=interactions(1))
    top = ranker.evaluate(test, metrics="ndcg@3,recall@3", exclude=data).means()
    # Together with a metric that needs all ranks, all scores are sorted.
    full = ranker.evaluate(test, metrics="ndcg@3,recall@3,map", exclude=data).means()
    assert top == {name: full[name] for name in top}


@pytest.mark.parametrize("which", ["labels", "nothing"])
def test_other_data_are_refused(which: str):
    data = {
        "labels": MatchingData([[1.0], [2.0]], [[1.0], [2.0]], labels=(["a", "b"], ["a", "b"])),
        "nothing": MatchingData(relevance=np.zeros((2, 3))),
    }[which]
    with pytest.raises(DataError, match=r"does not use features|nothing to learn"):
        fitted("ease", data)


@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 1.0])
def test_pruning_keeps_the_largest(density: float):
    rng = np.random.default_rng(1)
    dense = np.round(rng.normal(size=(9, 9)), 1)  # some are tied
    pruned_weights = pruned(sp.csr_array(dense), density).toarray()
    count = min(int(density * 81), np.count_nonzero(dense))
    assert np.count_nonzero(pruned_weights) == count
    assert np.array_equal(pruned_weights[pruned_weights != 0.0], dense[pruned_weights != 0.0])
    if count:
        assert (
            np.abs(pruned_weights[pruned_weights != 0]).min()
            >= np.abs(dense[pruned_weights == 0]).max()
        )
