"""Exclusions: pairs of queries and documents to leave out of ranked lists, such as those seen."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.relevance import RelevanceData

Ints: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = tuple[Ints, Ints]
"""Pointers by query, and documents: the pattern of a CSR matrix with sorted rows."""


def pattern(rows: Ints, columns: Ints, n_rows: int) -> Pairs:
    """Return pairs sorted by row and column, each once."""
    width = int(columns.max(initial=0)) + 1
    ones = np.ones(rows.size, np.bool_)
    pairs = sparse.csr_array((ones, (rows, columns)), shape=(n_rows, width))
    pairs.sum_duplicates()
    pairs.sort_indices()
    return pairs.indptr.astype(np.int64), pairs.indices.astype(np.int64)


def find_exclusions(
    data: RelevanceData, *known: RelevanceData, but_relevant: bool = False
) -> Pairs:
    """Return the positives of other data as positions in these, found by id.

    Parameters
    ----------
    but_relevant : bool
        Whether to omit pairs that are relevant in these data too.
    """
    none = np.zeros(0, np.int64)
    rows, columns = [none], [none]
    for each in known:
        queries = places(data.query_ids, each.query_ids)
        documents = places(data.document_ids, each.document_ids)
        own_rows, own_columns = _positives(each, queries >= 0)
        found_rows, found_columns = queries[own_rows], documents[own_columns]
        keep = found_columns >= 0
        rows.append(found_rows[keep])
        columns.append(found_columns[keep])
    at, document = np.concatenate(rows), np.concatenate(columns)
    if but_relevant:
        with_pairs = np.zeros(data.n_queries, np.bool_)
        with_pairs[at] = True
        relevant = _positives(data, with_pairs)
        keys, taken = (r * data.n_documents + d for r, d in ((at, document), relevant))
        keep = ~contained(keys, taken)
        at, document = at[keep], document[keep]
    return pattern(at, document, data.n_queries)


def _positives(data: RelevanceData, queries: NDArray[np.bool_]) -> Pairs:
    """Return the queries that are wanted and their positives, a pair each."""
    if data.labels is None:
        stored = data.relevance
        rows = np.repeat(np.arange(data.n_queries), np.diff(stored.indptr))
        columns = stored.indices.astype(np.int64)
        keep = (stored.data > 0) & queries[rows]
        if data.own_document is not None:
            keep &= columns != data.own_document[rows]
        return rows[keep], columns[keep]
    wanted = np.flatnonzero(queries)
    lists = [data.relevant(query) for query in wanted.tolist()]
    sizes = np.array([one.size for one in lists], np.int64)
    return np.repeat(wanted, sizes), np.concatenate([np.zeros(0, np.int64), *lists])


def contained(keys: Ints, others: Ints) -> NDArray[np.bool_]:
    """Return whether each key is one of the others."""
    if not others.size:
        return np.zeros(keys.size, np.bool_)
    rising = np.sort(others)
    member: NDArray[np.bool_] = (
        rising[np.searchsorted(rising, keys).clip(max=rising.size - 1)] == keys
    )
    return member


def places(have: NDArray[np.generic], want: NDArray[np.generic]) -> Ints:
    """Return the position of each of `want` in `have`, or -1."""
    if have.dtype.kind != want.dtype.kind:
        have, want = have.astype(np.str_), want.astype(np.str_)
    order = np.argsort(have, kind="stable")
    at = order[np.searchsorted(have, want, sorter=order).clip(max=have.size - 1)]
    return np.where(have[at] == want, at, -1)


def exclude_itself(data: RelevanceData, exclusions: Pairs | None) -> Pairs:
    """Return the exclusions, and for a query that is a document, that document too."""
    none = np.zeros(data.n_queries + 1, np.int64), np.zeros(0, np.int64)
    pointers, documents = none if exclusions is None else exclusions
    if data.own_document is None:
        return pointers, documents
    rows = np.repeat(np.arange(data.n_queries), np.diff(pointers))
    own = np.flatnonzero(data.own_document >= 0)
    return pattern(
        np.concatenate((rows, own)),
        np.concatenate((documents, data.own_document[own])),
        data.n_queries,
    )


def exclusions_at(exclusions: Pairs, queries: Ints, position: Ints) -> Pairs:
    """Return the exclusions of some queries by position; a document at position -1 is left out."""
    pointers, documents = exclusions
    sizes = pointers[queries + 1] - pointers[queries]
    rows = np.repeat(np.arange(queries.size), sizes)
    offsets = np.arange(rows.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    positions = position[documents[np.repeat(pointers[queries], sizes) + offsets]]
    return pattern(rows[positions >= 0], positions[positions >= 0], queries.size)
