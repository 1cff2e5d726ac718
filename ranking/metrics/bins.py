"""Metrics by popularity: means over bins of queries with similar numbers of clicks."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.data.relevance import RelevanceData
from ranking.data.validation import Ids
from ranking.errors import DataError
from ranking.metrics.evaluation import Values, mean

Floats = NDArray[np.float64]


class Bin(NamedTuple):
    """The mean metrics of the queries in one bin.

    Attributes
    ----------
    low, high : float
        They have more than `low` and at most `high` clicks.
    queries : int
    means : dict
        By the full name of a metric; NaN if no query has a value.
    """

    low: float
    high: float
    queries: int
    means: dict[str, float]

    @property
    def label(self) -> str:
        """The range of the bin, such as ``> 10, <= 100``."""
        if self.low == -np.inf:
            return f"<= {self.high:g}"
        return f"> {self.low:g}" + (f", <= {self.high:g}" if self.high < np.inf else "")


def total_clicks(clicks: RelevanceData, query_ids: Ids) -> Floats:
    """Return the total relevance of each query in a log; 0 for a query that is not in it.

    Parameters
    ----------
    clicks : MatchingData or TextCollection
        The log. Negative relevance does not count; with labels, every positive counts 1.
    query_ids : int64 or str array
        The queries; ids are compared as text.
    """
    if clicks.labels is not None:
        totals: Floats = clicks.n_relevant.astype(np.float64)
    else:
        owner = np.repeat(np.arange(clicks.n_queries), np.diff(clicks.relevance.indptr))
        positive = np.maximum(clicks.relevance.data, 0.0)
        totals = np.zeros(clicks.n_queries)
        np.add.at(totals, owner, positive)
    known = dict(zip(clicks.query_ids.astype(np.str_).tolist(), totals.tolist(), strict=True))
    return np.array([known.get(query, 0.0) for query in query_ids.astype(np.str_).tolist()])


def by_bins(values: Values, totals: Floats, edges: Sequence[float]) -> list[Bin]:
    """Return the means of metrics over bins of queries.

    Parameters
    ----------
    values : dict of arrays
        As `evaluate_model` returns them.
    totals : float64 array
        The clicks of each query.
    edges : sequence of float
        Increasing upper ends of all bins but the last, which has none; each belongs to its bin.
    """
    ends = [float(edge) for edge in edges]
    if not ends or sorted(set(ends)) != ends or not np.isfinite(ends).all():
        raise DataError(f"bins end at {ends}; give increasing numbers, such as 10, 100, 1000.")
    bin_of = np.searchsorted(ends, totals, side="left")
    bounds = [-np.inf, *ends, np.inf]
    bins = []
    for number, (low, high) in enumerate(itertools.pairwise(bounds)):
        members = bin_of == number
        means = {name: mean(value[members]) for name, value in values.items()}
        bins.append(Bin(low, high, int(members.sum()), means))
    return bins
