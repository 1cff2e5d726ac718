"""The sum of squares."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.regularizer import Array, EntryPenalty, Regularizer, RowPenalty
from ranking.errors import CombinationError
from ranking_plugins.regularizers.strength import check_strength


@dataclasses.dataclass
class L2(Regularizer):
    """Penalty ``strength / 2 * sum w**2``.

    Parameters
    ----------
    strength : float
        Larger values keep weights smaller.
    """

    name: ClassVar[str] = "l2"
    inlined: ClassVar[frozenset[str]] = frozenset({"vector", "matrix", "factors"})

    strength: float = 0.001

    def __post_init__(self) -> None:
        """Check the strength."""
        check_strength(self.name, self.strength)

    def penalty(self, parameters: Array) -> float:
        """Return strength/2 * sum w**2."""
        return 0.5 * self.strength * float((parameters * parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters, shrunk by 1 / (1 + step * strength)."""
        return parameters / (1.0 + step * self.strength)

    def maximize(self, gain: Array) -> Array:
        """Return gain / strength, where the gain's pull and the penalty's balance."""
        if self.strength == 0.0:
            raise CombinationError("l2 with strength 0 leaves a maximum unbounded; give it one.")
        return gain / self.strength

    def entry_penalty(self) -> EntryPenalty:
        """Return l2 = strength."""
        return EntryPenalty(0.0, self.strength)

    def row_penalty(self) -> RowPenalty:
        """Return l2 = strength."""
        return RowPenalty(self.strength, 0.0)
