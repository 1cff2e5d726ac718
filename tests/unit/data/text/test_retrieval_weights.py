"""BM25 and Dirichlet smoothing as features: scores against literal sums, and against bm25s."""

from __future__ import annotations

import math
import re
from collections import Counter

import numpy as np
import pytest

from ranking import Ranker, TextCollection, TextFeatures
from ranking.errors import DataError, ModelFileError, PartError

WORDS = ["wing", "flow", "heat", "shock", "layer", "body", "wave", "drag", "lift", "jet", "cone"]


def collection(seed, n_documents=60, n_queries=12):
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(1, len(WORDS) + 1)

    def text(length):
        return " ".join(rng.choice(WORDS, length, p=share / share.sum()))

    documents = [text(rng.integers(1, 30)) for _ in range(n_documents)]
    queries = [text(rng.integers(1, 6)) for _ in range(n_queries)]
    relevance = (rng.random((n_queries, n_documents)) < 0.1).astype(float)
    relevance[:, 0] = 1.0
    ids = [f"q{at}" for at in range(n_queries)], [f"d{at:03d}" for at in range(n_documents)]
    return TextCollection(ids[0], queries, ids[1], documents, relevance)


def words(text):
    return re.findall(r"[^\W_]+", text.lower())


def literal_bm25(queries, documents, k1, b):
    tokens = [words(text) for text in documents]
    mean = sum(map(len, tokens)) / len(tokens)
    holders = Counter(term for text in tokens for term in set(text))
    scores = np.zeros((len(queries), len(documents)))
    for q, query in enumerate(queries):
        for d, text in enumerate(tokens):
            counts = Counter(text)
            for term in words(query):
                n, c = holders[term], counts[term]
                idf = math.log(1 + (len(tokens) - n + 0.5) / (n + 0.5))
                scores[q, d] += idf * c / (c + k1 * (1 - b + b * len(text) / mean))
    return scores


def literal_dirichlet(queries, documents, mu):
    """The log-likelihood of the query, minus that in the collection, which has no document."""
    tokens = [words(text) for text in documents]
    total = Counter(term for text in tokens for term in text)
    size = sum(total.values())
    scores = np.zeros((len(queries), len(documents)))
    for q, query in enumerate(queries):
        for d, text in enumerate(tokens):
            counts = Counter(text)
            for term in words(query):
                share = total[term] / size
                smoothed = (counts[term] + mu * share) / (len(text) + mu)
                scores[q, d] += math.log(smoothed) - math.log(share)
    return scores


def matrix(ranker, data):
    """Return the scores of all documents, by `rank`."""
    scores = np.zeros((data.n_queries, data.n_documents))
    column = {name: at for at, name in enumerate(data.document_ids.tolist())}
    results = ranker.rank(data, k=data.n_documents)
    for row, query in enumerate(data.query_ids.tolist()):
        for name, score in results[query]:
            scores[row, column[name]] = score
    return scores


@pytest.mark.parametrize(("k1", "b"), [(1.2, 0.75), (0.9, 0.4), (2.0, 0.0), (0.5, 1.0)])
def test_the_identity_with_bm25_features_scores_by_bm25(seed, k1, b):
    data = collection(seed)
    features = f"text:words=none,weighting=bm25,k1={k1},b={b}"
    ranker = Ranker.from_recipe("bm25", features=features).fit(data)
    expected = literal_bm25(data.query_texts, data.document_texts, k1, b)
    np.testing.assert_allclose(matrix(ranker, data), expected, rtol=1e-6, atol=1e-6)


def test_bm25_ranks_and_scores_as_bm25s(seed):
    bm25s = pytest.importorskip("bm25s", reason="bm25s, the other implementation, is missing")
    data = collection(seed)
    ranker = Ranker.from_recipe("bm25", features="text:words=none,weighting=bm25").fit(data)
    peer = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    peer.index([words(text) for text in data.document_texts], show_progress=False)
    scores = matrix(ranker, data)
    for row, text in zip(scores, data.query_texts, strict=True):
        theirs = peer.get_scores(words(text))
        np.testing.assert_allclose(row, theirs, rtol=1e-5, atol=1e-5)
        # Equal scores may be in any order, so the scores along both rankings are compared.
        ours, others = np.argsort(-row, kind="stable"), np.argsort(-theirs, kind="stable")
        np.testing.assert_allclose(row[ours], row[others], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mu", [10.0, 2000.0])
def test_dirichlet_features_score_by_the_likelihood_of_the_query(seed, mu):
    data = collection(seed)
    features = f"text:words=none,weighting=lm-dirichlet,mu={mu}"
    ranker = Ranker.from_recipe("lm-dirichlet", features=features).fit(data)
    expected = literal_dirichlet(data.query_texts, data.document_texts, mu)
    np.testing.assert_allclose(matrix(ranker, data), expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("recipe", ["bm25", "lm-dirichlet"])
def test_a_saved_model_searches_as_before(recipe, seed, tmp_path):
    data = collection(seed)
    ranker = Ranker.from_recipe(recipe).fit(data)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    queries = ["shock wave", "drag drag body"]
    assert loaded.text_.get_params()["weighting"] == recipe
    assert list(loaded.search(queries, k=5)) == list(ranker.search(queries, k=5))
    assert np.array_equal(matrix(loaded, data), matrix(ranker, data))


def test_queries_have_counts_also_if_they_are_the_documents(seed):
    ids, texts = list(range(60)), collection(seed).document_texts
    data = TextCollection(
        ids, texts, ids, texts, np.eye(60, k=1) + np.eye(60, k=-1), queries_are_documents=True
    )
    ranker = Ranker.from_recipe("bm25", features="text:words=none,weighting=bm25").fit(data)
    left = ranker.text_.transform_queries(texts)
    assert left.sum() == sum(len(words(text)) for text in texts)
    ((_, ranked),) = ranker.search([texts[3]], k=60)
    expected = literal_bm25([texts[3]], texts, 1.2, 0.75)[0]
    results = dict(ranked)
    np.testing.assert_allclose([results[at] for at in range(60)], expected, rtol=1e-6, atol=1e-6)


def test_other_weightings_treat_queries_as_documents():
    features = TextFeatures(sublinear=True).fit(["a b", "b c c"])
    assert (features.transform(["c c b"]) != features.transform_queries(["c c b"])).nnz == 0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weighting": "bm25", "sublinear": True}, "leave sublinear and unit_length out"),
        ({"weighting": "lm-dirichlet", "unit_length": True}, "leave sublinear and unit_length out"),
        ({"weighting": "lm-dirichlet", "hashing": 8}, "take weighting=bm25"),
        ({"weighting": "bm25", "k1": 0.0}, "k1=0.0; it must be a finite number"),
        ({"weighting": "bm25", "b": 1.5}, "b=1.5; it must be a finite number in"),
        ({"weighting": "lm-dirichlet", "mu": math.inf}, "mu=inf; it must be"),
    ],
)
def test_what_makes_no_sense_is_refused(parameters, message):
    with pytest.raises(PartError, match=re.escape(message)):
        TextFeatures(**parameters)


def test_damaged_shares_are_refused():
    features = TextFeatures(weighting="lm-dirichlet").fit(["a b", "b c"])
    tensors = features.tensors()
    for wrong in (np.zeros(3), np.ones(4), np.full(3, np.nan)):
        with pytest.raises(ModelFileError, match="collection"):
            TextFeatures(weighting="lm-dirichlet").restore({**tensors, "collection": wrong})


def test_a_feature_per_document_starts_at_bm25_and_is_stored(seed, tmp_path):
    data = collection(seed)
    features = "text:words=none,weighting=bm25,document_ids=true"
    with pytest.raises(DataError, match="and there are none"):
        Ranker.from_recipe("bm25-warp", features=features).fit(data)
    parts = {"features": features, "model": "bilinear"}
    start = Ranker.from_recipe(
        "bm25-warp", **parts, solver="sgd:max_steps=0", parameter_search=None
    ).fit(data)
    expected = literal_bm25(data.query_texts, data.document_texts, 1.2, 0.75)
    np.testing.assert_allclose(matrix(start, data), expected, rtol=1e-6, atol=1e-6)
    ranker = Ranker.from_recipe("bm25-warp", **parts).fit(data)
    weights = ranker.model_.weights.toarray()
    n_terms = len(ranker.text_.feature_names)
    assert weights.shape == (n_terms, n_terms + data.n_documents)
    assert np.abs(weights[:, n_terms:]).max() > 0.0
    # By the formula: counts of the query, BM25 weights and the indicator of the document.
    left = ranker.text_.transform_queries(data.query_texts).toarray()
    right = ranker.text_.transform(data.document_texts).toarray()
    scores = left @ weights[:, :n_terms] @ right.T + left @ weights[:, n_terms:]
    np.testing.assert_allclose(matrix(ranker, data), scores, rtol=1e-4, atol=1e-4)
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    ((_, ranked),) = loaded.search([data.query_texts[0]], k=60)
    by_id = dict(ranked)
    column = [by_id[name] for name in data.document_ids.tolist()]
    np.testing.assert_allclose(column, scores[0], rtol=1e-4, atol=1e-4)
    document = data.document_ids[3].item()
    parts = loaded.explain(data.query_texts[0], document)
    assert sum(part.contribution for part in parts) == pytest.approx(
        scores[0, 3], rel=1e-3, abs=1e-4
    )
