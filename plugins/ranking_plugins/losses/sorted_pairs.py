"""Sums over pairs of rows of one query by sorting, without enumerating the pairs.

A *group* consists of the rows of one grade of a query, its tops, and all rows of the query with
lower grades, its bottoms; so every pair is in one group, and a row is a top at most once. A top i
has the weight ``c_i = 1 / (tops * bottoms of its group)``: all tops have the same total weight.

If the bottoms of a group are sorted by score, those within some distance of a top are adjacent, a
*window* [a_i, b_i). Sums over windows are differences of cumulative sums; sums over the tops whose
window contains a bottom are cumulative sums of changes at a and b. So any polynomial of two scores
within windows is summed in O(n log n) for n rows with few grades (as in Joachims, 2006).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ranking.data.judged_lists import JudgedLists
from ranking_plugins.preference_pairs import LowerRows

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def spans(starts: Ints, sizes: Ints) -> Ints:
    """Return start, start + 1, ... for each start, concatenated."""
    before = np.cumsum(sizes) - sizes
    return np.repeat(starts - before, sizes) + np.arange(int(sizes.sum()))


@dataclasses.dataclass(frozen=True)
class Groups:
    """The groups of a data set, in the order of their queries.

    Attributes
    ----------
    tops, bottoms : int64 arrays
        Rows; a row is among the bottoms of every higher grade.
    top_group, bottom_group : int64 arrays
        The group of each.
    top_ptr, bottom_ptr : int64 arrays
        Group g has the positions ptr[g]:ptr[g + 1].
    query_ptr : int64 array
        Query q has the groups query_ptr[q]:query_ptr[q + 1].
    weights : float64 array
        c of each top.
    n_rows : int
    """

    tops: Ints
    bottoms: Ints
    top_group: Ints
    bottom_group: Ints
    top_ptr: Ints
    bottom_ptr: Ints
    query_ptr: Ints
    weights: Array
    n_rows: int

    @classmethod
    def of(cls, data: JudgedLists) -> Self:
        """Group the rows by grade; refuse data without two different grades in a query."""
        rows = LowerRows.of(data)
        first, below = rows.first[rows.better], rows.below[rows.better]
        begin = np.flatnonzero(
            np.diff(first + below, prepend=-1)
        )  # the first position of the grade
        sizes = np.diff(np.append(begin, rows.better.size))
        first, below = first[begin], below[begin]
        numbers = np.arange(begin.size)
        query = data.row_groups[rows.order[first]]
        return cls(
            rows.order[rows.better],
            rows.order[spans(first, below)],
            np.repeat(numbers, sizes),
            np.repeat(numbers, below),
            np.append(0, np.cumsum(sizes)),
            np.append(0, np.cumsum(below)),
            np.append(0, np.cumsum(np.bincount(query, minlength=data.n_queries))),
            np.repeat(1.0 / (rows.better.size * below), sizes),
            data.n_rows,
        )

    def positions(self, groups: Ints) -> tuple[Ints, Ints]:
        """Return the positions of the tops and of the bottoms of some groups."""
        return (
            spans(self.top_ptr[groups], np.diff(self.top_ptr)[groups]),
            spans(self.bottom_ptr[groups], np.diff(self.bottom_ptr)[groups]),
        )


@dataclasses.dataclass(frozen=True)
class Windows:
    """Groups with bottoms sorted by score, and a window of bottoms for each top.

    Attributes
    ----------
    tops, bottoms : int64 arrays
        Rows.
    top_group, bottom_ptr : int64 arrays
        The group of each top, and the start of the bottoms of each group.
    weights : float64 array
        c of each top.
    a, b : int64 arrays
        The window of each top among the bottoms.
    """

    tops: Ints
    bottoms: Ints
    top_group: Ints
    bottom_ptr: Ints
    weights: Array
    a: Ints
    b: Ints

    def quadratic(self, x: Array, inner: float, outer: float) -> tuple[Array, Array, float]:
        """Return the derivative of ``sum c_i kappa (x_i - x_j)**2 / 2`` for tops and bottoms.

        kappa is `inner` within windows, and `outer` is added for all pairs of a group. The last
        number is twice the sum itself.
        """
        high, low = x[self.tops], x[self.bottoms]
        begin, end = self.bottom_ptr[:-1], self.bottom_ptr[1:]
        sums = running(low)
        weighted, size = self.weights * high, low.size + 1
        count = inner * (self.b - self.a) + outer * (end - begin)[self.top_group]
        below = inner * (sums[self.b] - sums[self.a])
        below += outer * (sums[end] - sums[begin])[self.top_group]
        at_top = self.weights * (count * high - below)
        change = inner * (np.bincount(self.a, weighted, size) - np.bincount(self.b, weighted, size))
        total = outer * np.bincount(self.top_group, weighted, begin.size)
        change[begin] += total
        change[end] -= total
        at_bottom = (inner * self.cover + outer * self.reach) * low - np.cumsum(change)[:-1]
        return at_top, at_bottom, float((high * at_top).sum() + (low * at_bottom).sum())

    @functools.cached_property
    def cover(self) -> Array:
        """The sum of c over the tops whose window contains a bottom, for each bottom."""
        return self.covering(np.ones(self.tops.size))

    @functools.cached_property
    def reach(self) -> Array:
        """The sum of c over all tops of its group, for each bottom."""
        by_group = np.bincount(self.top_group, self.weights, self.bottom_ptr.size - 1)
        return np.repeat(by_group, np.diff(self.bottom_ptr))

    def covering(self, values: Array) -> Array:
        """Return the sum of c times a value over the tops whose window contains each bottom."""
        weighted, size = self.weights * values, self.bottoms.size + 1
        change = np.bincount(self.a, weighted, size) - np.bincount(self.b, weighted, size)
        return np.cumsum(change)[:-1]

    def by_row(self, at_top: Array, at_bottom: Array, n_rows: int) -> Array:
        """Return the sum of the values of tops and bottoms for each row."""
        rows: Array = np.bincount(self.bottoms, at_bottom, n_rows).astype(np.float64, copy=False)
        rows[self.tops] += at_top
        return rows


def running(values: Array) -> Array:
    """Return the sums of the first 0, 1, 2, ... values."""
    return np.concatenate(([0.0], np.cumsum(values)))


@dataclasses.dataclass(frozen=True)
class Sorted:
    """Groups whose bottoms are sorted by some scores.

    Attributes
    ----------
    order : int64 array
        The positions of the bottoms, sorted by group and score.
    low, high : float64 arrays
        The scores of bottoms, in this order, and of tops, minus the mean of their group. Pairs do
        not depend on the mean, and cumulative sums stay small without it.
    """

    groups: Groups
    order: Ints
    low: Array
    high: Array
    _keys: Array
    _base: Array

    @classmethod
    def of(cls, groups: Groups, scores: Array) -> Self:
        """Sort by group and score, with the scores of a group shifted beyond the previous group."""
        low, high = scores[groups.bottoms], scores[groups.tops]
        mean = np.add.reduceat(low, groups.bottom_ptr[:-1]) / np.diff(groups.bottom_ptr)
        low, high = low - mean[groups.bottom_group], high - mean[groups.top_group]
        lowest = min(low.min(), high.min()) - 2.0
        span = max(low.max(), high.max()) + 2.0 - lowest
        base = span * np.arange(mean.size) - lowest
        keys = low + base[groups.bottom_group]
        order = np.argsort(keys, kind="stable")
        return cls(groups, order, low[order], high, keys[order], base[groups.top_group])

    def beyond(self, distance: float) -> Ints:
        """Return for each top the first bottom whose score exceeds its own minus a distance <= 2.

        Shifted scores are compared; rounding errors matter only at the border, where the losses of
        this package are continuous in value and slope.
        """
        return np.searchsorted(self._keys, self.high - distance + self._base, side="right")

    def end(self) -> Ints:
        """Return for each top the end of its bottoms."""
        return self.groups.bottom_ptr[self.groups.top_group + 1]

    def begin(self) -> Ints:
        """Return for each top the first of its bottoms."""
        return self.groups.bottom_ptr[self.groups.top_group]

    def windows(self, a: Ints, b: Ints) -> Windows:
        """Return all groups with windows [a, b)."""
        own = self.groups
        return Windows(
            own.tops, own.bottoms[self.order], own.top_group, own.bottom_ptr, own.weights, a, b
        )

    def part(self, whole: Windows, queries: Ints) -> Windows:
        """Return the groups of some queries."""
        own = self.groups
        selected = spans(own.query_ptr[queries], np.diff(own.query_ptr)[queries])
        tops, bottoms = own.positions(selected)
        sizes = np.diff(own.bottom_ptr)[selected]
        ptr = np.append(0, np.cumsum(sizes))
        counts = np.diff(own.top_ptr)[selected]
        shift = np.repeat(ptr[:-1] - own.bottom_ptr[selected], counts)
        return Windows(
            whole.tops[tops],
            whole.bottoms[bottoms],
            np.repeat(np.arange(selected.size), counts),
            ptr,
            whole.weights[tops],
            whole.a[tops] + shift,
            whole.b[tops] + shift,
        )
