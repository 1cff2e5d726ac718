"""Rows of lists by grade, lowest first: sums over the rows of lower or higher grades."""

from __future__ import annotations

import dataclasses

import numpy as np

from ranking.contracts.loss import Array
from ranking.kernels.contract import Ints


@dataclasses.dataclass(frozen=True)
class Tiers:
    """Rows by list and grade, for sums over the rows of lower or higher grades of a list.

    Attributes
    ----------
    order : int64 array
        The rows by list and grade.
    starts, sizes : int64 arrays
        The first position of each tier in that order, and its number of rows.
    place : tuple of int64 arrays
        The list and the number of each tier, from 0 for the lowest.
    """

    order: Ints
    starts: Ints
    sizes: Ints
    place: tuple[Ints, Ints]

    @classmethod
    def of(cls, list_ptr: Ints, grades: Array) -> Tiers:
        """Sort the rows."""
        lists = np.repeat(np.arange(list_ptr.size - 1), np.diff(list_ptr))
        order = np.lexsort((grades, lists))
        new = np.ones(order.size, dtype=bool)
        new[1:] = (np.diff(lists[order]) != 0) | (np.diff(grades[order]) != 0.0)
        starts = np.flatnonzero(new)
        owner = lists[order][starts]
        first = np.searchsorted(owner, owner)
        sizes = np.diff(np.append(starts, order.size))
        return cls(order, starts, sizes, (owner, np.arange(starts.size) - first))

    def below(self, values: Array) -> Array:
        """Return for each row the sum of the values of the rows of lower grades in its list."""
        return self._spread(np.cumsum(self._table(values), axis=1))

    def above(self, values: Array) -> Array:
        """Return for each row the sum of the values of the rows of higher grades in its list."""
        table = self._table(values)
        sums = np.zeros_like(table)
        sums[:, :-2] = np.cumsum(table[:, :1:-1], axis=1)[:, ::-1]
        return self._spread(sums)

    @property
    def tier(self) -> Ints:
        """The number of the tier of each row, from 0 for the lowest grade of its list."""
        rows = np.empty(self.order.size, np.int64)
        rows[self.order] = np.repeat(self.place[1], self.sizes)
        return rows

    def counts(self) -> Array:
        """Return the number of rows of each tier, one row per list."""
        return self.sums(np.ones(self.order.size))

    def sums(self, values: Array) -> Array:
        """Return the sum of the values of each tier, one row per list."""
        return self._table(values)[:, 1:]

    def log_sums(self, values: Array) -> Array:
        """Return the log-sum-exp of each tier, one row per list; -inf for tiers without rows."""
        ordered = values[self.order]
        tops = np.maximum.reduceat(ordered, self.starts)
        sums = np.add.reduceat(np.exp(ordered - np.repeat(tops, self.sizes)), self.starts)
        table = np.full((self.place[0][-1] + 1, self.place[1].max() + 1), -np.inf)
        table[self.place] = tops + np.log(sums)
        return table

    def spread(self, table: Array) -> Array:
        """Return for each row the entry of its list and tier."""
        return self._spread(table)

    def _table(self, values: Array) -> Array:
        """Return the sum of each tier, one row per list, after a column of zeros."""
        lists, numbers = self.place
        table = np.zeros((lists[-1] + 1, numbers.max() + 2))
        table[lists, numbers + 1] = np.add.reduceat(values[self.order], self.starts)
        return table

    def _spread(self, table: Array) -> Array:
        """Return the entry of each row's tier."""
        lists, numbers = self.place
        rows = np.empty(self.order.size)
        rows[self.order] = np.repeat(table[lists, numbers], self.sizes)
        return rows
