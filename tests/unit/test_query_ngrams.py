"""Phrases of queries: features of queries only, weights that training may change, files."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from ranking import MatchingData, Ranker, TextCollection, TextFeatures
from ranking.data.text import query_ngrams
from ranking.data.triplets import positive_lists
from ranking.errors import CombinationError, DataWarning, ModelFileError, PartError
from ranking.io.exports.content import term_weights
from ranking.models.combination import Combination

DOCUMENTS = ["shock wave of a wing", "heat flow in a layer", "drag of a body", "lift of the wing"]
QUERIES = ["the shock wave", "heat of the layer", "wing lift"]


@pytest.fixture
def texts() -> TextCollection:
    return TextCollection(["a", "b", "c"], QUERIES, list("wxyz"), DOCUMENTS, np.eye(3, 4))


def test_queries_have_their_ngrams_with_stop_words():
    features = TextFeatures(stop_words="english", weighting="bm25", query_ngrams=2)
    features.fit(DOCUMENTS).fit_queries(QUERIES)
    names = features.query_feature_names[features.n_features :]
    assert names == [
        "query:heat of",
        "query:of the",
        "query:shock wave",
        "query:the layer",
        "query:the shock",
        "query:wing lift",
    ]
    row = features.transform_queries(["shock wave, shock wave of the wave"]).toarray()[0]
    assert row[features.n_features :].tolist() == [0.0, 1.0, 2.0, 0.0, 0.0, 0.0]
    assert features.transform(DOCUMENTS).shape == (4, features.n_features)
    again = TextFeatures.from_spec(features.spec())
    again.restore(features.tensors())
    assert again.query_feature_names == features.query_feature_names
    with pytest.raises(ModelFileError, match="query_word_offsets"):
        again.restore({k: v for k, v in features.tensors().items() if k != "query_word_offsets"})


def _cosines(texts, training, ngrams):
    """Return the cosines of texts and training queries by scikit-learn."""
    counter = CountVectorizer(token_pattern=r"[^\W_]+", ngram_range=(1, ngrams), binary=True)
    counts = counter.fit([*training, *texts]).transform(training)
    # Terms that no training query has get the idf of a document frequency of 0.
    tfidf = TfidfTransformer().fit(counts)
    both = [tfidf.transform(counter.transform(side)) for side in (texts, training)]
    return (both[0] @ both[1].T).toarray()


@pytest.mark.parametrize("ngrams", [1, 2, "1-2"])
@pytest.mark.parametrize("least", [0.4, 0.6, 1.0])
def test_queries_have_the_ngrams_of_similar_training_queries(ngrams, least, seed, monkeypatch):
    monkeypatch.setattr(query_ngrams, "PAIRS_AT_A_TIME", 1000)
    rng = np.random.default_rng(seed)
    words = [f"w{at}" for at in range(20)]
    texts = [" ".join(rng.choice(words, rng.integers(1, 8))) for _ in range(330)]
    training = texts[:30]
    longest = max(training, key=len)
    others = [*texts[30:], "w1 unknown w2", "", f"{texts[0]} {texts[1]} else", longest]
    whole = TextFeatures(weighting="bm25", query_ngrams=ngrams)
    near = TextFeatures(weighting="bm25", query_ngrams=ngrams, query_similarity=least)
    for features in (whole, near):
        features.fit(texts).fit_queries(training)
    assert near.query_feature_names == whole.query_feature_names
    terms = whole.n_features
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        sides = [whole.transform_queries(side)[:, terms:].toarray() for side in (others, training)]
        rows = near.transform_queries(others)[:, terms:].toarray()
        again = near.transform_queries(training)[:, terms:].toarray()
    cosines = _cosines(others, training, int(str(ngrams)[-1]))
    shared = (cosines >= least - 1e-12).astype(float) @ (sides[1] > 0) > 0
    assert 0 < (rows > 0).sum() < (sides[0] > 0).sum()
    np.testing.assert_array_equal(rows, np.where(shared, sides[0], 0.0))
    np.testing.assert_array_equal(again, sides[1])


def test_similar_training_queries_are_saved():
    features = TextFeatures(weighting="bm25", query_ngrams=2, query_similarity=0.4)
    features.fit(DOCUMENTS).fit_queries(QUERIES)
    tensors = features.tensors()
    again = TextFeatures.from_spec(features.spec())
    again.restore(tensors)
    queries = ["the shock", "the shock wave of a body", "heat of the wing"]
    expected = features.transform_queries(queries)
    assert expected[:, features.n_features :].nnz
    assert (again.transform_queries(queries) != expected).nnz == 0
    rows = tensors["training_query_indptr"], tensors["training_query_indices"]
    for name, array, match in (
        ("training_query_indptr", rows[0].astype(np.int32), "vector of int64"),
        ("training_query_indptr", rows[0] + 1, "from 0 to the"),
        ("training_query_indptr", rows[0][[0, 2, 1, 3]], "never decrease"),
        ("training_query_indices", rows[1] - 1, "from 0 to"),
        ("training_query_indices", rows[1] + 1, "from 0 to"),
        ("training_query_indices", rows[1][::-1].copy(), "increase within"),
    ):
        with pytest.raises(ModelFileError, match=match):
            again.restore({**tensors, name: array})
    missing = {name: value for name, value in tensors.items() if "indptr" not in name}
    with pytest.raises(ModelFileError, match="need `training_query_indptr`"):
        again.restore(missing)


def test_a_query_without_similar_training_query_has_the_scores_of_bm25(texts):
    ranker = Ranker.from_recipe(
        "bm25-warp",
        features="text:words=none,weighting=bm25,document_ids=true,query_ngrams=2,"
        "query_similarity=0.6",
        solver="sgd:max_steps=300,learning_rate=0.5",
    ).fit(texts)
    bm25 = Ranker.from_recipe("bm25", features="text:words=none,weighting=bm25").fit(texts)
    for query, same in (("shock wave drag", True), ("the shock wave", False)):
        scores, plain = (dict(each.search([query], k=4)[query]) for each in (ranker, bm25))
        assert (scores == pytest.approx(plain)) is same


def test_only_unshared_entries_of_w_change(texts):
    ranker = Ranker.from_recipe("bm25-warp", solver="sgd:max_steps=300,learning_rate=0.5")
    ranker.fit(texts)
    model, text = ranker.model_, ranker.text_
    words = text.n_features
    W = model.weights.toarray()
    assert np.array_equal(W[:words, :words], np.eye(words))
    assert not W[:words, words:].any()
    assert not W[words:, :words].any()
    assert W[words:, words:].any()
    phrase = ranker.related_features("query:wing lift", k=1)[0]
    assert (phrase.feature, phrase.weight > 0) == ("document:y", True)
    bm25 = Ranker.from_recipe("bm25").fit(texts)
    # A query that repeats no phrase of the training queries has the scores of BM25.
    results = ranker.search(["drag body"], k=4)["drag body"]
    assert [score for _, score in results] == pytest.approx(
        [score for _, score in bm25.search(["drag body"], k=4)["drag body"]]
    )


@pytest.mark.parametrize("loss", ["hinge", "warp"])
def test_steps_are_those_of_a_loop(loss, seed):
    """Each batch of 64 steps adds slopes times features, at the weights of its start."""
    rng = np.random.default_rng(seed)
    names = ["a", "b", "p", "q"], ["a", "b", "x", "y", "z"]
    data = MatchingData(
        rng.random((5, 4)),
        rng.random((6, 5)),
        sp.csr_array((rng.random((5, 6)) < 0.4).astype(float)),
        query_feature_ids=names[0],
        document_feature_ids=names[1],
    )
    solver = "sgd:max_steps=40,learning_rate=0.3,schedule=constant"
    whole = Ranker("bilinear:trainable=unshared,dtype=float64", loss, "none", solver)
    ranker = whole.fit(data)
    kernel = ranker.kernel_
    trials = 1 if loss == "hinge" else ranker.loss_.trials
    triplets = kernel.sampling.sample_triplets(positive_lists(data), 0, 0, 40, trials, 1)
    Q, D = data.query_rows.toarray(), data.document_rows.toarray()
    W = np.zeros((4, 5))
    W[0, 0] = W[1, 1] = 1.0
    Qm, Dm = Q * [0, 0, 1, 1], D * [0, 0, 1, 1, 1]
    change = np.zeros_like(W)
    scores = Q @ W @ D.T
    for query, positive, *negatives in triplets.tolist():
        for trial, negative in enumerate(negatives, start=1):
            if scores[query, positive] - scores[query, negative] < 1.0:
                rank = (data.n_documents - 1) // trial
                weight = 1.0 if loss == "hinge" else float(ranker.loss_.rank_weight(np.array(rank)))
                change += 0.3 * weight * np.outer(Qm[query], Dm[positive] - Dm[negative])
                break
    np.testing.assert_allclose(ranker.model_.weights.toarray(), W + change, rtol=1e-9, atol=1e-12)


def test_what_would_change_the_kept_entries_is_refused(texts):
    for regularizer, solver, match in (
        ("l1:strength=0.1", "sgd", "would shrink"),
        ("none", "sgd:mode=hogwild", "deterministic"),
        ("none", "passive-aggressive", "changes all entries"),
    ):
        with pytest.raises(CombinationError, match=match):
            Ranker("bilinear:trainable=unshared", "hinge", regularizer, solver).fit(texts)
    with pytest.raises(CombinationError, match="listwise"):
        Ranker("bilinear:trainable=unshared", "domination", "none", "sgd").fit(texts)


def test_combinations_and_exports_refuse_ngrams_of_queries(texts):
    phrases = Ranker.from_recipe("bm25-warp", solver="sgd:max_steps=10").fit(texts)
    with pytest.raises(PartError, match="leave query_ngrams out"):
        Combination([phrases])
    extras = SimpleNamespace(text=phrases.text_, documents=phrases.documents_)
    source: Any = SimpleNamespace(model=phrases.model_, extras=extras)
    with pytest.raises(CombinationError, match="document_ids and query_ngrams"):
        term_weights(source)
