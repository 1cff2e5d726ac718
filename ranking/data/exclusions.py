"""Pairs of queries and documents that are left out of a ranking, such as what is known already."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.relevance import RelevanceData

Ints: TypeAlias = NDArray[np.int64]
Pairs: TypeAlias = tuple[Ints, Ints]
"""Pointers by query, and documents: the pattern of a CSR matrix, rows rising."""


def pattern(rows: Ints, columns: Ints, n_rows: int) -> Pairs:
    """Return pairs in order, each once."""
    width = int(columns.max(initial=0)) + 1
    ones = np.ones(rows.size, np.bool_)
    made = sparse.csr_array((ones, (rows, columns)), shape=(n_rows, width))
    made.sum_duplicates()
    made.sort_indices()
    return made.indptr.astype(np.int64), made.indices.astype(np.int64)


def known_pairs(data: RelevanceData, *known: RelevanceData, but_relevant: bool = False) -> Pairs:
    """Return the matches of other data as positions in these, by ids.

    Parameters
    ----------
    but_relevant : bool
        Whether a pair that is relevant in these data too stays out of what is returned.
    """
    none = np.zeros(0, np.int64)
    rows, columns = [none], [none]
    for each in known:
        queries = places(data.query_ids, each.query_ids)
        documents = places(data.document_ids, each.document_ids)
        for query in np.flatnonzero(queries >= 0).tolist():
            matched = documents[each.relevant(query)]
            matched = matched[matched >= 0]
            if but_relevant:
                matched = np.setdiff1d(matched, data.relevant(int(queries[query])))
            rows.append(np.full(matched.size, queries[query]))
            columns.append(matched)
    return pattern(np.concatenate(rows), np.concatenate(columns), data.n_queries)


def places(have: NDArray[np.generic], want: NDArray[np.generic]) -> Ints:
    """Return where each of `want` is in `have`; -1 if it is not."""
    if have.dtype.kind != want.dtype.kind:
        have, want = have.astype(np.str_), want.astype(np.str_)
    order = np.argsort(have, kind="stable")
    at = order[np.searchsorted(have, want, sorter=order).clip(max=have.size - 1)]
    return np.where(have[at] == want, at, -1)
