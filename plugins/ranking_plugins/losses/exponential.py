"""The exponential loss of a margin."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.native import NativePairwiseLoss
from ranking_plugins.losses import _native


@dataclasses.dataclass
class Exponential(NativePairwiseLoss):
    """``exp(-z)``, the loss of RankBoost and of Collins and Koo (2005).

    It is convex and bounds the number of wrong pairs; pairs that are far wrong dominate it. Below a
    margin of -708, where the exponential would overflow, value and slope stay constant.
    """

    name: ClassVar[str] = "exponential"

    def functions(self) -> object:
        """Return the capsule of the C functions."""
        return _native.pairwise(self.name)
