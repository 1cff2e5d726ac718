"""ListMLE: the likelihood of the order of the grades under the Plackett-Luce model.

Xia, Liu, Wang, Zhang and Li, Listwise approach to learning to rank (ICML 2008).
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ranking.contracts.loss import (
    Array,
    CoordinateProblem,
    ListwiseForm,
    Loss,
    LossInterface,
    SampledListForm,
)
from ranking.kernels.contract import Ints
from ranking_plugins.losses.list_problem import ListProblem
from ranking_plugins.losses.tiers import Tiers
from ranking_plugins.losses.whole_lists import ValueLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class ListMLE(Loss):
    """``sum_i log sum_j exp(f_j - f_i)``, j over all documents whose grade is not above that of i.

    i runs over the documents above the lowest grade of the list, whose inner order is unknown. The
    paper has one order of all documents; documents of one grade compete with each other here, as
    ties do in Breslow's likelihood of the Cox model, so that the order of the rows does not matter.
    The objective is the mean over these documents. The loss is convex.
    """

    name: ClassVar[str] = "listmle"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise", "coordinate"})

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the sum over the documents of one list."""
        order, ends, counts = _tiers(grades)
        below = np.logaddexp.accumulate(scores[order])[ends - 1]
        above = scores[order[ends[0] :]]
        return float((counts[1:] * below[1:]).sum() - above.sum())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score.

        A document j has the probability exp(f_j - b_t) to be the next in each tier t from its own
        upwards, where b_t is the log-sum-exp of all documents up to that tier.
        """
        order, ends, counts = _tiers(grades)
        slopes = np.zeros(scores.size)
        if ends.size == 1:
            return slopes
        below = np.logaddexp.accumulate(scores[order])[ends - 1]
        chances = np.full(ends.size, -np.inf)
        chances[1:] = np.log(counts[1:]) - below[1:]
        upwards = np.logaddexp.accumulate(chances[::-1])[::-1]
        expected = np.exp(scores[order] + np.repeat(upwards, counts))
        expected[ends[0] :] -= 1.0
        slopes[order] = expected - expected.mean()  # they add to 0 but for rounding
        return slopes

    def sampled_list_form(self) -> SampledListForm:
        """Return the domination loss, which this is for one positive against negatives."""
        return SampledListForm(ListwiseForm.DOMINATION, 1.0, 0.0)

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> ListMLELists:
        """Prepare judged lists: the mean is that over documents above the lowest grade."""
        return ListMLELists.of(self, data, by_document=True)

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Prepare the data by columns."""
        return ListProblem(self.whole_lists(data, kernel), data, weights, kernel, curvature)


@dataclasses.dataclass(frozen=True)
class ListMLELists(ValueLists):
    """All lists in one call."""

    @cached_property
    def _tiers(self) -> Tiers:
        return Tiers.of(self.list_ptr, self.grades)

    @cached_property
    def _counts(self) -> Array:
        """The number of rows of each tier, 0 for the lowest, whose order is unknown."""
        counts = self._tiers.counts()
        counts[:, 0] = 0.0
        return counts

    @cached_property
    def _above(self) -> Array:
        """1 for rows above the lowest grade of their list, else 0."""
        return (self._tiers.tier > 0).astype(np.float64)

    def value(self, scores: Array, threads: int) -> float:
        """Return the mean loss."""
        return self.slopes(scores)[0]

    def slopes(self, scores: Array) -> tuple[float, Array]:
        """Return the mean loss, and its derivative with respect to each score."""
        total = self.counts.sum()
        below = np.logaddexp.accumulate(self._tiers.log_sums(scores), axis=1)
        value = float((self._counts * below).sum() - (self._above * scores).sum())
        with np.errstate(divide="ignore"):
            chances = np.log(self._counts) - below
        upwards = np.logaddexp.accumulate(chances[:, ::-1], axis=1)[:, ::-1]
        expected = np.exp(scores + self._tiers.spread(upwards))
        return value / total, (expected - self._above) / total


def _tiers(grades: Array) -> tuple[Ints, Ints, Ints]:
    """Return the rows by grade, lowest first, the end of each grade, and its number of rows."""
    order = np.argsort(grades, kind="stable")
    _, counts = np.unique(grades, return_counts=True)
    return order, np.cumsum(counts), counts
