"""Pairwise losses: functions of the margin z = f(q, d+) - f(q, d-)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Array, CoordinateProblem, Loss, LossInterface
from ranking.contracts.parameters import integer, number
from ranking.errors import PartError
from ranking.kernels.contract import PairwiseForm

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


KINK = 0.1
"""The distance to the kink of the hinge below which its majorizer does not become steeper."""


def hinge_curvature(margin: Array) -> Array:
    """Return the curvature of the parabola that touches the hinge at each margin, from above.

    ``max(0, x) = (|x| + x) / 2``, and ``|x| <= (x**2 / |x0| + |x0|) / 2`` with equality at x0.
    """
    return 0.5 / np.maximum(np.abs(1.0 - margin), KINK)


@dataclasses.dataclass
class Hinge(Loss):
    """The hinge ``max(0, 1 - z)``, which is 0 from a margin of 1 on."""

    name: ClassVar[str] = "hinge"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"pairwise", "coordinate"})
    form: ClassVar[PairwiseForm | None] = PairwiseForm.HINGE
    is_smooth: ClassVar[bool] = False

    @property
    def trials(self) -> int:
        """One negative, whatever its margin."""
        return 1

    def pairwise_value(self, margin: Array) -> Array:
        """Return max(0, 1 - z)."""
        return np.maximum(0.0, 1.0 - margin)

    def pairwise_slope(self, margin: Array) -> Array:
        """Return -1 below a margin of 1, else 0."""
        return np.where(margin < 1.0, -1.0, 0.0)

    def pairwise_curvature(self, margin: Array) -> Array:
        """Return the curvature of a parabola that bounds the loss and touches it at each margin."""
        return hinge_curvature(margin)

    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return 1: a violation counts the same at every rank."""
        return np.ones(rank.shape)

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Prepare the pairs of judged lists; the hinge is slightly smoothed."""
        from ranking_plugins.losses.pairwise_problem import PairProblem

        return PairProblem(self, data, weights, kernel, threads, curvature)


@dataclasses.dataclass
class AUC(Hinge):
    """The hinge under its name in recommendation: all wrong pairs have the same weight."""

    name: ClassVar[str] = "auc"


@dataclasses.dataclass
class SquaredHinge(Hinge):
    """``max(0, 1 - z)**2``."""

    name: ClassVar[str] = "squared-hinge"
    form: ClassVar[PairwiseForm | None] = PairwiseForm.SQUARED_HINGE
    is_smooth: ClassVar[bool] = True

    def pairwise_value(self, margin: Array) -> Array:
        """Return max(0, 1 - z)**2."""
        return np.maximum(0.0, 1.0 - margin) ** 2

    def pairwise_slope(self, margin: Array) -> Array:
        """Return -2 (1 - z) below a margin of 1, else 0."""
        return -2.0 * np.maximum(0.0, 1.0 - margin)

    def pairwise_curvature(self, margin: Array) -> Array:
        """Return 2, the largest second derivative."""
        return np.full(margin.shape, 2.0)


@dataclasses.dataclass
class Logistic(Hinge):
    """``log(1 + exp(-z))``."""

    name: ClassVar[str] = "logistic"
    form: ClassVar[PairwiseForm | None] = PairwiseForm.LOGISTIC
    is_smooth: ClassVar[bool] = True

    def pairwise_value(self, margin: Array) -> Array:
        """Return log(1 + exp(-z))."""
        return np.logaddexp(0.0, -margin)

    def pairwise_slope(self, margin: Array) -> Array:
        """Return -1 / (1 + exp(z))."""
        return -np.exp(-np.logaddexp(0.0, margin))

    def pairwise_curvature(self, margin: Array) -> Array:
        """Return tanh(z/2) / (2 z), the bound of Jaakkola and Jordan."""
        size = np.maximum(np.abs(margin), 1e-6)
        return np.tanh(0.5 * size) / (2.0 * size)


@dataclasses.dataclass
class BPR(Logistic):
    """Bayesian personalized ranking: the logistic loss of a pair."""

    name: ClassVar[str] = "bpr"


@dataclasses.dataclass
class WARP(Hinge):
    """The hinge, weighted by the estimated rank of the positive (Weston and Blitzer, 2012).

    Negatives are sampled until one violates the margin. If it is the N-th, the rank of the positive
    is about r = (documents - 1) // N, and the weight is L(r) = alpha_1 + ... + alpha_r, by default
    1 + 1/2 + ... + 1/r. Block coordinate descent minimizes `smooth-warp` in its place, whose weight
    does not jump.

    Parameters
    ----------
    max_trials : int
        The maximal number of sampled negatives; if none violates the margin, there is no step.
    decay : float
        alpha_i = i**-decay: 1 weighs the whole top of the list, more only its first places, and 0
        all places equally (L(r) = r, as AUC; then steps are long, and need a smaller learning
        rate).
    """

    name: ClassVar[str] = "warp"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"pairwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "coordinate": "the weight of a violation jumps when a document crosses the margin, so the "
        "loss is not continuous along a weight, and no parabola bounds it; with the weights fixed "
        "it would be bounded from below only"
    }

    max_trials: int = integer(30, minimum=2, maximum=10_000)
    decay: float = number(1.0, minimum=0.0)

    def idle(self) -> set[str]:
        """Return `decay` if it is 1."""
        return {"decay"} if self.decay == 1.0 else set()

    @property
    def trials(self) -> int:
        """The maximal number of sampled negatives."""
        return self.max_trials

    def rank_weight(self, rank: NDArray[np.int64]) -> Array:
        """Return the sum of i**-decay up to the rank."""
        places = np.arange(1, rank.max(initial=0) + 1)
        decay = getattr(self, "decay", 1.0)  # losses of plugins borrow this method
        alpha = 1.0 / places if decay == 1.0 else places.astype(np.float64) ** -decay
        weights: Array = np.concatenate(([0.0], np.cumsum(alpha)))[rank]
        return weights


@dataclasses.dataclass
class KosWARP(WARP):
    """WARP for the k-th best of n sampled positives (Weston, Yee and Weiss, 2013).

    A small k trains on the best positives, k = n on the worst.

    Parameters
    ----------
    max_trials : int
        The maximal number of sampled negatives.
    decay : float
        As in WARP.
    k, n : int
        The k-th best, by score, of n positives.
    """

    name: ClassVar[str] = "kos-warp"
    orders_positives: ClassVar[bool] = True

    k: int = integer(5, minimum=1, maximum=1000)
    n: int = integer(10, minimum=1, maximum=1000)

    def _setup(self) -> None:
        if self.k > self.n:
            raise PartError(f"{self.name} has k={self.k} and n={self.n}; k must not exceed n.")

    @property
    def positives(self) -> tuple[int, int]:
        """The number of sampled positives, and the rank from 0 of the one that is used."""
        return self.n, self.k - 1
