"""Top-k retrieval: the best documents of each query, computed block by block."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Embedding, MatchingModel
from ranking.data.exclusions import Ints, Pairs, exclude_itself, exclusions_at
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import query_blocks

BLOCK = 1024
"""Queries whose top k are computed in one kernel call."""


class TopK(NamedTuple):
    """The best documents of one query: positions and scores, best first."""

    query: int
    documents: Ints
    scores: NDArray[np.float64]


class Retriever:
    """Rank the documents of a data set for any of its queries.

    Equal scores are ordered by document id. A query that is also a document is excluded from its
    own list. Embeddings, or whatever the model shares between queries, are computed once, when the
    first list is requested.

    Parameters
    ----------
    k : int or None
        The length of a list; None for all documents.
    exclusions : pair of int64 arrays, optional
        Documents to leave out for each query, as in `ranking.data.exclusions`.
    candidates : int64 array, optional
        Positions of the documents to rank; by default all.
    """

    def __init__(
        self,
        model: MatchingModel,
        data: MatchingData,
        k: int | None,
        kernel: Kernel,
        threads: int = 1,
        *,
        exclusions: Pairs | None = None,
        candidates: Ints | None = None,
    ) -> None:
        self.model, self.data, self.k = model, data, k
        self.kernel, self.threads = kernel, threads
        self.exclusions = exclude_itself(data, exclusions)
        self.candidates = candidates

    @functools.cached_property
    def _embedding(self) -> Embedding | None:
        return (
            None if self.k is None else self.model.embedding(self.data, self.kernel, self.threads)
        )

    @functools.cached_property
    def _scorer(self) -> Callable[[Ints], NDArray[np.float64]]:
        return self.model.scorer(self.data, self.kernel, self.threads)

    def __call__(self, queries: Ints | None = None) -> Iterator[TopK]:
        """Yield the lists of some queries, given by position; by default of all."""
        if self.k is not None and self._embedding is not None:
            return top_k_by_embeddings(
                self._embedding,
                self.data.document_ids,
                self.k,
                self.kernel,
                self.threads,
                self.exclusions,
                self.candidates,
                queries,
            )
        return self._by_scores(queries)

    def _by_scores(self, queries: Ints | None) -> Iterator[TopK]:
        """Sort the scores of one query after the other."""
        order, position = order_by_id(self.data.document_ids, self.candidates)
        pointers, excluded = self.exclusions
        for block in query_blocks(self.data):
            positions = block
            if queries is not None:
                positions, queries = queries[: block.size], queries[block.size :]
                if not positions.size:
                    return
            for query, row in zip(positions.tolist(), self._scorer(positions), strict=True):
                scores = row[order]
                allowed = np.ones(order.size, np.bool_)
                left_out = position[excluded[pointers[query] : pointers[query + 1]]]
                allowed[left_out[left_out >= 0]] = False
                best = _candidates_for(scores, self.k, np.flatnonzero(allowed))
                ranked = best[np.lexsort((best, -scores[best]))][: self.k]
                yield TopK(query, order[ranked], scores[ranked])


def top_k(
    model: MatchingModel,
    data: MatchingData,
    k: int | None,
    kernel: Kernel,
    threads: int = 1,
    *,
    exclusions: Pairs | None = None,
    candidates: Ints | None = None,
) -> Iterator[TopK]:
    """Yield the k best documents of each query; the parameters are those of `Retriever`."""
    return Retriever(
        model, data, k, kernel, threads, exclusions=exclusions, candidates=candidates
    )()


def top_k_by_embeddings(
    embedding: Embedding,
    ids: NDArray[np.generic],
    k: int,
    kernel: Kernel,
    threads: int = 1,
    exclusions: Pairs | None = None,
    candidates: Ints | None = None,
    queries: Ints | None = None,
) -> Iterator[TopK]:
    """Yield the k documents with the largest inner product for each query, equal ones by id.

    Parameters
    ----------
    ids : array
        The ids of the documents.
    queries : int64 array, optional
        Positions of the queries to answer; by default all.
    """
    order, position = order_by_id(ids, candidates)
    documents = np.ascontiguousarray(embedding.documents[order])
    biases = embedding.biases[order] if embedding.biases.size else embedding.biases
    selection = np.arange(embedding.queries.shape[0]) if queries is None else queries
    for start in range(0, selection.size, BLOCK):
        block = selection[start : start + BLOCK]
        rows = np.ascontiguousarray(embedding.queries[block])
        left_out = None if exclusions is None else exclusions_at(exclusions, block, position)
        best, scores = kernel.factored.top_k(rows, documents, biases, k, left_out, threads)
        for query, ranked, values in zip(block.tolist(), best, scores, strict=True):
            filled = ranked >= 0
            yield TopK(query, order[ranked[filled]], values[filled].astype(np.float64))


def similar(
    embeddings: NDArray[np.float32],
    ids: NDArray[np.generic],
    k: int,
    kernel: Kernel,
    threads: int = 1,
    queries: Ints | None = None,
) -> Iterator[TopK]:
    """Yield the k rows whose embeddings have the largest cosine with each row, itself excluded."""
    norms = np.linalg.norm(embeddings, axis=1, keepdims=True)
    units = (embeddings / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)
    itself = np.arange(ids.size + 1)
    both = Embedding(units, units, np.zeros(0, np.float32))
    return top_k_by_embeddings(
        both, ids, k, kernel, threads, (itself, itself[:-1]), queries=queries
    )


def order_by_id(ids: NDArray[np.generic], candidates: Ints | None) -> tuple[Ints, Ints]:
    """Return the candidates ordered by id, and the position of each document in them, or -1.

    Equal scores are then ordered by that position.
    """
    order = np.argsort(ids, kind="stable")
    if candidates is not None:
        order = order[np.isin(order, candidates)]
    if not order.size:
        raise DataError("there is no candidate among the documents; give some of their ids.")
    position = np.full(ids.size, -1)
    position[order] = np.arange(order.size)
    return order, position


def _candidates_for(scores: NDArray[np.float64], k: int | None, allowed: Ints) -> Ints:
    """Return the allowed documents that score at least as high as the k-th best, unordered."""
    if k is None or k >= allowed.size:
        return allowed
    values = scores[allowed]
    best: Ints = allowed[values >= np.partition(values, -k)[-k]]
    return best
