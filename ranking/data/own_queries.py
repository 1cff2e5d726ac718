"""Queries that are known by id only: the data for one weight vector per query."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ranking.data.matching_data import MatchingData
from ranking.data.validation import Ids
from ranking.errors import DataError


def own_queries(data: MatchingData, ids: Ids | None = None) -> MatchingData:
    """Return the same documents for queries without features; one query per label, if labelled.

    Parameters
    ----------
    ids : array, optional
        The queries of the result, in this order; one that the data lack has no positives.

    Examples
    --------
    >>> data = MatchingData([[1], [2], [3]], [[1], [2], [3]], labels=(["a", "b", "a"],) * 2)
    >>> own_queries(data)
    MatchingData(2 queries x 3 documents, 3 judged pairs, features 2 x 1)
    """
    if data.documents is None:
        raise DataError(
            "one model per query has a weight for each feature of a document, and these documents "
            "have none; give documents with features."
        )
    names, relevance = data.query_ids, data.relevance
    if data.labels is not None and data.classes is not None:
        names, documents = data.classes, np.arange(data.n_documents)
        shape = (names.size, data.n_documents)
        ones = np.ones(documents.size)
        relevance = sparse.csr_array((ones, (data.labels[1], documents)), shape=shape)
    if ids is not None:
        position = {name: number for number, name in enumerate(names.tolist())}
        pairs = [(row, position[name]) for row, name in enumerate(ids.tolist()) if name in position]
        rows, columns = np.array(pairs, int).reshape(-1, 2).T
        selection = sparse.csr_array((np.ones(rows.size), (rows, columns)), (ids.size, names.size))
        names, relevance = ids, sparse.csr_array(selection @ relevance)
    return MatchingData(
        None,
        data.documents,
        relevance,
        query_ids=names,
        document_ids=data.document_ids,
        document_feature_ids=data.document_feature_ids,
    )
