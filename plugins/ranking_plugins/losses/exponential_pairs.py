"""The exponential loss of all pairs of a list: RankBoost's, and the ExpLoss of Collins.

Freund, Iyer, Schapire and Singer, An efficient boosting algorithm for combining preferences (JMLR
2003); Collins and Koo, Discriminative reranking for natural language parsing (2000).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.parameters import choice
from ranking_plugins.losses.tiers import Tiers
from ranking_plugins.losses.whole_lists import ValueLists, list_by_list

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel

LARGEST = 300.0
"""The largest difference of scores whose exponential is computed; beyond, its tangent."""


@dataclasses.dataclass
class ExponentialPairs(Loss):
    """``sum_ij exp(f_j - f_i)`` over pairs with i of a higher grade; the objective is their mean.

    Its logarithmic sister, ``sum_i log(1 + sum_j exp(f_j - f_i))``, is the loss `domination`
    (LogLoss in Collins and Koo). The loss is convex, with unbounded slopes: RankBoost decreases it
    by an exact step for each weak ranker, and L-BFGS by a line search.

    Parameters
    ----------
    weighting : {"pairs", "queries"}
        Whether all pairs have the same weight, or all queries, each as the mean of its pairs.
    """

    name: ClassVar[str] = "exponential-pairs"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "coordinate": "the second derivative of an exponential has no bound, so no parabola bounds "
        "the loss",
    }

    weighting: str = choice("pairs", "pairs", "queries")

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the sum over all pairs of one list."""
        return pair_sums(scores, grades)[0]

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score."""
        return pair_sums(scores, grades)[1]

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> PairSums:
        """Prepare judged lists: the mean is that over all pairs, or over queries."""
        lists = ValueLists.of(self, data)
        parts = map(lists._part, range(lists.shares.size))
        counts = [count_pairs(lists.grades[part]) for part in parts]
        return PairSums(
            self,
            lists.rows,
            lists.list_ptr,
            lists.grades,
            np.array(counts, np.float64),
            by_query=self.weighting == "queries",
        )


@dataclasses.dataclass(frozen=True)
class PairSums(ValueLists):
    """The pairs of all lists in one call.

    Attributes
    ----------
    counts : float64 array
        The number of pairs of each list.
    by_query : bool
        Whether all queries have the same weight, else all pairs.
    """

    by_query: bool = False

    @cached_property
    def shares(self) -> Array:
        """The weight of each list."""
        if self.by_query:
            return np.full(self.counts.size, 1.0 / self.counts.size)
        shares: Array = self.counts / self.counts.sum()
        return shares

    @cached_property
    def _tiers(self) -> Tiers:
        return Tiers.of(self.list_ptr, self.grades)

    def value(self, scores: Array, threads: int) -> float:
        """Return the mean loss."""
        return self.slopes(scores)[0]

    def slopes(self, scores: Array) -> tuple[float, Array]:
        """Return the mean loss, and its derivative with respect to each score."""
        sizes, first = np.diff(self.list_ptr), self.list_ptr[:-1]
        high, low = np.maximum.reduceat(scores, first), np.minimum.reduceat(scores, first)
        weights = np.repeat(self.shares / self.counts, sizes)
        if (high - low).max() > LARGEST:
            return list_by_list(self, scores)
        shifted = scores - np.repeat(0.5 * (high + low), sizes)
        up, down = np.exp(shifted), np.exp(-shifted)
        lost = weights * down * self._tiers.below(up)
        return float(lost.sum()), weights * up * self._tiers.above(down) - lost

    def masses(self, scores: Array, weak: Array) -> tuple[float, float]:
        """Return the share of the loss of pairs that a weak ranker orders rightly and wrongly.

        Parameters
        ----------
        weak : array
            0 or 1 for each row.
        """
        sizes, first = np.diff(self.list_ptr), self.list_ptr[:-1]
        high, low = np.maximum.reduceat(scores, first), np.minimum.reduceat(scores, first)
        shifted = scores - np.repeat(0.5 * (high + low), sizes)
        up, down = np.exp(shifted), np.repeat(self.shares / self.counts, sizes) * np.exp(-shifted)
        every = float((down * self._tiers.below(up)).sum())
        right = float((down * weak * self._tiers.below(up * (1.0 - weak))).sum())
        wrong = float((down * (1.0 - weak) * self._tiers.below(up * weak)).sum())
        return right / every, wrong / every


def count_pairs(grades: Array) -> int:
    """Return the number of pairs of documents with different grades."""
    _, counts = np.unique(grades, return_counts=True)
    return int(grades.size**2 - (counts**2).sum()) // 2


def pair_sums(scores: Array, grades: Array) -> tuple[float, Array]:
    """Return the sum over the pairs of a list, and its slopes, in time linear in the documents.

    A document i of a higher grade has the sum ``exp(-f_i) sum_j exp(f_j)`` over those below it, and
    a document j the slope ``exp(f_j) sum_i exp(-f_i)`` over those above it: running sums by grade.
    """
    if np.ptp(scores) > LARGEST:
        return _pair_by_pair(scores, grades)
    order = np.argsort(grades, kind="stable")
    _, counts = np.unique(grades, return_counts=True)
    starts = np.cumsum(counts) - counts
    shifted = scores[order] - 0.5 * (scores.max() + scores.min())
    up, down = np.exp(shifted), np.exp(-shifted)
    below = np.cumsum(np.add.reduceat(up, starts)) - np.add.reduceat(up, starts)
    tiers = np.add.reduceat(down, starts)
    above = np.cumsum(tiers[::-1])[::-1] - tiers
    lost = down * np.repeat(below, counts)
    slopes = np.empty(scores.size)
    slopes[order] = up * np.repeat(above, counts) - lost
    return float(lost.sum()), slopes


def _pair_by_pair(scores: Array, grades: Array) -> tuple[float, Array]:
    """Compute the sums where exponentials may overflow: beyond `LARGEST` by the tangent."""
    outranks = grades[:, None] > grades[None, :]
    excess = np.where(outranks, scores - scores[:, None], -np.inf)
    inside = np.exp(np.minimum(excess, LARGEST))
    beyond = np.where(excess > LARGEST, excess - LARGEST, 0.0)
    return float((inside * (1.0 + beyond)).sum()), inside.sum(axis=0) - inside.sum(axis=1)
