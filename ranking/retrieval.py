"""The best documents of each query, without ever holding the scores of all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.model import Embedding, MatchingModel
from ranking.data.matching import Matching
from ranking.errors import DataError
from ranking.evaluation.measure import query_blocks
from ranking.kernels import factored
from ranking.kernels.kernel import Kernel

Ints: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = tuple[Ints, Ints]
"""Pointers by query, and documents: the pattern of a CSR matrix, rows rising."""

BLOCK = 1024
"""Queries whose best are found in one call of a kernel."""


class Top(NamedTuple):
    """The best documents of one query: positions and scores, best first."""

    query: int
    documents: Ints
    scores: NDArray[np.float64]


def top(
    model: MatchingModel,
    data: Matching,
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
    # Documents in the order of their ids, so that equal scores are in the order of positions.
    order = np.argsort(data.document_ids, kind="stable")
    if candidates is not None:
        order = order[np.isin(order, candidates)]
    if not order.size:
        raise DataError("there is no candidate among the documents; give some of their ids.")
    place = np.full(data.n_documents, -1)
    place[order] = np.arange(order.size)
    vectors = None if k is None else model.embedding(data, kernel, threads)
    if k is None or vectors is None:
        yield from _by_scores(model, data, k, order, place, without, kernel, threads)
        return
    vectors = Embedding(
        vectors.queries,
        np.ascontiguousarray(vectors.documents[order]),
        vectors.biases[order] if vectors.biases.size else vectors.biases,
    )
    for start in range(0, data.n_queries, BLOCK):
        stop = min(start + BLOCK, data.n_queries)
        found, scores = factored.top(
            kernel,
            vectors.queries[start:stop],
            vectors.documents,
            vectors.biases,
            k,
            _moved(without, start, stop, place),
            threads,
        )
        for query in range(start, stop):
            kept = found[query - start] >= 0
            best = scores[query - start][kept].astype(np.float64)
            yield Top(query, order[found[query - start][kept]], best)


def best_lists(
    model: MatchingModel, data: Matching, k: int, kernel: Kernel, threads: int = 1
) -> Ints:
    """Return the k best documents of each query, a row a query; -1 where there are fewer."""
    lists = np.full((data.n_queries, min(k, data.n_documents)), -1)
    for found in top(model, data, k, kernel, threads):
        lists[found.query, : found.documents.size] = found.documents
    return lists


def pairs_of(data: Matching, known: Matching) -> Pairs:
    """Return the matches of other data as positions in these, by ids; others are left out."""
    queries = _places(data.query_ids, known.query_ids)
    documents = _places(data.document_ids, known.document_ids)
    rows, columns = [], []
    for query in range(known.n_queries):
        if queries[query] >= 0:
            matched = documents[known.relevant(query)]
            columns.append(matched[matched >= 0])
            rows.append(np.full(columns[-1].size, queries[query]))
    none = np.zeros(0, np.int64)
    return _pattern(np.concatenate((none, *rows)), np.concatenate((none, *columns)), data.n_queries)


def _places(have: NDArray[np.generic], want: NDArray[np.generic]) -> Ints:
    """Return where each of `want` is in `have`; -1 if it is not."""
    if have.dtype.kind != want.dtype.kind:
        have, want = have.astype(np.str_), want.astype(np.str_)
    order = np.argsort(have, kind="stable")
    at = order[np.searchsorted(have, want, sorter=order).clip(max=have.size - 1)]
    return np.where(have[at] == want, at, -1)


def _pattern(rows: Ints, columns: Ints, n_rows: int) -> Pairs:
    width = int(columns.max(initial=0)) + 1
    ones = np.ones(rows.size, np.bool_)
    made = sparse.csr_array((ones, (rows, columns)), shape=(n_rows, width))
    made.sum_duplicates()
    made.sort_indices()
    return made.indptr.astype(np.int64), made.indices.astype(np.int64)


def _without_itself(data: Matching, barred: Pairs | None) -> Pairs:
    """Return what is barred, and for a query that is a document, itself."""
    pointers, documents = (
        (np.zeros(data.n_queries + 1, np.int64), np.zeros(0, np.int64))
        if barred is None
        else barred
    )
    if data.itself is None:
        return pointers, documents
    rows = np.repeat(np.arange(data.n_queries), np.diff(pointers))
    own = np.flatnonzero(data.itself >= 0)
    return _pattern(
        np.concatenate((rows, own)),
        np.concatenate((documents, data.itself[own])),
        data.n_queries,
    )


def _moved(barred: Pairs, start: int, stop: int, place: Ints) -> Pairs:
    """Return what some queries are not to have, by places of the documents."""
    pointers, documents = barred
    rows = np.repeat(np.arange(stop - start), np.diff(pointers[start : stop + 1]))
    places = place[documents[pointers[start] : pointers[stop]]]
    return _pattern(rows[places >= 0], places[places >= 0], stop - start)


def _by_scores(
    model: MatchingModel,
    data: Matching,
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
