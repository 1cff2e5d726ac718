"""Judged rows as tuples: a row, and rows of its query that are worse."""

from __future__ import annotations

import dataclasses
from typing import Final, Self

import numpy as np

from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError
from ranking.kernels.contract import Ints
from ranking.kernels.kernel import Kernel

SEVERAL_GRADES: Final = (
    "lists have several grades, so what is worse than one of several better rows need not be worse "
    "than the others"
)
"""Why no loss that orders positives takes judged rows."""


@dataclasses.dataclass(frozen=True)
class LowerRows:
    """The rows of each query by grade, so that those below a row are together.

    Attributes
    ----------
    order : int64 array
        The rows by query and grade, lowest first.
    first, below : int64 arrays
        For each place of that order, where the query begins, and how many of it are worse.
    better : int64 array
        The places that have any below them.
    query_ptr : int64 array
        Where each query begins in `better`; queries without any are left out.
    """

    order: Ints
    first: Ints
    below: Ints
    better: Ints
    query_ptr: Ints

    @classmethod
    def of(cls, data: JudgedLists) -> Self:
        """Sort the rows, or refuse data in which nothing is better than anything."""
        order = np.lexsort((data.grades, data.row_groups))
        group, grade = data.row_groups[order], data.grades[order]
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(group) != 0) | (np.diff(grade) != 0)
        layer = np.maximum.accumulate(np.where(new, np.arange(order.size), 0))
        first = data.group_ptr[group]
        below = layer - first
        better = np.flatnonzero(below)
        if not better.size:
            raise DataError(
                f"no query has two different grades ({data.n_queries} queries, {data.n_rows} "
                "rows), so there is nothing to rank; check the grades."
            )
        begins = np.flatnonzero(np.diff(group[better], prepend=-1))
        return cls(order, first, below, better, np.append(begins, better.size))

    def tuples(
        self,
        kernel: Kernel,
        seed: int,
        start: int,
        count: int,
        trials: int = 1,
        *,
        by_query: bool = False,
    ) -> tuple[Ints, Ints]:
        """Draw tuples (0, better row, worse rows); return them, and how many are worse in all.

        All rows that have any below them are drawn alike, or all queries, and then those of the
        query; of the rows below, each is drawn alike. Draws belong to steps, from `start`.
        """
        width = 1 + trials
        draws = kernel.random.uniform(seed, width * start, width * count).reshape(count, width)
        if by_query:
            place = draws[:, 0] * (self.query_ptr.size - 1)
            query = place.astype(np.int64)
            size = np.diff(self.query_ptr)[query]
            chosen = self.query_ptr[query] + ((place - query) * size).astype(np.int64)
        else:
            chosen = (draws[:, 0] * self.better.size).astype(np.int64)
        above = self.better[chosen]
        below = self.below[above]
        under = self.first[above, None] + (draws[:, 1:] * below[:, None]).astype(np.int64)
        query_and_row = np.zeros(count, np.int64), self.order[above]
        return np.column_stack((*query_and_row, self.order[under])), below
