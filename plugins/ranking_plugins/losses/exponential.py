"""The exponential loss of a margin."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.contracts.loss import Array
from ranking.native import NativePairwiseLoss
from ranking_plugins.losses import _native


@dataclasses.dataclass
class Exponential(NativePairwiseLoss):
    """``exp(-z)``, the loss of RankBoost, and its tangent ``-e z`` below a margin of -1.

    With unbounded slopes, one pair that is far wrong would make stochastic gradient descent
    diverge. With the tangent, the loss is still convex, differentiable and at least the number of
    wrong pairs; its slope is at most e in size, and so is its second derivative.
    """

    name: ClassVar[str] = "exponential"

    def functions(self) -> object:
        """Return the capsule of the C functions."""
        return _native.pairwise(self.name)

    def pairwise_curvature(self, margin: Array) -> Array:
        """Return e, the largest second derivative."""
        return np.full(margin.shape, np.e)
