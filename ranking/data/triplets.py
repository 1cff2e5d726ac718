"""From who matches whom to what can be drawn: a query, a document of its, and one that is not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ranking.data.matches import Matches
from ranking.errors import DataError
from ranking.kernels.sampling import PositiveLists


def positive_lists(data: Matches) -> PositiveLists:
    """Return the lists of relevant documents, by class or by query.

    A query without a relevant document, or without any other, is never drawn.
    """
    n_queries = data.n_queries
    itself = np.full(n_queries, -1) if data.itself is None else np.array(data.itself)
    if data.labels is not None:
        list_of = np.array(data.labels[0])
        members, list_ptr = data._members
        if data.itself is not None:
            # A document that is of another class than its query is not in the class's list: the
            # query then has its own, with itself in it to be passed over.
            odd = np.flatnonzero(data.labels[1][data.itself] != list_of)
            added = [np.append(data.relevant(query), itself[query]) for query in odd.tolist()]
            members = np.concatenate((members, *map(np.sort, added)))
            list_of[odd] = list_ptr.size - 1 + np.arange(odd.size)
            ends = list_ptr[-1] + np.cumsum([each.size for each in added], dtype=np.int64)
            list_ptr = np.concatenate((list_ptr, ends))
    else:
        list_of = np.arange(n_queries)
        above = data.relevance.data > 0
        members = data.relevance.indices[above]
        list_ptr = np.concatenate(([0], np.cumsum(above)))[data.relevance.indptr]
        if data.itself is not None:
            own = np.unique(
                np.concatenate(
                    (
                        np.repeat(list_of, np.diff(list_ptr)) * data.n_documents + members,
                        list_of * data.n_documents + data.itself,
                    )
                )
            )
            members = own % data.n_documents
            list_ptr = np.searchsorted(own // data.n_documents, np.arange(n_queries + 1))
    size = np.diff(list_ptr)[list_of]
    drawn = np.flatnonzero((size - (itself >= 0) > 0) & (size < data.n_documents))
    if not drawn.size:
        raise DataError(
            "no query has both a document that is relevant and one that is not; there is nothing "
            "to learn from."
        )
    return PositiveLists(
        drawn,
        list_of.astype(np.int64),
        list_ptr.astype(np.int64),
        members.astype(np.int64),
        itself.astype(np.int64),
        data.n_documents,
    )


def member_values(data: Matches, lists: PositiveLists) -> NDArray[np.float64]:
    """Return the relevance of each member of the lists; 0 for a query in its own list."""
    if data.labels is not None:
        raise DataError(
            "the matches are classes, which have no grades or counts; leave draw=relevance and "
            "weights=relevance out."
        )
    stored = data.relevance
    rows = np.repeat(np.arange(data.n_queries), np.diff(stored.indptr))
    keys = rows * data.n_documents + stored.indices
    wanted = np.repeat(np.arange(data.n_queries), np.diff(lists.member_ptr)) * data.n_documents
    wanted += lists.members
    at = np.searchsorted(keys, wanted).clip(max=max(keys.size - 1, 0))
    values: NDArray[np.float64] = np.where(keys[at] == wanted, stored.data[at], 0.0)
    own = lists.own_document[wanted // data.n_documents]
    values[lists.members == own] = 0.0
    return values
