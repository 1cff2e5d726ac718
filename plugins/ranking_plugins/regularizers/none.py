"""No penalty."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.regularizer import (
    Array,
    EntryPenalty,
    FeatureIds,
    ParameterForm,
    Regularizer,
    RowPenalty,
)


@dataclasses.dataclass
class NoPenalty(Regularizer):
    """Penalty 0."""

    name: ClassVar[str] = "none"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = forms

    def penalty(self, parameters: Array) -> float:
        """Return 0."""
        return 0.0

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters as they are."""
        return parameters.copy()

    def kernel_form(
        self, form: ParameterForm, ids: FeatureIds | None = None
    ) -> EntryPenalty | RowPenalty:
        """Return a penalty of strength 0."""
        return RowPenalty() if form == "factors" else EntryPenalty()
