"""A largest norm for every row."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.contracts.regularizer import (
    Array,
    Granularity,
    Regularizer,
    RowMaximum,
    RowPenalty,
)
from ranking_plugins.regularizers.strength import check_limit


@dataclasses.dataclass
class MaxNorm(Regularizer):
    """The constraint ``||row|| <= limit``: vectors that grow beyond it are scaled back.

    Parameters
    ----------
    limit : float
        C of WSABIE (Weston and Blitzer, 2012).
    """

    name: ClassVar[str] = "max-norm"
    granularity: ClassVar[Granularity] = "row"
    proximal: ClassVar[frozenset[str]] = frozenset({"matrix", "factors"})
    bounded: ClassVar[bool] = True
    inlined: ClassVar[frozenset[str]] = frozenset({"factors"})

    limit: float = 1.0

    def __post_init__(self) -> None:
        """Check the limit."""
        check_limit(self.name, self.limit)

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

    def maximize(self, gain: Array) -> Array:
        """Return the rows of the gain, scaled to the limit."""
        norms = np.linalg.norm(gain, axis=1, keepdims=True)
        scaled: Array = gain * (self.limit / np.where(norms > 0.0, norms, 1.0))
        return scaled

    def row_penalty(self) -> RowPenalty:
        """Return the largest norm."""
        return RowPenalty(0.0, self.limit)

    def row_maximum(self) -> RowMaximum:
        """Return the largest norm."""
        return RowMaximum(0.0, self.limit)
