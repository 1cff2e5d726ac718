"""L1 on the entries of a row under a maximal norm: sparse and bounded rows."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import (
    Array,
    Granularity,
    ParameterForm,
    Regularizer,
    RowMaximum,
)
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import AUTO, default_strength, known


@dataclasses.dataclass
class L1L2Row(Regularizer):
    """Penalty ``strength * sum |row|`` under ``||row|| <= limit`` (Wu, Lu and Li, 2013).

    Parameters
    ----------
    strength : float or "auto"
        beta: entries that are not larger are set to 0; "auto" is 0.002 / (number of rows)
        for embeddings in SGD, which has an effect and removes none, and 0.001 otherwise.
    limit : float
        theta: the maximal norm of a row.
    document_strength, document_limit : float or "same"
        beta and theta of documents, if they differ from those of queries.
    """

    name: ClassVar[str] = "l1l2-row"
    granularity: ClassVar[Granularity] = "row"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix", "factors"})

    strength: float | str = number("auto", minimum=0.0, words=AUTO)
    limit: float = number(1.0, above=0.0)
    document_strength: float | str = number("same", minimum=0.0, words=("same",))
    document_limit: float | str = number("same", above=0.0, words=("same",))

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the strength that is used for "auto"."""
        if self.strength != "auto":
            return {}
        return {"strength": default_strength(problem, 0.002)}

    def of_side(self, side: int) -> L1L2Row:
        """Return the strength and the limit of one side."""
        strength, limit = known(self.strength), self.limit
        if side == 1 and self.document_strength != "same":
            strength = float(self.document_strength)
        if side == 1 and self.document_limit != "same":
            limit = float(self.document_limit)
        return L1L2Row(strength, limit)

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum abs(w) within the limit, up to rounding, else infinity."""
        norms = np.linalg.norm(parameters, axis=1)
        if (norms > self.limit * (1.0 + 1e-5)).any():
            return float("inf")
        return known(self.strength) * float(np.abs(parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the rows, thresholded by step * strength, then scaled back to the limit.

        The threshold comes first: the projection scales all entries of a row by one factor, so
        zeros stay zero, and the two operators compose to the prox of their sum.
        """
        return self.prox_by_row(parameters, np.full(parameters.shape[0], step))

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return the prox of each row with its own step."""
        shrunk = soft(parameters, steps[:, None] * known(self.strength))
        norms = np.linalg.norm(shrunk, axis=1, keepdims=True)
        bounded: Array = shrunk * np.minimum(1.0, self.limit / np.where(norms > 0.0, norms, 1.0))
        return bounded

    def maximize(self, gain: Array) -> Array:
        """Return equation (5): thresholded rows, those that are not zero scaled to the limit."""
        shrunk = soft(gain, known(self.strength))
        norms = np.linalg.norm(shrunk, axis=1, keepdims=True)
        scaled: Array = shrunk * (self.limit / np.where(norms > 0.0, norms, 1.0))
        return scaled

    def row_maximum(self) -> RowMaximum:
        """Return the threshold and the maximal norm."""
        return RowMaximum(known(self.strength), self.limit)
