"""Metrics of a user who reads a list from the top: hit, ERR and RBP; and bpref."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.parameters import integer, number
from ranking.errors import DataError
from ranking.kernels.contract import RELEVANT
from ranking.metrics.ordered import OrderedLists, OrderedMetric
from ranking.metrics.ranked import Floats


@dataclasses.dataclass
class Hit(OrderedMetric):
    """Whether a relevant document is among the first k: trec_eval's success, the hit rate.

    Attributes
    ----------
    k : int
        The cut-off.
    """

    name: ClassVar[str] = "hit"

    k: int = integer(minimum=1)

    def values(self, lists: OrderedLists) -> Floats:
        """Return 1 or 0 for each list."""
        hits = (lists.grades >= RELEVANT) & (lists.ranks() <= self.k)
        return (lists.totals(hits) > 0).astype(np.float64)


@dataclasses.dataclass
class ExpectedReciprocalRank(OrderedMetric):
    """Expected reciprocal rank (Chapelle et al., 2009).

    The user stops at rank r with the probability (2**grade - 1) / 2**max_grade of those who come
    there, and the value is the expectation of 1 / r.

    Attributes
    ----------
    k : int, optional
        Cut-off; by default all ranks.
    max_grade : int
        The largest grade of the scale.
    """

    name: ClassVar[str] = "err"

    k: int | None = integer(None, minimum=1)
    max_grade: int = integer(4, minimum=1)

    def values(self, lists: OrderedLists) -> Floats:
        """Return the expectation for each list."""
        largest = lists.grades.max(initial=0.0)
        if largest > self.max_grade:
            raise DataError(
                f"err has max_grade={self.max_grade}, and the data have grade {largest:g}; write "
                f"err(max_grade={int(np.ceil(largest))})."
            )
        stop = (np.exp2(np.maximum(lists.grades, 0.0)) - 1.0) / 2.0**self.max_grade
        # The probability to come to a rank is the product of 1 - stop over those above it.
        with np.errstate(divide="ignore"):
            logs = np.log1p(-stop)
        running = np.cumsum(logs)
        before = running - logs
        heads = np.repeat(lists.pointers[:-1], np.diff(lists.pointers))
        reach = np.exp(before - before[heads]) if heads.size else before
        ranks = lists.ranks()
        within = ranks <= (self.k or ranks.size + 1)
        return lists.totals(np.where(within, stop * reach / ranks, 0.0))


@dataclasses.dataclass
class RankBiasedPrecision(OrderedMetric):
    """Rank-biased precision (Moffat and Zobel, 2008): (1 - p) times the sum of p**(r - 1).

    The sum is over the ranks r of relevant documents; documents that are not in the list add
    nothing.

    Attributes
    ----------
    k : int, optional
        Cut-off; by default all ranks.
    p : float
        The probability that the user goes on to the next rank.
    """

    name: ClassVar[str] = "rbp"

    k: int | None = integer(None, minimum=1)
    p: float = number(0.8, above=0.0, below=1.0)

    def values(self, lists: OrderedLists) -> Floats:
        """Return the sum for each list."""
        ranks = lists.ranks()
        counted = (lists.grades >= RELEVANT) & (ranks <= (self.k or ranks.size + 1))
        return (1.0 - self.p) * lists.totals(np.where(counted, self.p ** (ranks - 1.0), 0.0))


@dataclasses.dataclass
class Bpref(OrderedMetric):
    """The share of judged non-relevant documents above each relevant one, as trec_eval has it.

    Documents without a judgement are left out (Buckley and Voorhees, 2004).
    """

    name: ClassVar[str] = "bpref"

    def values(self, lists: OrderedLists) -> Floats:
        """Return the value for each list."""
        n_relevant = lists.n_relevant()
        rejected = lists.judged & (lists.grades < RELEVANT)
        missing = np.repeat(np.arange(lists.size), np.diff(lists.missing_pointers))
        lacking = np.bincount(missing[lists.missing_grades < RELEVANT], minlength=lists.size)
        n_rejected = lists.totals(rejected) + lacking
        running: NDArray[np.int64] = np.cumsum(rejected) - rejected
        heads = np.repeat(lists.pointers[:-1], np.diff(lists.pointers))
        above: NDArray[np.int64] = running - running[heads] if heads.size else running
        group = lists.lists()
        bound = np.minimum(n_relevant, n_rejected)[group]
        penalty = np.minimum(above, n_relevant[group]) / np.maximum(bound, 1.0)
        relevant = lists.grades >= RELEVANT
        total = lists.totals(np.where(relevant, 1.0 - penalty, 0.0))
        return np.divide(total, n_relevant, out=np.zeros(lists.size), where=n_relevant > 0)
