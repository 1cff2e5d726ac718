"""The reproduction of text retrieval: what is held out, and what validation chooses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import TextCollection
from ranking_plugins.reproductions import Options, text_retrieval
from ranking_plugins.reproductions.text_retrieval import (
    SIMILARITIES,
    HeldOut,
    choose,
    has_seen,
    hold_out,
)

QUIET = Options(Path(), quick=True, kernel="auto", threads=1, seed=0, tell=lambda _: None)


@pytest.fixture
def claims(seed) -> TextCollection:
    """Return pairs of similar queries for each of 30 documents, which share no word with them."""
    rng = np.random.default_rng(seed)
    words = [f"w{at}" for at in range(200)]
    queries, columns = [], []
    for document in range(30):
        shared = list(rng.choice(words, 6, replace=False))
        for _ in range(2):
            queries.append(" ".join([*shared, *rng.choice(words, 1)]))
            columns.append(document)
    texts = [" ".join(rng.choice(words, 12)) for _ in range(30)]
    ones = (np.ones(60), (np.arange(60), columns))
    relevance = sp.coo_array(ones, shape=(60, 30)).tocsr()
    return TextCollection(np.arange(60), queries, np.arange(30), texts, relevance)


def test_each_query_is_isolated_in_one_fold(claims):
    parts = hold_out(claims)
    isolated = []
    for part in parts:
        assert not set(part.fit.query_ids.tolist()) & set(part.valid.query_ids.tolist())
        known = set(part.fit.relevance.indices.tolist())
        relevance = part.valid.relevance
        for at, marked in enumerate(part.isolated.tolist()):
            documents = relevance.indices[slice(*relevance.indptr[at : at + 2])].tolist()
            assert marked == (not set(documents) & known)
        # The isolated ones, which are pairs, come first; then a fifth of the others.
        sizes = {n + (60 - n) // 5: n for n in range(0, 60, 2)}
        n_isolated = sizes[part.valid.n_queries]
        isolated += part.valid.query_ids[:n_isolated].tolist()
        assert part.isolated[:n_isolated].all()
    assert sorted(isolated) == list(range(60))


def test_similar_queries_are_learnt_from_and_others_are_ranked_by_bm25(claims):
    seen = np.arange(0, 60, 2)
    fit, valid = claims.select(seen), claims.select(seen + 1)
    part = HeldOut(fit, valid, ~has_seen(valid, fit))
    assert not part.isolated.any()
    setting = choose([part], 2000, QUIET)
    assert setting.similarity in SIMILARITIES
    ranker, _ = text_retrieval.train_from_bm25(
        text_retrieval.OF_PHRASES._replace(rate=setting.rate, features=setting.features()),
        fit,
        2000,
        QUIET,
    )
    bm25 = text_retrieval.measure(text_retrieval._untrained("bm25", fit, QUIET), valid, QUIET)
    assert text_retrieval.measure(ranker, valid, QUIET).mean() > bm25.mean() + 0.2


def test_a_setting_below_bm25_on_isolated_queries_is_not_chosen(claims, monkeypatch):
    part = hold_out(claims)[0]
    bm25 = text_retrieval.measure(
        text_retrieval._untrained("bm25", part.fit, QUIET), part.valid, QUIET
    )
    assert part.isolated.any()
    assert not part.isolated.all()
    better = np.where(part.isolated, bm25, 1.0)
    by_similarity = {
        one: better - (0.01 * part.isolated if one < 0.4 else 0.0) for one in SIMILARITIES
    }
    monkeypatch.setattr(text_retrieval, "_by_similarity", lambda *_: by_similarity)
    assert choose([part], 0, QUIET).similarity == 0.4
    lower = dict.fromkeys(SIMILARITIES, better - 0.01 * part.isolated)
    monkeypatch.setattr(text_retrieval, "_by_similarity", lambda *_: lower)
    assert choose([part], 0, QUIET).similarity is None
