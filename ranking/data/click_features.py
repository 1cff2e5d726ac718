"""Clicks as features: a query is described by what was clicked for it, a document by what for."""

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
    """Return the same data with the clicks of a log beside the features of both sides.

    A query has a feature for every document of the log, and a document for every query, called
    ``click:<id>``; their values are the clicks, a row of them scaled to norm `weight`. Who is not
    in the log has none.

    Parameters
    ----------
    data : MatchingData
    log : MatchingData, optional
        By default the data themselves. For data to test on, give those that were trained on.
    weight : float
        What clicks count beside the other features.
    """
    log = data if log is None else log
    if log.relevance is None:
        raise DataError("a log of clicks has a relevance matrix, and these data have classes.")
    clicks = sparse.csr_array(log.relevance.maximum(0.0), dtype=np.float64)
    queries = _taken(clicks, places(log.query_ids, data.query_ids), weight)
    documents = _taken(clicks.T.tocsr(), places(log.document_ids, data.document_ids), weight)
    return data._replace(
        queries=_beside(data.query_rows, queries),
        documents=_beside(data.document_rows, documents),
        query_feature_ids=_names(data.query_feature_ids, log.document_ids),
        document_feature_ids=_names(data.document_feature_ids, log.query_ids),
    )


def _taken(clicks: Any, chosen: Any, weight: float) -> Any:
    """Return rows by position, those of -1 empty, each of norm `weight`."""
    kept = np.flatnonzero(chosen >= 0)
    pick = (np.ones(kept.size), (kept, chosen[kept]))
    rows = sparse.csr_array(pick, shape=(chosen.size, clicks.shape[0])) @ clicks
    norms = np.sqrt(rows.power(2).sum(axis=1))
    rows.data *= weight / np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(rows.indptr))
    rows.eliminate_zeros()
    return rows


def _beside(features: Any, clicks: Any) -> Any:
    joined = sparse.hstack([features, clicks.astype(features.dtype)])
    return sparse.csr_array(joined).sorted_indices()


def _names(names: Ids, added: Ids) -> Ids:
    return np.array([*names.astype(np.str_).tolist(), *(f"click:{one}" for one in added.tolist())])
