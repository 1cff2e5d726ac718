"""L1 on the entries of a row under a maximal norm: sparse and bounded rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
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

BISECTIONS = 60
"""Halvings of the interval of a threshold: to the last bit of a double."""


@dataclasses.dataclass
class L1L2Row(Regularizer):
    """Penalty ``strength * sum |row|`` under ``||row|| <= limit`` (Wu, Lu and Li, 2013).

    That is the penalized form (4) of the paper. With `sum_limit` there is also the constraint
    ``sum |row| <= sum_limit``, which with strength 0 is its form (3).

    Parameters
    ----------
    strength : float or "auto"
        beta: entries that are not larger are set to 0; "auto" is 0.002 / (number of rows)
        for embeddings in SGD, which has an effect and removes none, and 0.001 otherwise.
    limit : float
        theta: the maximal norm of a row.
    document_strength, document_limit : float or "same"
        beta and theta of documents, if they differ from those of queries.
    sum_limit : float or "none"
        lambda: the maximal sum of absolute values of a row, of both sides.
    """

    name: ClassVar[str] = "l1l2-row"
    granularity: ClassVar[Granularity] = "row"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"matrix", "factors"})

    strength: float | str = number("auto", minimum=0.0, words=AUTO)
    limit: float = number(1.0, above=0.0)
    document_strength: float | str = number("same", minimum=0.0, words=("same",))
    document_limit: float | str = number("same", above=0.0, words=("same",))
    sum_limit: float | str = number("none", above=0.0, words=("none",))

    def idle(self) -> set[str]:
        """Return `sum_limit` if there is none."""
        return {"sum_limit"} if self.sum_limit == "none" else set()

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the strength that is used for "auto"."""
        if self.strength != "auto":
            return {}
        return {"strength": default_strength(problem, 0.002)}

    def of_side(self, side: int) -> L1L2Row | ConstrainedRow:
        """Return the strength and the limit of one side."""
        strength, limit = known(self.strength), self.limit
        if side == 1 and self.document_strength != "same":
            strength = float(self.document_strength)
        if side == 1 and self.document_limit != "same":
            limit = float(self.document_limit)
        if self.sum_limit != "none":
            return ConstrainedRow(strength, limit, float(self.sum_limit))
        return L1L2Row(strength, limit)

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum abs(w) within the limit, up to rounding, else infinity."""
        if self.sum_limit != "none":
            return self.of_side(0).penalty(parameters)
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
        if self.sum_limit != "none":
            return self.of_side(0).prox_by_row(parameters, steps)
        shrunk = soft(parameters, steps[:, None] * known(self.strength))
        norms = np.linalg.norm(shrunk, axis=1, keepdims=True)
        bounded: Array = shrunk * np.minimum(1.0, self.limit / np.where(norms > 0.0, norms, 1.0))
        return bounded

    def maximize(self, gain: Array) -> Array:
        """Return equation (5): thresholded rows, those that are not zero scaled to the limit."""
        if self.sum_limit != "none":
            return self.of_side(0).maximize(gain)
        shrunk = soft(gain, known(self.strength))
        norms = np.linalg.norm(shrunk, axis=1, keepdims=True)
        scaled: Array = shrunk * (self.limit / np.where(norms > 0.0, norms, 1.0))
        return scaled

    def row_maximum(self) -> RowMaximum:
        """Return the threshold and the maximal norm."""
        return RowMaximum(known(self.strength), self.limit)


@dataclasses.dataclass
class ConstrainedRow(Regularizer):
    """`l1l2-row` of one side with a maximal sum of absolute values, which has no kernel form.

    Parameters
    ----------
    strength, limit, sum_limit : float
        As in `L1L2Row`.
    """

    name: ClassVar[str] = "l1l2-row"
    granularity: ClassVar[Granularity] = "row"

    strength: float = 0.0
    limit: float = 1.0
    sum_limit: float = 1.0

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum |w| within both limits, up to rounding, else infinity."""
        norms, sums = np.linalg.norm(parameters, axis=1), np.abs(parameters).sum(axis=1)
        inside = (norms <= self.limit * (1.0 + 1e-5)) & (sums <= self.sum_limit * (1.0 + 1e-5))
        return self.strength * float(sums.sum()) if inside.all() else float("inf")

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the nearest rows within both limits after the threshold of the step."""
        return self.prox_by_row(parameters, np.full(parameters.shape[0], step))

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return the prox of each row with its own step: a threshold, then a scale (KKT)."""
        shrunk = soft(parameters, steps[:, None] * self.strength)
        return self._within(shrunk, lambda rows: np.minimum(1.0, self.limit / _norms(rows)))

    def maximize(self, gain: Array) -> Array:
        """Return the rows of the largest gain: a threshold, then scaled to the limit.

        Where even one entry at the limit exceeds sum_limit, the largest entry has sum_limit.
        """
        shrunk = soft(gain, self.strength)
        best = self._within(shrunk, lambda rows: self.limit / _norms(rows))
        if self.sum_limit <= self.limit:
            rows, columns = np.arange(gain.shape[0]), np.abs(shrunk).argmax(axis=1)
            best = np.zeros_like(shrunk)
            best[rows, columns] = self.sum_limit * np.sign(shrunk[rows, columns])
        return best

    def _within(self, rows: Array, scale: Callable[[Array], Array]) -> Array:
        """Return scaled rows with the smallest threshold for which their sums keep the limit."""
        low, high = np.zeros(rows.shape[0]), np.abs(rows).max(axis=1, initial=0.0)
        free = scale(rows)[:, None] * rows
        over = np.abs(free).sum(axis=1) > self.sum_limit
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            tried = soft(rows, middle[:, None])
            above = scale(tried) * np.abs(tried).sum(axis=1) > self.sum_limit
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        shrunk = soft(rows, high[:, None])
        bounded: Array = np.where(over[:, None], scale(shrunk)[:, None] * shrunk, free)
        return bounded


def _norms(rows: Array) -> Array:
    norms = np.linalg.norm(rows, axis=1)
    positive: Array = np.where(norms > 0.0, norms, 1.0)
    return positive
