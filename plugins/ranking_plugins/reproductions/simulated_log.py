"""A click log that is simulated from a collection with judgements.

The search engine is BM25 and shows ten documents for each query. A query is asked N times, with
log10(N) uniform between 1 and 4, times the number of weeks. A user looks at position i with
probability 1 / i, and clicks on what he looks at with probability 0.05 + 0.9 (2^g - 1) / (2^G - 1),
where g is the grade and G the highest one. The number of clicks is a Poisson number of that mean.
Documents that are shown and not clicked are stored with 0 clicks.

The judged documents of a query, which are re-ranked, are the 20 best of BM25; queries without a
relevant one among them are left out. So a document's score by BM25 tells nothing about its being
judged.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking import Ranker
from ranking.data.click_preferences import skip_above
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.text.features import TextFeatures
from ranking.data.text_collection import TextCollection
from ranking.kernels.select import get_kernel
from ranking.metrics.evaluation import evaluate
from ranking.metrics.parse import parse_metric

Floats = NDArray[np.float64]

SHOWN, JUDGED = 10, 20
WORDS = "text:words=20000,stop_words=english"
METRICS = ("ndcg@1", "ndcg@3", "ndcg@5")
BINS = (10, 100, 1000)
"""Edges of the bins of total clicks (section 6.5.2)."""


class Log:
    """Queries, documents, clicks and judged documents.

    Parameters
    ----------
    texts : TextCollection
    seed : int
        Of the clicks, and of the halves for validation and for the test.
    weeks : int
        How long clicks are collected.
    """

    def __init__(self, texts: TextCollection, seed: int, weeks: int) -> None:
        self.seed, self.weeks = seed, weeks
        scores = Ranker.from_recipe("bm25").fit(texts).predict(texts)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :JUDGED]
        grades = np.maximum(texts.relevance.toarray(), 0.0)
        with_relevant = np.flatnonzero(
            (np.take_along_axis(grades, order, axis=1) > 0.0).any(axis=1)
        )
        self.texts, self.bm25, self.order = (
            texts.select(with_relevant),
            scores[with_relevant],
            order[with_relevant],
        )
        grades = grades[with_relevant]
        # In the order of the documents, so that ties are not broken by BM25.
        self.pool = np.sort(self.order, axis=1)
        self.grades: Floats = np.take_along_axis(grades, self.pool, axis=1)
        self._simulate(grades)
        order = np.random.default_rng(seed + 1).permutation(self.n_queries)
        self.valid, self.test = np.sort(order[::2]), np.sort(order[1::2])

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return int(self.texts.n_queries)

    def _simulate(self, grades: Floats) -> None:
        rng = np.random.default_rng(self.seed)
        shown = self.order[:, :SHOWN]
        frequencies = 10.0 ** rng.uniform(1.0, 4.0, self.n_queries) * self.weeks / 10.0
        gains = 2.0 ** np.take_along_axis(grades, shown, axis=1) - 1.0
        attraction = 0.05 + 0.9 * gains / (2.0 ** max(grades.max(), 1.0) - 1.0)
        positions = np.arange(1, SHOWN + 1)
        clicks = rng.poisson(frequencies[:, None] * attraction / positions).astype(np.float64)
        self.total_clicks = clicks.sum(axis=1)
        rows = np.repeat(np.arange(self.n_queries), SHOWN)
        columns = np.argsort(shown, axis=1)
        pointers = np.arange(0, rows.size + 1, SHOWN)

        def matrix(values: Any) -> sparse.csr_array:
            ordered = np.take_along_axis(values, columns, axis=1).ravel()
            indices = np.take_along_axis(shown, columns, axis=1).ravel()
            return sparse.csr_array((ordered, indices, pointers), shape=grades.shape)

        self.clicks = matrix(clicks)
        self.positions = matrix(np.broadcast_to(positions, clicks.shape).astype(np.float64))

    @cached_property
    def words(self) -> MatchingData:
        """Clicks, with tf-idf of words on both sides."""
        return self._described("sublinear=true", self.clicks)

    @cached_property
    def full(self) -> MatchingData:
        """Clicks, with words and clicks as features of both sides."""
        return self.words.with_clicks()

    @cached_property
    def preferences(self) -> MatchingData:
        """Words and clicks as features, and clicks down to the lowest clicked document."""
        return self.full._replace(relevance=skip_above(self.clicks, self.positions))

    @cached_property
    def counts(self) -> MatchingData:
        """Clicks, with counts of words on both sides."""
        return self._described("weighting=counts", self.clicks)

    @property
    def ids(self) -> MatchingData:
        """Clicks between queries and documents without features."""
        clicked = sparse.csr_array(self.clicks, copy=True)
        clicked.eliminate_zeros()
        return MatchingData(None, None, clicked)

    def _described(self, weighting: str, relevance: Any) -> MatchingData:
        features = TextFeatures.from_spec(f"{WORDS},{weighting}")
        documents = features.fit_transform(self.texts.document_texts)
        names = np.array(features.feature_names)
        return MatchingData(
            features.transform(self.texts.query_texts),
            documents,
            relevance,
            query_feature_ids=names,
            document_feature_ids=names,
        )

    def judged_scores(self, scores: Floats) -> Floats:
        """Return the scores of the judged documents, one row per query."""
        return np.take_along_axis(scores, self.pool, axis=1)

    def values(self, scores: Floats) -> Floats:
        """Return the metrics of each query (columns) of scores of its judged documents."""
        rows = np.repeat(np.arange(self.n_queries), JUDGED)
        features = np.zeros((rows.size, 1), np.float32)
        lists = JudgedLists(features, self.grades.ravel(), rows)
        metrics = [parse_metric(name) for name in METRICS]
        results = evaluate(metrics, lists, scores.ravel(), get_kernel("auto"))
        return np.column_stack([results[metric.spelled()] for metric in metrics])

    def statistics(self) -> dict[str, float]:
        """Return the quantities of table 1."""
        data = self.full
        queries, documents = data.query_rows, data.document_rows
        clicked = self.ids.relevance

        def mean(values: Any) -> float:
            return float(values[values > 0].mean())

        return {
            "d_x": float(queries.shape[1]),
            "d_y": float(documents.shape[1]),
            "c_x": queries.nnz / queries.shape[0],
            "c_y": documents.nnz / documents.shape[0],
            "n_y": mean(np.diff(clicked.indptr)),
            "n_x": mean(np.bincount(clicked.indices)),
            "N_x": queries.nnz / queries.shape[1],
            "N_y": documents.nnz / documents.shape[1],
        }

    def bins(self) -> dict[str, NDArray[np.bool_]]:
        """Return which queries are in each bin of total clicks."""
        total = self.total_clicks
        ends = (-1.0, *BINS, np.inf)
        names = ("clicks <= 10", "10 < clicks <= 100", "100 < clicks <= 1000", "clicks > 1000")
        return {
            name: (total > low) & (total <= high)
            for name, low, high in zip(names, ends, ends[1:], strict=False)
        }
