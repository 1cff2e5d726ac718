"""Top-k retrieval by scores: equal to a full sort, one block of queries at a time."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError, DataWarning, PartError
from ranking.inference.retrieval import top_k
from ranking.kernels.select import get_kernel
from ranking.metrics import evaluation as measure_module
from ranking.models.bilinear import Bilinear


def initialized(data, seed=0):
    model = Bilinear(dtype="float64")
    model.initialize(data, 0, get_kernel())
    rng = np.random.default_rng(seed)
    model.weights = sp.csr_array(rng.integers(-1, 2, model.weights.shape).astype(np.float64))
    return model


def by_sorting(scores, data, k):
    for query in range(data.n_queries):
        itself = None if data.own_document is None else data.own_document[query]
        others = [d for d in range(data.n_documents) if d != itself]
        others.sort(key=lambda d: (-scores[query, d], data.document_ids[d]))
        yield others[:k]


@pytest.mark.parametrize("queries_are_documents", [False, True])
@pytest.mark.parametrize("k", [1, 3, 13, 14, 100, None])
def test_top_k_equals_a_full_sort(matching_kernel, make_matching, queries_are_documents, k):
    data = make_matching(4, queries_are_documents=queries_are_documents, dtype=np.float64)
    model = initialized(data)
    scores = model.scores(data, matching_kernel)
    results = list(top_k(model, data, k, matching_kernel))
    assert [one.query for one in results] == list(range(data.n_queries))
    for one, expected in zip(results, by_sorting(scores, data, k), strict=True):
        assert one.documents.tolist() == expected
        assert np.array_equal(one.scores, scores[one.query, expected])
        if queries_are_documents:
            assert one.query not in expected


@pytest.mark.parametrize("ids", [None, ["d", "b", "é", "a", "B", "c"], [30, 4, 200, 5, 1, 7]])
@pytest.mark.parametrize("k", [1, 2, 4, 6, None])
def test_ties_are_broken_by_id(matching_kernel, ids, k):
    documents = np.array([[1.0], [2.0], [1.0], [1.0], [2.0], [0.0]])
    data = MatchingData(np.ones((1, 1)), documents, np.zeros((1, 6)), document_ids=ids)
    model = Bilinear()
    model.initialize(data, 0, matching_kernel)
    (results,) = top_k(model, data, k, matching_kernel)
    (expected,) = by_sorting(model.scores(data, matching_kernel), data, k)
    assert results.documents.tolist() == expected


def test_results_hold_one_block_of_scores(matching_kernel, make_matching, monkeypatch):
    data = make_matching(4)
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=0", kernel=matching_kernel).fit(data)
    expected = list(ranker.rank(data, 3))
    sizes = []
    scorer = Bilinear.scorer

    def watched(self, *args):
        inner = scorer(self, *args)

        def scores(selection):
            result = inner(selection)
            sizes.append(result.size)
            return result

        return scores

    monkeypatch.setattr(Bilinear, "scorer", watched)
    monkeypatch.setattr(measure_module, "BLOCK", 30)  # two queries of fourteen documents
    ranking = ranker.rank(data, 3)
    assert not sizes  # nothing is done before it is asked for
    rows = iter(ranking)
    first = next(rows)
    assert sizes == [28]
    assert [first, *rows] == expected
    assert sizes == [28] * 4


@pytest.mark.parametrize("k", [0, -1, 2.5, "all"])
def test_a_bad_k_is_refused_at_once(matching_kernel, make_matching, k):
    data = make_matching(4)
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=0", kernel=matching_kernel).fit(data)
    with pytest.raises(DataError, match=r"k is .*whole number from 1"):
        ranker.rank(data, k)


def test_other_data_are_refused(matching_kernel, make_matching, judged):
    ranker = Ranker(loss="hinge", solver="sgd:max_steps=0", kernel=matching_kernel)
    ranker.fit(make_matching(4))
    for call in (ranker.rank, ranker.predict, ranker.score):
        with pytest.raises(DataError, match="scores queries and documents"):
            call(judged)
        with pytest.raises(DataError, match="these are texts"):
            call(TextCollection(["q"], ["a"], ["d"], ["a"], [[1]]))
    with pytest.raises(DataError, match="MatchingData"):
        ranker.predict(np.ones((3, 2)))
    with pytest.raises(DataError, match="has no texts to search"):
        ranker.search(["a"])
    linear = Ranker(loss="domination").fit(judged)
    for call in (linear.rank, linear.predict):
        with pytest.raises(DataError, match="'linear' scores rows"):
            call(make_matching(4))
    with pytest.raises(DataError, match="score_pairs takes queries and documents"):
        linear.score_pairs(judged, np.zeros(1, int), np.zeros(1, int))


# --- searching texts ----------------------------------------------------------------------------

DOCUMENTS = {
    "d1": "the flow over a wing",
    "d2": "heat transfer in a flow",
    "d3": "wing wing wing",
    "d4": "boundary layer",
}
QUERIES = {"q1": "wing flow", "q2": "heat", "q3": "layer of heat"}
RELEVANCE = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])


def texts():
    return TextCollection(
        list(QUERIES), list(QUERIES.values()), list(DOCUMENTS), list(DOCUMENTS.values()), RELEVANCE
    )


def searcher(kernel, features=None, steps=0):
    solver = f"sgd:max_steps={steps},learning_rate=1"
    return Ranker(loss="hinge", solver=solver, kernel=kernel, features=features).fit(texts())


@pytest.mark.parametrize("features", [None, "text:words=6", "text:hashing=16,weighting=counts"])
def test_search_scores_are_products_of_features(matching_kernel, features):
    ranker = searcher(matching_kernel, features, steps=30)
    text = TextFeatures.from_spec(features or "text").fit(list(DOCUMENTS.values()))
    w = ranker.model_.weights.toarray().astype(np.float64)
    queries = ["flow flow heat", "wing"]
    q, d = (text.transform(some).toarray() for some in (queries, DOCUMENTS.values()))
    expected = q.astype(np.float64) @ w @ d.T.astype(np.float64)
    for row, (_, result) in zip(expected, ranker.search(queries, k=3), strict=True):
        order = sorted(range(4), key=lambda i, row=row: (-row[i], list(DOCUMENTS)[i]))[:3]
        assert [one for one, _ in result] == [list(DOCUMENTS)[i] for i in order]
        np.testing.assert_allclose([score for _, score in result], row[order], rtol=1e-5, atol=1e-6)
    assert len(ranker.search(["wing"])["wing"]) == 4


def test_search_and_rank_agree(matching_kernel):
    ranker = searcher(matching_kernel, steps=30)
    by_rank, by_search = ranker.rank(texts(), k=None), ranker.search(list(QUERIES.values()))
    for query, words in QUERIES.items():
        assert by_rank[query].ids.tolist() == by_search[words].ids.tolist()
    assert ranker.predict(texts()).shape == (3, 4)
    assert 0.0 < ranker.score(texts(), metric="map") <= 1.0


def test_search_refuses_bad_arguments(matching_kernel):
    ranker = searcher(matching_kernel)
    assert list(ranker.search([])) == []
    with pytest.warns(DataWarning, match="no known word"):
        ((_, result),) = ranker.search(["xyzzy"])
    assert [one for one, _ in result] == sorted(DOCUMENTS)
    assert {score for _, score in result} == {0.0}
    with pytest.raises(DataError, match="list of texts"):
        ranker.search("wing")
    with pytest.raises(DataError, match="k is"):
        ranker.search(["wing"], k=0)


def test_features_are_for_texts_only(matching_kernel, make_matching):
    with pytest.raises(PartError, match="represent texts, and the data are a MatchingData"):
        Ranker(loss="hinge", features="text", kernel=matching_kernel).fit(make_matching(1))
    with pytest.raises(PartError, match="'words' is not 'text' with some of its parameters"):
        Ranker(loss="hinge", features="words", kernel=matching_kernel).fit(texts())


def test_features_as_an_object(matching_kernel):
    features = TextFeatures(words=None, ngrams="1-2", stop_words="english", weighting="counts")
    ranker = searcher(matching_kernel, features)
    assert ranker.text_ is not features
    assert ranker.text_ == features
    assert "boundary layer" in ranker.text_.feature_names
    assert features.idf_ is None
