"""Batches of pairs with responses, and of preferences, in an order that a seed fixes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.solver import TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TRIALS = 20
"""Samples until one is unobserved; after them an observed one is left out."""


class _Sampler:
    """The stored pairs, and random numbers by epoch."""

    def __init__(self, data: MatchingData, problem: TrainingProblem) -> None:
        if data.relevance is None:
            raise DataError(
                "minibatch needs clicks or grades, and these data are labelled by class; pass "
                "relevance."
            )
        stored = sparse.csr_array(data.relevance, dtype=np.float64)
        self.queries = np.repeat(np.arange(data.n_queries), np.diff(stored.indptr))
        self.documents = stored.indices.astype(np.int64)
        self.responses = np.maximum(stored.data, 0.0)
        if data.own_document is not None:
            others = self.documents != data.own_document[self.queries]
            self.queries, self.documents = self.queries[others], self.documents[others]
            self.responses = self.responses[others]
        if not (self.responses > 0.0).any():
            raise DataError("minibatch has nothing to learn from: no pair has clicks.")
        self.n_documents = data.n_documents
        self.keys = np.sort(self.queries * self.n_documents + self.documents)
        self.seed, self.random = problem.seed, problem.kernel.random

    def _stream(self, epoch: int) -> int:
        return int(self.random.bits(self.seed, 2**40 + epoch, 1)[0])

    def _order(self, stream: int, size: int) -> Ints:
        return np.argsort(self.random.bits(stream, 0, size), kind="stable")

    def _unobserved(self, stream: int, queries: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """Return a document for each query, and whether it is unobserved."""
        negatives = np.zeros(queries.size, np.int64)
        left = np.arange(queries.size)
        for trial in range(TRIALS):
            first = (1 + trial) * queries.size
            sampled = self.random.below(stream, first, queries.size, self.n_documents)[left]
            keys = queries[left] * self.n_documents + sampled
            at = np.searchsorted(self.keys, keys).clip(max=self.keys.size - 1)
            good = self.keys[at] != keys
            negatives[left[good]] = sampled[good]
            left = left[~good]
            if not left.size:
                break
        known = np.ones(queries.size, np.bool_)
        known[left] = False
        return negatives, known


class PairSampler(_Sampler):
    """Observed pairs, each with unobserved ones of response 0."""

    def __init__(self, data: MatchingData, n_negatives: int, problem: TrainingProblem) -> None:
        super().__init__(data, problem)
        self.n_negatives = n_negatives

    def batches(self, epoch: int, size: int) -> Iterator[tuple[Ints, Ints, Floats]]:
        """Yield queries, documents and responses; epoch 0 is the sample for evaluation."""
        stream = self._stream(epoch)
        queries = np.tile(self.queries, 1 + self.n_negatives)
        documents, responses = self.documents, self.responses
        valid = np.ones(queries.size, np.bool_)
        if self.n_negatives:
            sampled, unobserved = self._unobserved(stream, queries[self.queries.size :])
            documents = np.concatenate((documents, sampled))
            responses = np.concatenate((responses, np.zeros(sampled.size)))
            valid[self.queries.size :] = unobserved
        order = self._order(stream, queries.size)
        order = order[valid[order]]
        for at in range(0, order.size, size):
            part = order[at : at + size]
            yield queries[part], documents[part], responses[part]


class PreferenceSampler(_Sampler):
    """Clicked documents, each with one that is less preferred for the same query."""

    def __init__(self, data: MatchingData, preferences: str, problem: TrainingProblem) -> None:
        super().__init__(data, problem)
        order = np.lexsort((self.responses, self.queries))
        self.sorted_documents = self.documents[order]
        starts = np.searchsorted(self.queries[order], np.arange(data.n_queries))
        # How many of the documents shown for the query have fewer clicks.
        sorted_queries, sorted_values = self.queries[order], self.responses[order]
        changes = np.ones(order.size, np.bool_)
        changes[1:] = (np.diff(sorted_queries) != 0) | (np.diff(sorted_values) != 0)
        runs = np.maximum.accumulate(np.where(changes, np.arange(order.size), 0))
        lower = runs - starts[sorted_queries]
        clicked = sorted_values > 0.0
        self.first = starts[sorted_queries][clicked]
        self.lower, self.clicked = lower[clicked], order[clicked]
        if preferences == "unobserved":
            self.lower = np.zeros_like(self.lower)
        elif preferences == "shown":
            some = self.lower > 0
            if not some.any():
                raise DataError(
                    "no query has shown documents with different clicks, so there are no "
                    "preferences; use preferences=unobserved."
                )
            self.first, self.lower = self.first[some], self.lower[some]
            self.clicked = self.clicked[some]

    def batches(self, epoch: int, size: int) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield queries, preferred and less preferred documents; epoch 0 is for evaluation."""
        stream = self._stream(epoch)
        queries, preferred = self.queries[self.clicked], self.documents[self.clicked]
        other, valid = self._unobserved(stream, queries)
        uniform = self.random.uniform(stream, (1 + TRIALS) * queries.size, queries.size)
        shown = self.lower > 0
        places = self.first + np.floor(uniform * self.lower).astype(np.int64)
        places = np.minimum(places, self.sorted_documents.size - 1)
        other = np.where(shown, self.sorted_documents[places], other)
        valid |= shown
        order = self._order(stream, queries.size)
        order = order[valid[order]]
        for at in range(0, order.size, size):
            part = order[at : at + size]
            yield queries[part], preferred[part], other[part]
