"""Scores of one model as the features of another, and clicks as features."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import JudgedLists, MatchingData, Ranker
from ranking.data.click_features import with_clicks
from ranking.errors import DataError
from ranking.inference.score_features import judged_pairs, scores_as_features, with_scores
from ranking.metrics import evaluation as measure


@pytest.fixture
def fitted(make_matching, seed):
    data = make_matching(seed, kind="relevance")
    parts = ("factored:dimensions=3,biases=false", "alignment", "max-norm", "alternating")
    return Ranker(*parts, kernel="reference").fit(data), data


def test_pair_scores_equal_the_full_score_matrix(fitted, seed, monkeypatch):
    ranker, data = fitted
    rng = np.random.default_rng(seed)
    queries = rng.integers(0, data.n_queries, 50)
    documents = rng.integers(0, data.n_documents, 50)
    expected = ranker.predict(data)[queries, documents]
    monkeypatch.setattr(measure, "BLOCK", 3 * data.n_documents)
    np.testing.assert_array_equal(ranker.score_pairs(data, queries, documents), expected)


def test_judged_pairs_become_rows(fitted):
    ranker, data = fitted
    result = judged_pairs([ranker, ranker], data)
    assert result.features.shape == (data.relevance.nnz, 2)
    scores = ranker.predict(data)
    for row in range(result.n_rows):
        query, document = result.query_ids[result.row_groups[row]], int(result.doc_ids[row])
        assert result.features[row].tolist() == [scores[query, document]] * 2
        assert result.grades[row] == data.relevance[query, document]


def test_only_judged_documents_are_ranked_as_trec_eval_does(fitted, seed):
    pytrec_eval = pytest.importorskip("pytrec_eval", reason="trec_eval, the oracle, is missing")
    ranker, data = fitted
    rng = np.random.default_rng(seed)
    shape = data.relevance.shape
    judged = sp.csr_array((rng.random(shape) < 0.5) * rng.integers(1, 4, shape))
    judged.data -= 1  # a third of the judged documents have grade 0
    judged = data._replace(relevance=judged)
    evaluation = ranker.evaluate(judged, metrics="ndcg@5,map,p@3", judged_only=True)
    pairs, scores = judged.relevance.tocoo(), ranker.predict(judged)
    qrels: dict[str, dict[str, int]] = {}
    for query, document, grade in zip(*pairs.coords, pairs.data, strict=True):
        qrels.setdefault(str(query), {})[str(document)] = int(grade)
    run = {q: {str(d): float(np.float32(s)) for d, s in enumerate(scores[int(q)])} for q in qrels}
    judge = pytrec_eval.RelevanceEvaluator(
        qrels, {"ndcg_cut_5", "map", "P_3"}, judged_docs_only_flag=True
    )
    expected = judge.evaluate(run)
    for name, peer in (("ndcg@5", "ndcg_cut_5"), ("map", "map"), ("p@3", "P_3")):
        values = [expected[str(query)][peer] for query in evaluation.query_ids.tolist()]
        np.testing.assert_allclose(evaluation.values[evaluation.names[name]], values, rtol=1e-6)
    whole = ranker.evaluate(judged, metrics="map")
    assert whole.mean("map") < evaluation.mean("map")
    with pytest.raises(DataError, match="leave exclude out"):
        ranker.evaluate(judged, exclude=data, judged_only=True)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array])
def test_scores_are_appended_to_judged_rows(fitted, kind):
    ranker, data = fitted
    rows = JudgedLists(
        kind([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]),
        [0, 1, 2],
        ["3", "1", "3"],
        doc_ids=["4", "0", "2"],
        feature_ids=[7, 9],
    )
    result = with_scores(rows, [ranker], data)
    same = scores_as_features([ranker], data, append_to=rows)
    assert (same.features != result.features).sum() == 0
    scores = ranker.predict(data)
    dense = result.features.toarray() if sp.issparse(result.features) else result.features
    expected = [[1.0, 2.0, scores[3, 4]], [5.0, 6.0, scores[3, 2]], [3.0, 4.0, scores[1, 0]]]
    np.testing.assert_array_equal(dense, expected)
    assert result.feature_ids.tolist() == [7, 9, 10]
    assert result.grades.tolist() == [0, 2, 1]


def test_unknown_queries_are_named(fitted, make_matching):
    ranker, data = fitted
    rows = JudgedLists([[1.0]], [0], ["99"], doc_ids=["4"])
    with pytest.raises(DataError, match="query '99' of the judged rows is not in the data"):
        with_scores(rows, [ranker], data)
    with pytest.raises(DataError, match="no judged pairs, only classes"):
        judged_pairs([ranker], make_matching(1))


def test_click_features_of_both_sides():
    log = MatchingData(
        [[1.0], [2.0]],
        [[3.0], [4.0], [5.0]],
        [[3.0, 4.0, 0.0], [0.0, 2.0, 0.0]],
        query_ids=["a", "b"],
        document_ids=["x", "y", "z"],
        query_feature_ids=["q"],
        document_feature_ids=["d"],
    )
    result = with_clicks(log)
    assert result.query_feature_ids.tolist() == ["q", "click:x", "click:y", "click:z"]
    np.testing.assert_allclose(result.query_rows.toarray(), [[1, 0.6, 0.8, 0], [2, 0, 1, 0]])
    root = np.sqrt(20.0)
    np.testing.assert_allclose(
        result.document_rows.toarray(), [[3, 1, 0], [4, 4 / root, 2 / root], [5, 0, 0]]
    )
    other = MatchingData(
        [[7.0], [8.0]], [[1.0]], [[1.0], [0.0]], query_ids=["new", "b"], document_ids=["y"]
    )
    result = with_clicks(other, log, weight=2.0)
    np.testing.assert_allclose(result.query_rows.toarray(), [[7, 0, 0, 0], [8, 0, 2, 0]])
    np.testing.assert_allclose(result.document_rows.toarray(), [[1, 8 / root, 4 / root]])


def test_candidates_are_judged_pairs_and_the_best_documents():
    data = MatchingData(
        np.eye(3), np.eye(4), [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]], document_ids=list("wxyz")
    )
    ranker = Ranker("bilinear", "hinge", solver="sgd:max_steps=50,learning_rate=0.5").fit(data)
    rows = scores_as_features([ranker, ranker], data, candidates=3)
    best = {query: dict(documents) for query, documents in ranker.rank(data, 3)}
    assert rows.query_ids.tolist() == [0, 1]  # the third has no judgement
    for query, grades in ((0, {"w": 2.0}), (1, {"x": 1.0})):
        own = slice(*rows.group_ptr[query : query + 2])
        names = rows.doc_ids[own].tolist()
        assert set(names) == set(best[query]) | set(grades)
        assert rows.grades[own].tolist() == [grades.get(name, 0.0) for name in names]
        scores = dict(zip(names, rows.features[own, 0].tolist(), strict=True))
        assert {name: scores[name] for name in best[query]} == pytest.approx(best[query])
    with pytest.raises(DataError, match="leave candidates out"):
        scores_as_features([ranker], data, rows, candidates=3)
