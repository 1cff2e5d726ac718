"""What metrics of ranked lists share: how a list is sorted, and how a metric is spelled."""

from __future__ import annotations

import dataclasses
from abc import ABC
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.metric import Metric
from ranking.data.judged import Judged
from ranking.errors import DataError, PartError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

RELEVANT = 1.0
"""The grade from which a document is relevant, where a metric knows no degrees."""


@dataclasses.dataclass
class RankedMetric(Metric, ABC):
    """A metric of sorted lists whose fields are a cut-off and choices among words.

    Attributes
    ----------
    choices : dict
        The words that each field may be.
    """

    choices: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __post_init__(self) -> None:
        """Refuse a cut-off or a word that is not known."""
        for key, words in self.choices.items():
            value = getattr(self, key)
            if value not in words:
                raise PartError(
                    f"metric {self.name!r}: {key}={value} is not known; it is {' or '.join(words)}."
                )
        k = getattr(self, "k", None)
        if k is not None and (isinstance(k, bool) or not isinstance(k, int) or k < 1):
            raise PartError(f"metric {self.name!r}: the cut-off @{k} must be 1 or more.")

    def spelled(self) -> str:
        """Return the name with every choice spelled out; `parse_metric` reads it back."""
        k = getattr(self, "k", None)
        cut = "" if k is None else f"@{k}"
        spelled = ",".join(f"{key}={getattr(self, key)}" for key in self.choices)
        return f"{self.name}{cut}({spelled})"


@dataclasses.dataclass(frozen=True)
class Ranking:
    """The rows of data, query by query and best first.

    Attributes
    ----------
    rows : int64 array
        The stored row at each place.
    ranks : int64 array
        The rank of each place in its list, from 1.
    blocks : int64 array or None
        Places with equal numbers are tied and share their gains; None if no ties are shared.
    """

    rows: Ints
    ranks: Ints
    blocks: Ints | None

    def along(self, gains: Floats) -> Floats:
        """Return the gains of the rows by place; tied places each get the mean of their block."""
        placed = gains[self.rows]
        if self.blocks is None:
            return placed
        means = np.bincount(self.blocks, placed) / np.bincount(self.blocks)
        return means[self.blocks]


def rank(data: Judged, scores: NDArray[np.float64], ties: str, precision: str) -> Ranking:
    """Sort each list by score, the highest first.

    Parameters
    ----------
    scores : array
        One a stored row of `data`.
    ties : {"docid", "file", "average"}
        Among equal scores: the higher document id first, as trec_eval; the order of the data, as
        LETOR's script; or the mean over all orders.
    precision : {"float32", "float64"}
        In which scores are compared; trec_eval keeps them in single precision.
    """
    values = np.asarray(scores)
    if values.shape != (data.n_rows,):
        raise DataError(
            f"scores have shape {values.shape} and the data {data.n_rows} rows; give one a row."
        )
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise DataError(
            f"scores: row {row} (query {data.query_ids[data.row_groups[row]]}) is NaN and has no "
            "place in a ranking; look at the model that gave it."
        )
    with np.errstate(over="ignore"):  # beyond float32 is infinite, in trec_eval too
        keys = -values.astype(precision)
    # The rows lie query by query already, so places and rows have the same queries.
    groups = data.row_groups
    rows = np.lexsort((keys, groups))
    placed = keys[rows]
    tied = (placed[1:] == placed[:-1]) & (groups[1:] == groups[:-1])
    blocks = np.concatenate(([0], np.cumsum(~tied)))
    if ties == "docid" and tied.any():
        among = np.append(tied, False) | np.append(False, tied)
        some = rows[among]
        rows[among] = some[np.lexsort((-data.doc_ranks[some], blocks[among]))]
    ranks = np.arange(1, data.n_rows + 1) - data.group_ptr[groups]
    return Ranking(rows, ranks, blocks if ties == "average" else None)


def per_group(data: Judged, values: Floats) -> Floats:
    """Return the sum over each query."""
    sums: Floats = np.add.reduceat(values, data.group_ptr[:-1])
    return sums


def ratio(numerator: Floats, denominator: Floats | Ints, empty: str) -> Floats:
    """Divide; where there is nothing to divide by, 0 or, to skip the query, NaN."""
    values = np.full(numerator.shape, 0.0 if empty == "zero" else np.nan)
    np.divide(numerator, denominator, out=values, where=denominator > 0)
    return values
