"""ApproxNDCG: NDCG with smooth ranks.

Qin, Liu and Li, A general approximation framework for direct optimization of information retrieval
measures (Information Retrieval, 2010).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import expit

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.parameters import number
from ranking.kernels.contract import Ints
from ranking_plugins.losses.gains import normalized_gains
from ranking_plugins.losses.whole_lists import ValueLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class ApproxNDCG(Loss):
    """``1 - sum_i G_i / log2(1 + rank_i)``, rank_i = 1 + sum_j sigmoid((f_j - f_i) / temperature).

    G_i is the gain 2**grade - 1 divided by the ideal DCG. As the temperature falls, the ranks tend
    to the exact ones and the loss to 1 - NDCG; its slopes then vanish away from ties. The loss is
    not convex: a solver ends in a local minimum.

    Parameters
    ----------
    temperature : float
        The difference of scores at which a document counts as mostly above another (1 / alpha of
        the paper).
    """

    name: ClassVar[str] = "approx-ndcg"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "coordinate": "the loss is not convex, and its curvature is bounded only by multiples of "
        "1 / temperature**2, with which guaranteed steps would be tiny",
        "pairwise": "the rank of a document depends on all others of its list",
    }

    temperature: float = number(0.1, above=0.0)

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return 1 - NDCG with smooth ranks; 0 if no document has a gain."""
        relevant, gains, chances = self._chances(scores, grades)
        if not relevant.size:
            return 0.0
        return float(1.0 - (gains * np.log(2.0) / np.log1p(_ranks(chances))).sum())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score."""
        relevant, gains, chances = self._chances(scores, grades)
        slopes = np.zeros(scores.size)
        if not relevant.size:
            return slopes
        ranks = _ranks(chances)
        by_rank = gains * np.log(2.0) / ((1.0 + ranks) * np.log1p(ranks) ** 2)
        pushes = by_rank[:, None] * chances * (1.0 - chances) / self.temperature
        pushes[np.arange(relevant.size), relevant] = 0.0
        slopes += pushes.sum(axis=0)
        slopes[relevant] -= pushes.sum(axis=1)
        return slopes

    def _chances(self, scores: Array, grades: Array) -> tuple[Ints, Array, Array]:
        """Return the documents with gains, the gains, and sigmoid((f_j - f_i) / temperature).

        That of a document with itself is 1/2, which is taken out of the sum of the ranks.
        """
        every = normalized_gains(grades)
        relevant = np.flatnonzero(every)
        chances: Array = expit((scores - scores[relevant, None]) / self.temperature)
        return relevant, every[relevant], chances

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> ValueLists:
        """Prepare judged lists; all have the same weight."""
        return ValueLists.of(self, data)


def _ranks(chances: Array) -> Array:
    ranks: Array = 0.5 + chances.sum(axis=1)
    return ranks
