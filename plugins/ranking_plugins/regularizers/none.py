"""No penalty."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.regularizer import Array, EntryPenalty, Regularizer


@dataclasses.dataclass
class NoPenalty(Regularizer):
    """Penalty 0."""

    name: ClassVar[str] = "none"

    def penalty(self, parameters: Array) -> float:
        """Return 0."""
        return 0.0

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters as they are."""
        return parameters.copy()

    def entry_penalty(self) -> EntryPenalty:
        """Return l1 = l2 = 0."""
        return EntryPenalty(0.0, 0.0)
