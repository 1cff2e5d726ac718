"""A maximal norm for every row."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import (
    Array,
    FeatureIds,
    Granularity,
    ParameterForm,
    Regularizer,
    RowMaximum,
    RowPenalty,
)


@dataclasses.dataclass
class MaxNorm(Regularizer):
    """The constraint ``||row|| <= limit``: longer rows are scaled back.

    Parameters
    ----------
    limit : float
        C of WSABIE (Weston and Blitzer, 2012).
    """

    name: ClassVar[str] = "max-norm"
    granularity: ClassVar[Granularity] = "row"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"factors"})

    limit: float = number(1.0, above=0.0)

    def penalty(self, parameters: Array) -> float:
        """Return 0 within the limit, up to rounding, else infinity."""
        norms = np.linalg.norm(parameters, axis=1)
        return 0.0 if (norms <= self.limit * (1.0 + 1e-5)).all() else float("inf")

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the rows, those beyond the limit scaled back to it."""
        norms = np.linalg.norm(parameters, axis=1, keepdims=True)
        scale = np.minimum(1.0, self.limit / np.where(norms > 0.0, norms, 1.0))
        projected: Array = parameters * scale
        return projected

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return the same rows: a projection has no step."""
        return self.prox(parameters, 0.0)

    def maximize(self, gain: Array) -> Array:
        """Return the rows of the gain, scaled to the limit."""
        norms = np.linalg.norm(gain, axis=1, keepdims=True)
        scaled: Array = gain * (self.limit / np.where(norms > 0.0, norms, 1.0))
        return scaled

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> RowPenalty:
        """Return the maximal norm."""
        return RowPenalty(max_norm=self.limit)

    def row_maximum(self) -> RowMaximum:
        """Return the maximal norm."""
        return RowMaximum(0.0, self.limit)
