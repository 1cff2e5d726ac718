"""No penalty."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.regularizer import Array, EntryPenalty, Regularizer, RowPenalty


@dataclasses.dataclass
class NoPenalty(Regularizer):
    """Penalty 0."""

    name: ClassVar[str] = "none"
    inlined: ClassVar[frozenset[str]] = frozenset({"vector", "matrix", "factors"})

    def penalty(self, parameters: Array) -> float:
        """Return 0."""
        return 0.0

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters as they are."""
        return parameters.copy()

    def entry_penalty(self) -> EntryPenalty:
        """Return l1 = l2 = 0."""
        return EntryPenalty(0.0, 0.0)

    def row_penalty(self) -> RowPenalty:
        """Return no decay and no largest norm."""
        return RowPenalty(0.0, 0.0)
