"""Contributions add up to the score, for every kind of model."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_judged

from ranking import JudgedLists, MatchingData, Ranker, TextCollection
from ranking.errors import CombinationError, DataError


@pytest.fixture(scope="module")
def judged() -> JudgedLists:
    return make_judged(3, n_queries=8)


def total(entries) -> float:
    return sum(one.contribution for one in entries)


@pytest.mark.parametrize("scale", [None, "standard"])
def test_contributions_of_a_linear_model_add_up(judged: JudgedLists, scale):
    ranker = Ranker.from_recipe("listnet", scale=scale).fit(judged)
    query = judged.query_ids[2]
    for document, score in ranker.rank(judged)[query]:
        assert total(ranker.explain(query, document, judged)) == pytest.approx(score)


def test_the_change_that_is_named_swaps_two_documents(judged: JudgedLists):
    ranker = Ranker.from_recipe("listnet").fit(judged)
    rows = slice(*judged.group_ptr[2:4])
    scores = dict(zip(judged.doc_ids[rows].tolist(), ranker.score_rows(judged)[rows], strict=True))
    swaps = ranker.explain_order(judged, judged.query_ids[2])
    assert len(swaps) == rows.stop - rows.start - 1
    weights = dict(zip(judged.feature_ids.tolist(), ranker.coef_, strict=True))
    for swap in swaps:
        lower = scores[swap.document] - weights[swap.feature] * swap.change
        assert lower == pytest.approx(scores[swap.next])


def test_another_model_says_how_much_falls_without_a_feature(judged: JudgedLists):
    ranker = Ranker.from_recipe("rankboost").fit(judged)
    query = judged.query_ids[2]
    document = judged.doc_ids[judged.group_ptr[2]]
    assert all(np.isfinite(one.contribution) for one in ranker.explain(query, document, judged))
    with pytest.raises(CombinationError, match="linear models"):
        ranker.explain_order(judged, query)


def test_reasons_name_the_columns_of_a_data_frame(judged: JudgedLists):
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    names = [f"signal {at}" for at in range(judged.n_features)]
    frame = pandas.DataFrame(judged.features, columns=names)
    qid = judged.query_ids[judged.row_groups]
    ranker = Ranker.from_recipe("listnet").fit(frame, judged.grades, qid=qid)
    data = JudgedLists(judged.features, judged.grades, qid)
    query = judged.query_ids[2]
    document = data.doc_ids[data.group_ptr[2]]
    entries = ranker.explain(query, document, data)
    reasons = {one.document_feature: one.contribution for one in entries}
    expected = dict(zip(names, data.features[data.group_ptr[2]] * ranker.coef_, strict=True))
    assert reasons == pytest.approx(expected)
    assert {one.feature for one in ranker.explain_order(data, query)} <= set(names)


@pytest.fixture(scope="module")
def interactions() -> MatchingData:
    rng = np.random.default_rng(4)
    return MatchingData(None, None, (rng.random((9, 7)) < 0.4).astype(float))


@pytest.mark.parametrize("recipe", ["warp", "ials", "softmax", "item-knn"])
def test_past_items_add_up_to_the_score_of_an_item(recipe: str, interactions: MatchingData):
    ranker = Ranker.from_recipe(recipe).fit(interactions)
    scores = ranker.predict(interactions)
    for row, column in ((0, 1), (3, 6)):
        user, item = interactions.query_ids[row], interactions.document_ids[column]
        parts = ranker.explain(user, item)
        assert total(parts) == pytest.approx(scores[row, column], abs=1e-5)
        past = set(interactions.document_ids[interactions.relevant(row)].tolist())
        assert {one.query_feature for one in parts} <= past | {"bias", "rest"}


MODELS = ["factored", "factored:score=cosine,biases=false", "structured", "bilinear"]


@pytest.mark.parametrize("model", MODELS)
def test_pairs_of_features_and_neighbours_add_up(model: str):
    rng = np.random.default_rng(5)
    relevance = (rng.random((8, 6)) < 0.4).astype(float)
    data = MatchingData(rng.random((8, 3)), rng.random((6, 4)), relevance)
    ranker = Ranker(model, "softmax" if "cosine" in model else "warp", solver="sgd:epochs=2").fit(
        data
    )
    scores = ranker.predict(data)
    parts = ranker.explain(data.query_ids[1], data.document_ids[2], data)
    assert total(parts) == pytest.approx(scores[1, 2], abs=1e-5)
    neighbours = [one for one in parts if str(one.query_feature).startswith("neighbour")]
    assert bool(neighbours) == (model == "structured")


def test_embeddings_of_texts_are_explained_by_words():
    texts = ["cold ice", "hot fire", "ice cold water", "fire and heat"]
    data = TextCollection([0, 1], texts[:2], [0, 1], texts[2:], [[1, 0], [0, 1]])
    ranker = Ranker("factored", "warp", features="text:words=none").fit(data)
    parts = ranker.explain("cold ice", "ice cold water")
    assert {"cold", "ice"} >= {one.query_feature for one in parts} - {"bias"}
    assert total(parts) == pytest.approx(ranker.search(["cold ice"])["cold ice"][0][1], abs=1e-5)


def test_unknown_ids_are_named(judged: JudgedLists, interactions: MatchingData):
    ranker = Ranker.from_recipe("listnet").fit(judged)
    with pytest.raises(DataError, match="no query 'nobody'"):
        ranker.explain("nobody", "d", judged)
    with pytest.raises(DataError, match="needs the rows"):
        ranker.explain(judged.query_ids[0], "d")
    with pytest.raises(DataError, match="the document 'zzz' is not known"):
        Ranker.from_recipe("ials").fit(interactions).explain(interactions.query_ids[0], "zzz")
