"""Absolute values and squares together."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.contracts.regularizer import Array, EntryPenalty, Regularizer
from ranking.errors import PartError
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import check_strength


@dataclasses.dataclass
class Elastic(Regularizer):
    """Penalty ``strength * (share * sum |w| + (1 - share) / 2 * sum w**2)``.

    Parameters
    ----------
    strength : float
        Larger values keep weights smaller, and fewer of them.
    share : float
        From 0, which is L2, to 1, which is L1.
    """

    name: ClassVar[str] = "elastic"
    inlined: ClassVar[frozenset[str]] = frozenset({"vector", "matrix"})

    strength: float = 0.001
    share: float = 0.5

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_strength(self.name, self.strength)
        if not 0.0 <= self.share <= 1.0:
            raise PartError(
                f"regularizer 'elastic' has share {self.share!r}; it must lie in [0, 1], 0 being "
                "l2 and 1 being l1."
            )

    def penalty(self, parameters: Array) -> float:
        """Return l1 * sum |w| + l2/2 * sum w**2."""
        l1, l2 = self.entry_penalty()
        squares = float((parameters * parameters).sum())
        return l1 * float(np.abs(parameters).sum()) + 0.5 * l2 * squares

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the soft threshold, shrunk by 1 / (1 + step * l2)."""
        l1, l2 = self.entry_penalty()
        return soft(parameters, step * l1) / (1.0 + step * l2)

    def entry_penalty(self) -> EntryPenalty:
        """Return l1 = strength * share, l2 = strength * (1 - share)."""
        return EntryPenalty(self.strength * self.share, self.strength * (1.0 - self.share))
