"""ListNet: the cross entropy of the top-one probabilities of grades and scores.

Cao, Qin, Liu, Tsai and Li, Learning to rank: from pairwise to listwise approach (ICML 2007).
"""

from __future__ import annotations

import dataclasses
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ranking.contracts.loss import Array, CoordinateProblem, Loss, LossInterface
from ranking.contracts.parameters import number
from ranking.kernels.contract import Ints
from ranking_plugins.losses.list_problem import ListProblem
from ranking_plugins.losses.whole_lists import ValueLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class ListNet(Loss):
    """``-sum_i p_i log q_i`` with p the softmax of the grades and q that of the scores.

    Both are the probabilities of being ranked first. The loss is convex in the scores. Lists with
    a single grade order nothing and are left out.

    Parameters
    ----------
    temperature : float
        p is the softmax of grade / temperature. 1 is the paper's; smaller values give the highest
        grade more of the probability.
    """

    name: ClassVar[str] = "listnet"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise", "coordinate"})

    temperature: float = number(1.0, above=0.0)

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the cross entropy of one list."""
        return float(-(self.targets(grades) * _log_softmax(scores)).sum())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return q - p."""
        slopes: Array = np.exp(_log_softmax(scores)) - self.targets(grades)
        slopes -= slopes.mean()  # they add to 0 but for rounding
        return slopes

    def targets(self, grades: Array) -> Array:
        """Return p."""
        targets: Array = np.exp(_log_softmax(np.asarray(grades, np.float64) / self.temperature))
        return targets

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> ListNetLists:
        """Prepare judged lists; all have the same weight."""
        return ListNetLists.of(self, data)

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Prepare the data by columns."""
        return ListProblem(self.whole_lists(data, kernel), data, weights, kernel, curvature)


@dataclasses.dataclass(frozen=True)
class ListNetLists(ValueLists):
    """All lists in one call."""

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows of each list."""
        sizes: Ints = np.diff(self.list_ptr)
        return sizes

    @cached_property
    def row_targets(self) -> Array:
        """The target probability of each row."""
        parts = [self.grades[self._part(at)] for at in range(self.shares.size)]
        loss: ListNet = self.loss  # type: ignore[assignment]
        return np.concatenate([loss.targets(grades) for grades in parts])

    def value(self, scores: Array, threads: int) -> float:
        """Return the mean cross entropy."""
        return self.slopes(scores)[0]

    def slopes(self, scores: Array) -> tuple[float, Array]:
        """Return the mean cross entropy, and its derivative with respect to each score."""
        first = self.list_ptr[:-1]
        shifted = scores - np.repeat(np.maximum.reduceat(scores, first), self.sizes)
        powers = np.exp(shifted)
        totals = np.add.reduceat(powers, first)
        losses = np.log(totals) - np.add.reduceat(self.row_targets * shifted, first)
        shares = np.repeat(self.shares, self.sizes)
        slopes = shares * (powers / np.repeat(totals, self.sizes) - self.row_targets)
        return float((self.shares * losses).sum()), slopes


def _log_softmax(values: Array) -> Array:
    shifted: Array = values - values.max()
    shifted -= np.log(np.exp(shifted).sum())
    return shifted
