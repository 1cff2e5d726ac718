"""Lists of documents that a stage of a cascade passes on to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ranking.contracts.model import MatchingModel
from ranking.kernels.contract import Floats, Ints

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

BLOCK = 1024
"""Queries whose lists are computed in one kernel call."""

MAX_SCORES = 1 << 21
"""Scores that are held in memory at a time."""


def best_lists(
    model: MatchingModel, data: MatchingData, k: int, kernel: Kernel, threads: int = 1
) -> Ints:
    """Return the k best documents of each query as one row per query, padded with -1.

    Equal scores are ordered by document id; a query that is a document is not in its own list.
    """
    order = np.argsort(data.document_ids, kind="stable")
    lists = np.full((data.n_queries, min(k, data.n_documents)), -1)
    embedding = model.embedding(data, kernel, threads)
    if embedding is None:
        size = max(MAX_SCORES // data.n_documents, 1)
        scorer = model.scorer(data, kernel, threads)
        for start in range(0, data.n_queries, size):
            queries = np.arange(start, min(start + size, data.n_queries))
            scores = scorer(queries)
            if data.own_document is not None:
                own = np.flatnonzero(data.own_document[queries] >= 0)
                scores[own, data.own_document[queries[own]]] = np.nan
            lists[queries] = _sort_scores(scores[:, order], order, lists.shape[1])
        return lists
    documents = np.ascontiguousarray(embedding.documents[order])
    biases = embedding.biases[order] if embedding.biases.size else embedding.biases
    position = np.empty(order.size, np.int64)
    position[order] = np.arange(order.size)
    for start in range(0, data.n_queries, BLOCK):
        queries = np.arange(start, min(start + BLOCK, data.n_queries))
        rows = np.ascontiguousarray(embedding.queries[queries])
        itself = _itself(data, queries, position)
        best, _ = kernel.factored.top_k(rows, documents, biases, lists.shape[1], itself, threads)
        lists[queries] = np.where(best >= 0, order[best], -1)
    return lists


def _itself(data: MatchingData, queries: Ints, position: Ints) -> tuple[Ints, Ints]:
    """Return for each query the document that it is itself, as rows of a CSR matrix."""
    itself = np.full(queries.size, -1) if data.own_document is None else data.own_document[queries]
    pointers = np.concatenate(([0], np.cumsum(itself >= 0)))
    return pointers, position[itself[itself >= 0]]


def _sort_scores(scores: Floats, order: Ints, k: int) -> Ints:
    """Return the k best columns of each row, as documents; a score that is NaN is left out."""
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    excluded = np.isnan(np.take_along_axis(scores, best, axis=1))
    documents: Ints = np.where(excluded, -1, order[best])
    return documents
