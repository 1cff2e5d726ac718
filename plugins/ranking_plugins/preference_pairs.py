"""Triplets of judged rows: a row, and rows of the same query with lower grades."""

from __future__ import annotations

import dataclasses
from typing import Final, Self

import numpy as np

from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError
from ranking.kernels.contract import Ints
from ranking.kernels.kernel import Kernel

SEVERAL_GRADES: Final = (
    "lists have several grades, so a row below one of several positives is not necessarily below "
    "the others"
)
"""The reason why a loss that orders positives does not work for judged lists."""


@dataclasses.dataclass(frozen=True)
class LowerRows:
    """The rows of each query in the order of their grades.

    Attributes
    ----------
    order : int64 array
        The rows by query and grade, lowest grade first.
    first, below : int64 arrays
        For each position of that order, the start of the query and the number of rows below.
    better : int64 array
        The positions with rows below them.
    query_ptr : int64 array
        The start of each query in `better`; queries without any are left out.
    """

    order: Ints
    first: Ints
    below: Ints
    better: Ints
    query_ptr: Ints

    @classmethod
    def of(cls, data: JudgedLists) -> Self:
        """Sort the rows; refuse data without two different grades in a query."""
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

    def sample(
        self,
        kernel: Kernel,
        seed: int,
        start: int,
        count: int,
        trials: int = 1,
        *,
        by_query: bool = False,
    ) -> tuple[Ints, Ints]:
        """Sample triplets (0, row, rows below it); return them and the number of rows below.

        Rows with others below them are sampled uniformly, or queries and then their rows; the rows
        below uniformly. Random numbers belong to steps, from `start`.
        """
        width = 1 + trials
        numbers = kernel.random.uniform(seed, width * start, width * count).reshape(count, width)
        if by_query:
            position = numbers[:, 0] * (self.query_ptr.size - 1)
            query = position.astype(np.int64)
            size = np.diff(self.query_ptr)[query]
            selected = self.query_ptr[query] + ((position - query) * size).astype(np.int64)
        else:
            selected = (numbers[:, 0] * self.better.size).astype(np.int64)
        above = self.better[selected]
        below = self.below[above]
        under = self.first[above, None] + (numbers[:, 1:] * below[:, None]).astype(np.int64)
        query_and_row = np.zeros(count, np.int64), self.order[above]
        return np.column_stack((*query_and_row, self.order[under])), below
