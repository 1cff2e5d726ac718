"""LambdaRank: pairs weighted by the change of NDCG if they swapped ranks.

Burges, Ragno and Le, Learning to rank with nonsmooth cost functions (NIPS 2006).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.parameters import integer
from ranking.kernels.contract import Ints
from ranking_plugins.losses.gains import normalized_gains, pessimistic_discounts
from ranking_plugins.losses.whole_lists import ValueLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class LambdaRank(Loss):
    """``sum_ij |delta NDCG_ij| log(1 + exp(f_j - f_i))`` over pairs with i of a higher grade.

    delta NDCG_ij is the change of NDCG if i and j swapped ranks. It is constant as long as the
    order of the scores is, so there the slopes are those of a weighted logistic loss; when two
    documents change ranks, the loss jumps. SGD takes the weights at the scores of each step. L-BFGS
    keeps the weights for an epoch, whose objective is then convex, and renews them before the next
    one; so the objective, which has the weights at its own scores, may also rise.

    Parameters
    ----------
    k : int
        Ranks beyond k have no weight (NDCG@k); 0 means that all ranks count.
    """

    name: ClassVar[str] = "lambdarank"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "coordinate": "the weights of the pairs jump when two documents change ranks, so the loss "
        "is not continuous along a weight, and no parabola bounds it",
        "pairwise": "the weight of a pair depends on the ranks of both documents in the whole list",
    }

    k: int = integer(0, minimum=0)

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list, with the weights at these scores."""
        return self.weighted(scores, grades, self._discounts(scores, grades))[0]

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score, the weights taken as constant."""
        return self.weighted(scores, grades, self._discounts(scores, grades))[1]

    def _discounts(self, scores: Array, grades: Array) -> Array:
        return pessimistic_discounts(scores, np.asarray(grades, np.float64), self.k)

    def weighted(self, scores: Array, grades: Array, discounts: Array) -> tuple[float, Array]:
        """Return loss and slopes of one list with given discounts of its documents."""
        gains = normalized_gains(grades, self.k)
        total, slopes = 0.0, np.zeros(scores.size)
        for above, below in _pairs_of_grades(grades):
            weights = np.abs(gains[above, None] - gains[below]) * np.abs(
                discounts[above, None] - discounts[below]
            )
            excess = scores[below] - scores[above, None]
            losses = np.logaddexp(0.0, excess)
            total += float((weights * losses).sum())
            pushes = weights * np.exp(excess - losses)  # the chance that j wins
            slopes[above] -= pushes.sum(axis=1)
            slopes[below] += pushes.sum(axis=0)
        return total, slopes

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> LambdaLists:
        """Prepare judged lists; all have the same weight."""
        return LambdaLists.of(self, data)


def _pairs_of_grades(grades: Array) -> Iterator[tuple[Ints, Ints]]:
    """Yield the documents of each grade but the lowest, and all that have lower ones."""
    order = np.argsort(grades, kind="stable")
    bounds = np.flatnonzero(np.diff(np.asarray(grades)[order])) + 1
    for start, stop in itertools.pairwise((*bounds.tolist(), order.size)):
        yield order[start:stop], order[:start]


@dataclasses.dataclass(frozen=True)
class LambdaLists(ValueLists):
    """Lists whose discounts may be frozen.

    Attributes
    ----------
    discounts : float64 array or None
        The discount of each row, or None for those at the scores at hand.
    """

    discounts: Array | None = None

    def freeze(self, scores: Array) -> Self:
        """Return the lists with the discounts at these scores."""
        loss: LambdaRank = self.loss  # type: ignore[assignment]
        parts = map(self._part, range(self.shares.size))
        frozen = [loss._discounts(scores[part], self.grades[part]) for part in parts]
        return dataclasses.replace(self, discounts=np.concatenate(frozen))

    def slopes(self, scores: Array) -> tuple[float, Array]:
        """Return the mean loss, and its derivative with respect to each score."""
        loss: LambdaRank = self.loss  # type: ignore[assignment]
        total, slopes = 0.0, np.empty(scores.size)
        for at, share in enumerate(self.shares.tolist()):
            part = self._part(at)
            own, grades = scores[part], self.grades[part]
            frozen = self.discounts
            discounts = loss._discounts(own, grades) if frozen is None else frozen[part]
            value, by_score = loss.weighted(own, grades, discounts)
            total += share * value
            slopes[part] = share * by_score
        return total, slopes
