"""Lists of positive documents, from which (query, positive, negative) triplets are sampled."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.data.relevance import RelevanceData
from ranking.errors import DataError
from ranking.kernels.sampling import PositiveLists


def positive_lists(data: RelevanceData) -> PositiveLists:
    """Return the lists of positive documents, by class or by query.

    A query without positives, or without negatives, is never sampled.
    """
    n_queries = data.n_queries
    own = np.full(n_queries, -1) if data.own_document is None else np.array(data.own_document)
    if data.labels is not None:
        list_of = np.array(data.labels[0])
        members, list_ptr = data._members
        if data.own_document is not None:
            # A query whose own document is of another class gets its own list, which contains
            # that document to be skipped.
            odd = np.flatnonzero(data.labels[1][data.own_document] != list_of)
            added = [np.append(data.relevant(query), own[query]) for query in odd.tolist()]
            members = np.concatenate((members, *map(np.sort, added)))
            list_of[odd] = list_ptr.size - 1 + np.arange(odd.size)
            ends = list_ptr[-1] + np.cumsum([each.size for each in added], dtype=np.int64)
            list_ptr = np.concatenate((list_ptr, ends))
    else:
        list_of = np.arange(n_queries)
        above = data.relevance.data > 0
        members = data.relevance.indices[above]
        list_ptr = np.concatenate(([0], np.cumsum(above)))[data.relevance.indptr]
        if data.own_document is not None:
            keys = np.unique(
                np.concatenate(
                    (
                        np.repeat(list_of, np.diff(list_ptr)) * data.n_documents + members,
                        list_of * data.n_documents + data.own_document,
                    )
                )
            )
            members = keys % data.n_documents
            list_ptr = np.searchsorted(keys // data.n_documents, np.arange(n_queries + 1))
    size = np.diff(list_ptr)[list_of]
    sampled = np.flatnonzero((size - (own >= 0) > 0) & (size < data.n_documents))
    if not sampled.size:
        raise DataError(
            "no query has both a positive and a negative document; there is nothing to learn from."
        )
    return PositiveLists(
        sampled,
        list_of.astype(np.int64),
        list_ptr.astype(np.int64),
        members.astype(np.int64),
        own.astype(np.int64),
        data.n_documents,
    )


def member_values(data: RelevanceData, lists: PositiveLists) -> NDArray[np.float64]:
    """Return the relevance of each member of the lists; 0 for a query's own document."""
    if data.labels is not None:
        raise DataError(
            "data labelled by class have no grades or counts; leave out sampling=weighted and "
            "weighting=relevance."
        )
    stored = data.relevance
    rows = np.repeat(np.arange(data.n_queries), np.diff(stored.indptr))
    keys = rows * data.n_documents + stored.indices
    member_keys = np.repeat(np.arange(data.n_queries), np.diff(lists.member_ptr)) * data.n_documents
    member_keys += lists.members
    at = np.searchsorted(keys, member_keys).clip(max=max(keys.size - 1, 0))
    values: NDArray[np.float64] = np.where(keys[at] == member_keys, stored.data[at], 0.0)
    own = lists.own_document[member_keys // data.n_documents]
    values[lists.members == own] = 0.0
    return values
