"""The positives of a query as features that it shares with the documents."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.kernels.contract import Ints
from ranking.models.factored import Factored
from ranking_plugins.solvers.shared_negatives import expand


class QueryHistories:
    """The positives of each query, and rows that average their features.

    Parameters
    ----------
    relevance : csr_array
        Entries above 0 are the positives.
    """

    def __init__(self, relevance: Any) -> None:
        positives = sp.csr_array(relevance > 0.0)
        positives.sort_indices()
        self.indptr = positives.indptr.astype(np.int64)
        self.members = positives.indices.astype(np.int64)
        self.n_documents = int(positives.shape[1])

    def means(self, features: sp.csr_array | None) -> sp.csr_array:
        """Return the mean features of the history of each query; without features, indicators."""
        return self._averaged(np.diff(self.indptr), self.members, features)

    def without(self, queries: Ints, left_out: Ints, features: sp.csr_array | None) -> sp.csr_array:
        """Return the means for these queries, each without one of its documents."""
        places, rows = expand(self.indptr[queries], self.indptr[queries + 1])
        members = self.members[places]
        keep = members != left_out[rows]
        counts = np.bincount(rows[keep], minlength=queries.size)
        return self._averaged(counts, members[keep], features)

    def _averaged(self, counts: Ints, members: Ints, features: sp.csr_array | None) -> sp.csr_array:
        shares = (1.0 / np.maximum(counts, 1)).astype(np.float32)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        parts = (np.repeat(shares, counts), members, indptr)
        rows = sp.csr_array(parts, shape=(counts.size, self.n_documents))
        if features is not None:
            rows = sp.csr_array(rows @ features, dtype=np.float32)
            rows.sort_indices()
        return rows


def histories_of(model: Factored, data: MatchingData) -> QueryHistories | None:
    """Return the histories of the queries, if the model uses them."""
    if model.history == "ignored":
        return None
    if data.relevance is None or not _have_own_features(data.queries):
        what = "labels" if data.relevance is None else "features of queries (users)"
        raise DataError(
            f"history={model.history} is for queries that are known by id and have positives, and "
            f"these data have {what}; leave them out, or use history=ignored."
        )
    return QueryHistories(data.relevance)


def _have_own_features(queries: Any) -> bool:
    """Return whether each query is one feature, which no other query has."""
    if queries is None:
        return True
    rows = sp.csr_array(queries)
    own = np.unique(rows.indices).size == rows.shape[0] and (np.diff(rows.indptr) == 1).all()
    return bool(own and (rows.data == 1.0).all())
