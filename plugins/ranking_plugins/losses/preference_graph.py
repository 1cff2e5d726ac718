"""The loss of preference graphs: one log-sum-exp for each subgraph of a list.

Dekel, Manning and Singer, Log-linear models for label ranking (NIPS 2003). The metric
`generalized-error` counts the subgraphs that are not all in order; this loss bounds it.
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, cast

import numpy as np

from ranking.contracts.loss import Array, CoordinateProblem, Loss, LossInterface
from ranking.contracts.parameters import choice
from ranking.kernels.contract import Ints
from ranking.kernels.domination import Columns
from ranking_plugins.losses.list_problem import ListProblem
from ranking_plugins.losses.row_columns import squared_ranges
from ranking_plugins.losses.tiers import Tiers
from ranking_plugins.losses.whole_lists import ValueLists, list_by_list

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel

GRAPHS = ("dominating", "dominated", "pairs", "list")


@dataclasses.dataclass
class PreferenceGraph(Loss):
    """``mean over subgraphs of log(1 + sum over edges (i, j) of exp(f_j - f_i))``, edge: i above j.

    The edges of a list are all pairs of different grades. The objective is the mean over lists,
    each the mean over its subgraphs. The loss is convex.

    Parameters
    ----------
    graphs : {"dominating", "dominated", "pairs", "list"}
        The subgraphs: the edges from each document that is above others (the sum of `domination`);
        the edges to each document that is below others; single edges; or all edges of the list.
    """

    name: ClassVar[str] = "preference-graph"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise", "coordinate"})

    graphs: str = choice("dominating", *GRAPHS)

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the mean over the subgraphs of one list."""
        return self.of_list(scores, grades)[0]

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score."""
        return self.of_list(scores, grades)[1]

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> GraphLists:
        """Prepare judged lists, all with the same weight."""
        return GraphLists.of(self, data)

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Prepare the data by columns."""
        return ListProblem(self.whole_lists(data, kernel), data, weights, kernel, curvature)

    def of_list(self, scores: Array, grades: Array) -> tuple[float, Array]:
        """Return value and slopes of one list."""
        if grades.size < 2 or np.ptp(grades) == 0.0:
            return 0.0, np.zeros(scores.size)
        if self.graphs == "dominated":  # the list upside down
            value, slopes = _dominating(-scores, -grades)
            return value, -slopes
        return {"dominating": _dominating, "pairs": _pairs, "list": _all_edges}[self.graphs](
            scores, grades
        )


@dataclasses.dataclass(frozen=True)
class GraphLists(ValueLists):
    """All lists in one call, with a bound of the second derivative along each feature."""

    @cached_property
    def _graphs(self) -> str:
        return cast(PreferenceGraph, self.loss).graphs

    @cached_property
    def _sign(self) -> float:
        """-1 if the lists are taken upside down, else 1."""
        return -1.0 if self._graphs == "dominated" else 1.0

    @cached_property
    def _tiers(self) -> Tiers:
        return Tiers.of(self.list_ptr, self._sign * self.grades)

    @cached_property
    def _weights(self) -> Array:
        """The weight of each row: the share of its list, by the number of rows above the lowest."""
        sizes = np.diff(self.list_ptr)
        if self._graphs == "list":
            return np.repeat(self.shares, sizes)
        upper = np.add.reduceat((self._tiers.tier > 0).astype(np.float64), self.list_ptr[:-1])
        return np.repeat(self.shares / upper, sizes)

    def value(self, scores: Array, threads: int) -> float:
        """Return the mean loss."""
        return self.slopes(scores)[0]

    def slopes(self, scores: Array) -> tuple[float, Array]:
        """Return the mean loss, and its derivative with respect to each score."""
        if self._graphs == "pairs":
            return list_by_list(self, scores)
        f, tiers = self._sign * scores, self._tiers
        sums = tiers.log_sums(f)
        below = np.full_like(sums, -np.inf)
        below[:, 1:] = np.logaddexp.accumulate(sums, axis=1)[:, :-1]
        gap = tiers.spread(below) - f
        if self._graphs == "list":
            total = np.logaddexp.reduceat(gap, self.list_ptr[:-1])
            excess = np.logaddexp(0.0, total)
            value = float(self.shares @ excess)
            excess = np.repeat(excess, np.diff(self.list_ptr))
        else:
            excess = np.logaddexp(0.0, gap)
            value = float(self._weights @ excess)
        lost = self._weights * np.exp(gap - excess)
        with np.errstate(divide="ignore", invalid="ignore"):
            chances = np.log(tiers.sums(lost)) - below
        chances[:, 0] = -np.inf
        above = np.full_like(sums, -np.inf)
        above[:, :-1] = np.logaddexp.accumulate(chances[:, :0:-1], axis=1)[:, ::-1]
        return value, self._sign * (np.exp(f + tiers.spread(above)) - lost)

    def list_slopes(self, at: int, scores: Array) -> tuple[float, Array]:
        """Return loss and slopes of one list."""
        return cast(PreferenceGraph, self.loss).of_list(scores, self.grades[self._part(at)])

    def curvature_bounds(self, columns: Columns) -> Array:
        """Return the bound for each column.

        The second derivative of a subgraph is a variance of differences x_j - x_i. Those of one
        document have the range R of the feature in the list, so that it is at most R^2 / 4; those
        of all edges have twice that range.
        """
        squares = squared_ranges(columns, self.list_ptr)
        bounds: Array = (self.shares[:, None] * squares).sum(axis=0)
        return bounds if self._graphs == "list" else 0.25 * bounds


def _tiers(grades: Array) -> tuple[Ints, Ints, Ints]:
    """Return the rows by grade, lowest first, and the start and number of rows of each grade."""
    order = np.argsort(grades, kind="stable")
    _, starts, counts = np.unique(grades[order], return_index=True, return_counts=True)
    return order, starts, counts


def _log_sums(values: Array, starts: Ints, counts: Ints) -> Array:
    """Return the log-sum-exp of each tier."""
    tops = np.maximum.reduceat(values, starts)
    sums: Array = tops + np.log(np.add.reduceat(np.exp(values - np.repeat(tops, counts)), starts))
    return sums


def _edges_down(scores: Array, grades: Array) -> tuple[Ints, Ints, Ints, Array, Array]:
    """Return the tiers, the scores by tier, and the log-sum-exp of the scores below each tier."""
    order, starts, counts = _tiers(grades)
    f = scores[order]
    below = np.full(starts.size, -np.inf)
    below[1:] = np.logaddexp.accumulate(_log_sums(f, starts, counts))[:-1]
    return order, starts, counts, f, below


def _dominating(scores: Array, grades: Array) -> tuple[float, Array]:
    """Return the mean of ``log(1 + exp(b_i - f_i))``, b_i the log-sum-exp of the scores below i."""
    order, starts, counts, f, below = _edges_down(scores, grades)
    gap = np.repeat(below, counts) - f
    excess = np.logaddexp(0.0, gap)
    upper = f.size - counts[0]
    lost = np.exp(gap - excess) / upper
    slopes = np.empty(f.size)
    slopes[order] = _passed_down(f, below, np.add.reduceat(lost, starts), counts) - lost
    return float(excess.sum()) / upper, slopes


def _all_edges(scores: Array, grades: Array) -> tuple[float, Array]:
    """Return ``log(1 + S)``, S the sum of ``exp(f_j - f_i)`` over all edges."""
    order, starts, counts, f, below = _edges_down(scores, grades)
    gap = np.repeat(below, counts) - f
    total = np.logaddexp.reduce(gap)
    value = np.logaddexp(0.0, total)
    lost = np.exp(gap - value)
    slopes = np.empty(f.size)
    slopes[order] = _passed_down(f, below, np.add.reduceat(lost, starts), counts) - lost
    return float(value), slopes


def _passed_down(f: Array, below: Array, lost: Array, counts: Ints) -> Array:
    """Return what each document gains: from each tier above, in proportion to its exponential."""
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = np.log(lost) - below
    chances[0] = -np.inf
    above = np.full(counts.size, -np.inf)
    above[:-1] = np.logaddexp.accumulate(chances[:0:-1])[::-1]
    gained: Array = np.exp(f + np.repeat(above, counts))
    return gained


def _pairs(scores: Array, grades: Array) -> tuple[float, Array]:
    """Return the mean of ``log(1 + exp(f_j - f_i))`` over all edges, tier by tier."""
    order, starts, counts = _tiers(grades)
    f, slopes, value, edges = scores[order], np.zeros(scores.size), 0.0, 0
    for start, count in zip(starts[1:].tolist(), counts[1:].tolist(), strict=True):
        gap = f[:start] - f[start : start + count, None]
        excess = np.logaddexp(0.0, gap)
        chance = np.exp(gap - excess)
        value += float(excess.sum())
        edges += gap.size
        slopes[start : start + count] -= chance.sum(axis=1)
        slopes[:start] += chance.sum(axis=0)
    result = np.empty(scores.size)
    result[order] = slopes / edges
    return value / edges, result
