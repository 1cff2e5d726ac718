"""L2: the sum of squares."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import (
    Array,
    EntryPenalty,
    FeatureIds,
    ParameterForm,
    Regularizer,
)


@dataclasses.dataclass
class L2(Regularizer):
    """Penalty ``strength / 2 * sum w**2``.

    Parameters
    ----------
    strength : float
        Larger values keep weights smaller.
    """

    name: ClassVar[str] = "l2"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})

    strength: float = number(0.001, minimum=0.0)

    def penalty(self, parameters: Array) -> float:
        """Return strength/2 * sum w**2."""
        return 0.5 * self.strength * float((parameters * parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters, shrunk by 1 / (1 + step * strength)."""
        return parameters / (1.0 + step * self.strength)

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> EntryPenalty:
        """Return l2 = strength."""
        return EntryPenalty(l2=self.strength)
