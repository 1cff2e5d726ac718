"""Clicks as features: the documents clicked for a query, the queries a document was clicked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ranking.data.exclusions import places
from ranking.data.matching_data import MatchingData
from ranking.data.validation import Ids
from ranking.errors import DataError


def with_clicks(
    data: MatchingData, log: MatchingData | None = None, weight: float = 1.0
) -> MatchingData:
    """Return the same data with the clicks of a log; see `MatchingData.with_clicks`."""
    log = data if log is None else log
    if log.relevance is None:
        raise DataError("a log of clicks has a relevance matrix, and these data have classes.")
    clicks = sparse.csr_array(log.relevance.maximum(0.0), dtype=np.float64)
    queries = _select_rows(clicks, places(log.query_ids, data.query_ids), weight)
    documents = _select_rows(clicks.T.tocsr(), places(log.document_ids, data.document_ids), weight)
    return data._replace(
        queries=_append(data.query_rows, queries),
        documents=_append(data.document_rows, documents),
        query_feature_ids=_names(data.query_feature_ids, log.document_ids),
        document_feature_ids=_names(data.document_feature_ids, log.query_ids),
    )


def _select_rows(clicks: Any, positions: Any, weight: float) -> Any:
    """Return rows by position, those of -1 empty, each of norm `weight`."""
    known = np.flatnonzero(positions >= 0)
    selection = (np.ones(known.size), (known, positions[known]))
    rows = sparse.csr_array(selection, shape=(positions.size, clicks.shape[0])) @ clicks
    norms = np.sqrt(rows.power(2).sum(axis=1))
    rows.data *= weight / np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(rows.indptr))
    rows.eliminate_zeros()
    return rows


def _append(features: Any, clicks: Any) -> Any:
    joined = sparse.hstack([features, clicks.astype(features.dtype)])
    return sparse.csr_array(joined).sorted_indices()


def _names(names: Ids, clicked: Ids) -> Ids:
    new_names = [f"click:{one}" for one in clicked.tolist()]
    return np.array([*names.astype(np.str_).tolist(), *new_names])
