"""Ranks and measures of ranked lists, with checked arguments."""

from __future__ import annotations

import dataclasses

import numpy as np

from ranking.kernels.contract import (
    MEASURE_COLUMNS,
    Bytes,
    Features,
    Floats,
    Ints,
    MeasureKind,
    MetricsFamily,
    RankedListArrays,
)
from ranking.kernels.validation import FLOATS, check_array, check_pointer, validate_threads


@dataclasses.dataclass(frozen=True)
class RankedLists:
    """Lists of graded documents, in the order in which they are ranked.

    The attributes are those of :class:`ranking.kernels.contract.RankedListArrays`.
    """

    group_ptr: Ints
    grades: Floats
    order: Ints
    tied: Bytes
    unretrieved_ptr: Ints
    unretrieved_grades: Floats
    gains: Floats
    unretrieved_gains: Floats
    discounts: Floats

    @property
    def arrays(self) -> RankedListArrays:
        """The arrays as a kernel takes them."""
        return RankedListArrays(*(getattr(self, name) for name in RankedListArrays._fields))

    @property
    def n_lists(self) -> int:
        """The number of lists."""
        return self.group_ptr.size - 1

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.grades.size

    def check(self, measures: Ints) -> None:
        """Refuse arrays that a kernel could not trust, and measures that do not exist."""
        check_array("grades", self.grades, ("float64",), (None,))
        check_array("order", self.order, ("int64",), (self.n_rows,))
        check_array("tied", self.tied, ("uint8",), (self.n_rows,))
        check_array("group_ptr", self.group_ptr, ("int64",), (None,))
        check_pointer("group_ptr", self.group_ptr, ("int64",), self.n_lists, self.n_rows)
        if self.n_rows and not 0 <= self.order.min() <= self.order.max() < self.n_rows:
            raise ValueError(f"order must hold rows, in 0..{self.n_rows - 1}.")
        check_array("unretrieved_grades", self.unretrieved_grades, ("float64",), (None,))
        unretrieved = self.unretrieved_grades.size
        check_pointer(
            "unretrieved_ptr", self.unretrieved_ptr, ("int64",), self.n_lists, unretrieved
        )
        check_array("gains", self.gains, ("float64",), (None, self.n_rows))
        tables = self.gains.shape[0]
        check_array(
            "unretrieved_gains", self.unretrieved_gains, ("float64",), (tables, unretrieved)
        )
        check_array("discounts", self.discounts, ("float64",), (None, None))
        sizes = np.diff(self.group_ptr) + np.diff(self.unretrieved_ptr)
        longest = int(sizes.max(initial=0))
        if self.discounts.shape[1] < longest:
            raise ValueError(
                f"discounts has {self.discounts.shape[1]} ranks and the longest list {longest}."
            )
        if not (np.isfinite(self.grades).all() and np.isfinite(self.unretrieved_grades).all()):
            raise ValueError("grades must be finite.")
        _check_measures(measures, tables, self.discounts.shape[0])


def _check_measures(measures: Ints, gains: int, discounts: int) -> None:
    check_array("measures", measures, ("int64",), (None, len(MEASURE_COLUMNS)))
    ends = (len(MeasureKind), 2**62, gains + 1, max(discounts, 1), 2, 2)
    for name, column, end in zip(MEASURE_COLUMNS, measures.T, ends, strict=True):
        if column.size and not 0 <= column.min() <= column.max() < end:
            raise ValueError(f"measures: {name} must lie in 0..{end - 1}.")
    discounted = np.isin(measures[:, 0], (MeasureKind.NDCG, MeasureKind.MEAN_NDCG))
    if discounted.any() and not discounts:
        raise ValueError("measures: a discounted gain needs a table of discounts.")
    cut = np.isin(measures[:, 0], (MeasureKind.PRECISION, MeasureKind.RECALL))
    if np.any(measures[cut, 1] == 0):
        raise ValueError("measures: precision and recall need a cutoff of 1 or more.")


class MetricsKernel:
    """Ranks and measures of ranked lists; see :mod:`ranking.kernels.contract.metrics`."""

    def __init__(self, implementation: MetricsFamily) -> None:
        self.implementation = implementation

    def rank_lists(self, group_ptr: Ints, scores: Features, threads: int = 1) -> tuple[Ints, Bytes]:
        """Return the row at each rank, best first by list, and which ranks are tied."""
        check_array("scores", scores, FLOATS, (None,))
        check_array("group_ptr", group_ptr, ("int64",), (None,))
        check_pointer("group_ptr", group_ptr, ("int64",), group_ptr.size - 1, scores.size)
        if np.isnan(scores).any():
            raise ValueError("scores must not be NaN, which has no place in an order.")
        order = np.empty(scores.size, dtype=np.int64)
        tied = np.empty(scores.size, dtype=np.uint8)
        self.implementation.rank_lists(group_ptr, scores, order, tied, validate_threads(threads))
        return order, tied

    def ranked_metrics(self, lists: RankedLists, measures: Ints, threads: int = 1) -> Floats:
        """Return one row of measures per list."""
        lists.check(measures)
        out = np.empty((lists.n_lists, measures.shape[0]))
        self.implementation.ranked_metrics(lists.arrays, measures, out, validate_threads(threads))
        return out
