"""Ranked lists and the measures of them, as `Loops.ranked_metrics` takes them.

The loop knows no names of metrics. A measure is a row of six integers, `COLUMNS`. Discounts,
and gains other than the grade itself, come as tables: so the loop adds, multiplies and divides
only, and needs no logarithm or power that a C library might round differently.
"""

from __future__ import annotations

import dataclasses
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ranking.kernels._old_contract import Floats, Ints
from ranking.kernels.door import check_array, check_pointer

COLUMNS: Final = ("kind", "cutoff", "gain", "discount", "shared", "short")


class Kind(IntEnum):
    """What a measure is; the numbers are part of the contract."""

    NDCG = 0
    MEAN_NDCG = 1
    AVERAGE_PRECISION = 2
    PRECISION = 3
    RECALL = 4
    RECIPROCAL_RANK = 5
    R_PRECISION = 6
    MEAN_RANK = 7
    AUC = 8
    PAIR_ERROR = 9
    DOMINATION_ERROR = 10
    ALL_PAIRS_ERROR = 11


@dataclasses.dataclass(frozen=True)
class RankedLists:
    """Lists of graded documents, in the order in which they are ranked.

    Attributes
    ----------
    group_ptr : int64 (lists + 1)
        List q has the rows ``group_ptr[q]:group_ptr[q + 1]``.
    grades : float64 (rows)
        Finite.
    order : int64 (rows)
        The row at each place, list by list and best first.
    tied : uint8 (rows)
        Not 0 if a place has the score of the place before it in its list.
    unfound_ptr : int64 (lists + 1)
        Documents that were judged and are not in the list, by list in the same way.
    unfound_grades : float64 (unfound)
        Their grades.
    gains : float64 (tables, rows)
        Not negative. A measure's gain t > 0 is table t - 1; gain 0 is the grade, or 0 if that is
        negative.
    unfound_gains : float64 (tables, unfound)
        The same for the documents that are not in the list.
    discounts : float64 (tables, places)
        Entry i is for rank i + 1; as many as the longest list and its unfound documents.
    """

    group_ptr: Ints
    grades: Floats
    order: Ints
    tied: NDArray[np.uint8]
    unfound_ptr: Ints
    unfound_grades: Floats
    gains: Floats
    unfound_gains: Floats
    discounts: Floats

    @property
    def n_lists(self) -> int:
        """The number of lists."""
        return self.group_ptr.size - 1

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.grades.size

    def check(self, measures: Ints) -> None:
        """Refuse arrays that the loop could not trust, and measures that are not."""
        check_array("grades", self.grades, ("float64",), (None,))
        check_array("order", self.order, ("int64",), (self.n_rows,))
        check_array("tied", self.tied, ("uint8",), (self.n_rows,))
        check_array("group_ptr", self.group_ptr, ("int64",), (None,))
        check_pointer("group_ptr", self.group_ptr, ("int64",), self.n_lists, self.n_rows)
        if self.n_rows and not 0 <= self.order.min() <= self.order.max() < self.n_rows:
            raise ValueError(f"order must have rows, in 0..{self.n_rows - 1}.")
        check_array("unfound_grades", self.unfound_grades, ("float64",), (None,))
        unfound = self.unfound_grades.size
        check_pointer("unfound_ptr", self.unfound_ptr, ("int64",), self.n_lists, unfound)
        check_array("gains", self.gains, ("float64",), (None, self.n_rows))
        tables = self.gains.shape[0]
        check_array("unfound_gains", self.unfound_gains, ("float64",), (tables, unfound))
        check_array("discounts", self.discounts, ("float64",), (None, None))
        sizes = np.diff(self.group_ptr) + np.diff(self.unfound_ptr)
        longest = int(sizes.max(initial=0))
        if self.discounts.shape[1] < longest:
            raise ValueError(
                f"discounts has {self.discounts.shape[1]} ranks and the longest list {longest}."
            )
        if not (np.isfinite(self.grades).all() and np.isfinite(self.unfound_grades).all()):
            raise ValueError("grades must be finite.")
        _check_measures(measures, tables, self.discounts.shape[0])


def _check_measures(measures: Ints, gains: int, discounts: int) -> None:
    check_array("measures", measures, ("int64",), (None, len(COLUMNS)))
    ends = (len(Kind), 2**62, gains + 1, max(discounts, 1), 2, 2)
    for name, column, end in zip(COLUMNS, measures.T, ends, strict=True):
        if column.size and not 0 <= column.min() <= column.max() < end:
            raise ValueError(f"measures: {name} must lie in 0..{end - 1}.")
    discounted = np.isin(measures[:, 0], (Kind.NDCG, Kind.MEAN_NDCG))
    if discounted.any() and not discounts:
        raise ValueError("measures: a discounted gain needs a table of discounts.")
    cut = np.isin(measures[:, 0], (Kind.PRECISION, Kind.RECALL))
    if np.any(measures[cut, 1] == 0):
        raise ValueError("measures: precision and recall need a cutoff of 1 or more.")
