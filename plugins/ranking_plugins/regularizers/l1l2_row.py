"""L1 on the entries of a row, within a largest norm: rows that are sparse and bounded."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np

from ranking.contracts.regularizer import Array, Granularity, Regularizer, RowMaximum
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import check_limit, check_strength


@dataclasses.dataclass
class L1L2Row(Regularizer):
    """Penalty ``strength * sum |row|`` under ``||row|| <= limit`` (Wu, Lu and Li, 2013).

    Parameters
    ----------
    strength : float
        beta: what is not stronger is cut to 0.
    limit : float
        theta: the largest norm of a row.
    document_strength, document_limit : float or "same"
        beta and theta of the document side, if they differ from those of the query side.
    """

    name: ClassVar[str] = "l1l2-row"
    granularity: ClassVar[Granularity] = "row"
    proximal: ClassVar[frozenset[str]] = frozenset({"matrix", "factors"})
    bounded: ClassVar[bool] = True

    strength: float = 0.001
    limit: float = 1.0
    document_strength: float | str = "same"
    document_limit: float | str = "same"

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_strength(self.name, self.strength)
        check_limit(self.name, self.limit)
        if self.document_strength != "same":
            check_strength(self.name, self.document_strength)
        if self.document_limit != "same":
            check_limit(self.name, self.document_limit)

    def of_side(self, side: int) -> L1L2Row:
        """Return the strength and the limit of one side."""
        strength, limit = self.strength, self.limit
        if side == 1 and self.document_strength != "same":
            strength = float(self.document_strength)
        if side == 1 and self.document_limit != "same":
            limit = float(self.document_limit)
        return L1L2Row(strength, limit)

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum |w| within the limit, up to rounding, else infinity."""
        norms = np.linalg.norm(parameters, axis=1)
        if (norms > self.limit * (1.0 + 1e-5)).any():
            return float("inf")
        return self.strength * float(np.abs(parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the rows, thresholded by step * strength, then scaled back to the limit.

        The threshold first: projecting a row scales its entries alike, so what is cut to 0 stays
        0, and the two operators compose to the prox of their sum.
        """
        shrunk = soft(parameters, step * self.strength)
        norms = np.linalg.norm(shrunk, axis=1, keepdims=True)
        bounded: Array = shrunk * np.minimum(1.0, self.limit / np.where(norms > 0.0, norms, 1.0))
        return bounded

    def maximize(self, gain: Array) -> Array:
        """Return equation (5): rows thresholded, and those that are left scaled to the limit."""
        shrunk = soft(gain, self.strength)
        norms = np.linalg.norm(shrunk, axis=1, keepdims=True)
        scaled: Array = shrunk * (self.limit / np.where(norms > 0.0, norms, 1.0))
        return scaled

    def row_maximum(self) -> RowMaximum:
        """Return the threshold and the largest norm."""
        return RowMaximum(self.strength, self.limit)
