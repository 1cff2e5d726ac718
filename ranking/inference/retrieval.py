"""The best documents of each query, without ever holding the scores of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Embedding, MatchingModel
from ranking.data.exclusions import Ints, Pairs, pattern
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import query_blocks

BLOCK = 1024
"""Queries whose best are found in one call of a kernel."""


class Top(NamedTuple):
    """The best documents of one query: positions and scores, best first."""

    query: int
    documents: Ints
    scores: NDArray[np.float64]


def top(
    model: MatchingModel,
    data: MatchingData,
    k: int | None,
    kernel: Kernel,
    threads: int = 1,
    *,
    barred: Pairs | None = None,
    candidates: Ints | None = None,
) -> Iterator[Top]:
    """Yield the k best documents of each query, or all; equal scores by document id.

    A query that is a document too is not among its own.

    Parameters
    ----------
    barred : pair of int64 arrays, optional
        What a query is not to have.
    candidates : int64 array, optional
        The documents that are ranked; by default all.
    """
    without = _without_itself(data, barred)
    vectors = None if k is None else model.embedding(data, kernel, threads)
    if k is not None and vectors is not None:
        ids = data.document_ids
        return by_vectors(vectors, ids, k, kernel, threads, without, candidates)
    order, place = _in_order(data.document_ids, candidates)
    return _by_scores(model, data, k, order, place, without, kernel, threads)


def by_vectors(
    vectors: Embedding,
    ids: NDArray[np.generic],
    k: int,
    kernel: Kernel,
    threads: int = 1,
    barred: Pairs | None = None,
    candidates: Ints | None = None,
) -> Iterator[Top]:
    """Yield the k documents with the largest dot product for each query, equal ones by id."""
    order, place = _in_order(ids, candidates)
    documents = np.ascontiguousarray(vectors.documents[order])
    biases = vectors.biases[order] if vectors.biases.size else vectors.biases
    for start in range(0, vectors.queries.shape[0], BLOCK):
        queries = np.ascontiguousarray(vectors.queries[start : start + BLOCK])
        stop = start + queries.shape[0]
        without = None if barred is None else _moved(barred, start, stop, place)
        found, scores = kernel.factored.top_k(queries, documents, biases, k, without, threads)
        for query, chosen, best in zip(range(start, stop), found, scores, strict=True):
            kept = chosen >= 0
            yield Top(query, order[chosen[kept]], best[kept].astype(np.float64))


def _in_order(ids: NDArray[np.generic], candidates: Ints | None) -> tuple[Ints, Ints]:
    """Return candidates in the order of their ids, and the place of each document, or -1.

    Equal scores are then in the order of places.
    """
    order = np.argsort(ids, kind="stable")
    if candidates is not None:
        order = order[np.isin(order, candidates)]
    if not order.size:
        raise DataError("there is no candidate among the documents; give some of their ids.")
    place = np.full(ids.size, -1)
    place[order] = np.arange(order.size)
    return order, place


def best_lists(
    model: MatchingModel, data: MatchingData, k: int, kernel: Kernel, threads: int = 1
) -> Ints:
    """Return the k best documents of each query, a row a query; -1 where there are fewer."""
    lists = np.full((data.n_queries, min(k, data.n_documents)), -1)
    for found in top(model, data, k, kernel, threads):
        lists[found.query, : found.documents.size] = found.documents
    return lists


def similar(
    vectors: NDArray[np.float32], ids: NDArray[np.generic], k: int, kernel: Kernel, threads: int = 1
) -> Iterator[Top]:
    """Yield the k objects whose vectors have the largest cosine with each, itself left out."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = (vectors / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)
    itself = np.arange(ids.size + 1)
    alike = Embedding(units, units, np.zeros(0, np.float32))
    return by_vectors(alike, ids, k, kernel, threads, (itself, itself[:-1]))


def _without_itself(data: MatchingData, barred: Pairs | None) -> Pairs:
    """Return what is barred, and for a query that is a document, itself."""
    pointers, documents = (
        (np.zeros(data.n_queries + 1, np.int64), np.zeros(0, np.int64))
        if barred is None
        else barred
    )
    if data.own_document is None:
        return pointers, documents
    rows = np.repeat(np.arange(data.n_queries), np.diff(pointers))
    own = np.flatnonzero(data.own_document >= 0)
    return pattern(
        np.concatenate((rows, own)),
        np.concatenate((documents, data.own_document[own])),
        data.n_queries,
    )


def _moved(barred: Pairs, start: int, stop: int, place: Ints) -> Pairs:
    """Return what some queries are not to have, by places of the documents."""
    pointers, documents = barred
    rows = np.repeat(np.arange(stop - start), np.diff(pointers[start : stop + 1]))
    places = place[documents[pointers[start] : pointers[stop]]]
    return pattern(rows[places >= 0], places[places >= 0], stop - start)


def _by_scores(
    model: MatchingModel,
    data: MatchingData,
    k: int | None,
    order: Ints,
    place: Ints,
    without: Pairs,
    kernel: Kernel,
    threads: int,
) -> Iterator[Top]:
    """Sort the scores of one query after the other."""
    scorer = model.scorer(data, kernel, threads)
    pointers, barred = without
    for chosen in query_blocks(data):
        for query, given in zip(chosen.tolist(), scorer(chosen), strict=True):
            scores = given[order]
            allowed = np.ones(order.size, np.bool_)
            places = place[barred[pointers[query] : pointers[query + 1]]]
            allowed[places[places >= 0]] = False
            found = _best(scores, k, np.flatnonzero(allowed))
            ranked = found[np.lexsort((found, -scores[found]))][:k]
            yield Top(query, order[ranked], scores[ranked])


def _best(scores: NDArray[np.float64], k: int | None, allowed: Ints) -> Ints:
    """Return the allowed documents that score at least as high as the k-th best, in no order."""
    if k is None or k >= allowed.size:
        return allowed
    kept = scores[allowed]
    found: Ints = allowed[kept >= np.partition(kept, -k)[-k]]
    return found
