"""The sum of absolute values."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.contracts.regularizer import Array, EntryPenalty, Regularizer
from ranking_plugins.regularizers.strength import check_strength


@dataclasses.dataclass
class L1(Regularizer):
    """Penalty ``strength * sum |w|``.

    Parameters
    ----------
    strength : float
        Larger values leave fewer weights.
    """

    name: ClassVar[str] = "l1"

    strength: float = 0.001

    def __post_init__(self) -> None:
        """Check the strength."""
        check_strength(self.name, self.strength)

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum |w|."""
        return self.strength * float(np.abs(parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the soft threshold: everything moves towards 0 by step * strength."""
        shrunk = np.abs(parameters) - step * self.strength
        return np.where(shrunk > 0.0, np.copysign(shrunk, parameters), 0.0)

    def entry_penalty(self) -> EntryPenalty:
        """Return l1 = strength."""
        return EntryPenalty(self.strength, 0.0)
