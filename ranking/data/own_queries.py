"""Queries that are known by their ids alone: what one weight vector per query is trained on."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ranking.data.matching_data import MatchingData
from ranking.data.validation import Ids
from ranking.errors import DataError


def own_queries(data: MatchingData, ids: Ids | None = None) -> MatchingData:
    """Return the same documents for queries without features; of labelled data, a query a label.

    Parameters
    ----------
    ids : array, optional
        The queries that the result has, in this order; one that the data lack matches nothing.

    Examples
    --------
    >>> data = MatchingData([[1], [2], [3]], [[1], [2], [3]], labels=(["a", "b", "a"],) * 2)
    >>> own_queries(data)
    MatchingData(2 queries, 3 documents, 3 matches, features 2 x 1)
    """
    if data.documents is None:
        raise DataError(
            "one model per query has a weight for each feature of a document, and these documents "
            "have none; give documents with features."
        )
    names, matches = data.query_ids, data.relevance
    if data.labels is not None and data.classes is not None:
        names, places = data.classes, np.arange(data.n_documents)
        shape = (names.size, data.n_documents)
        matches = sparse.csr_array((np.ones(places.size), (data.labels[1], places)), shape=shape)
    if ids is not None:
        place = {name: number for number, name in enumerate(names.tolist())}
        found = [(row, place[name]) for row, name in enumerate(ids.tolist()) if name in place]
        rows, columns = np.array(found, int).reshape(-1, 2).T
        chosen = sparse.csr_array((np.ones(rows.size), (rows, columns)), (ids.size, names.size))
        names, matches = ids, sparse.csr_array(chosen @ matches)
    return MatchingData(
        None,
        data.documents,
        matches,
        query_ids=names,
        document_ids=data.document_ids,
        document_feature_ids=data.document_feature_ids,
    )
