"""Steps of SGD, Adagrad and Adam on some rows of a matrix of embeddings, in float32."""

from __future__ import annotations

import numpy as np

from ranking.contracts.solver import State
from ranking.kernels.contract import Floats, Ints, Singles

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's defaults (Kingma and Ba, 2015)."""

CORRECTED_STEPS = 20_000
"""Steps of a row after which its bias correction is 1 in float32."""

METRIC_ROWS = 4096
"""Rows whose metric is computed at a time."""


def correction_table() -> Singles:
    """Return sqrt(1 - b2^t) / (1 - b1^t) for t = 0, 1, ...; 0 for t = 0."""
    t = np.arange(1, CORRECTED_STEPS, dtype=np.float64)
    table: Floats = np.sqrt(-np.expm1(t * np.log(BETA_2))) / -np.expm1(t * np.log(BETA_1))
    return np.concatenate(([0.0], table)).astype(np.float32)


class Adam:
    """Lazy Adam: a row's moments change when it has a gradient, and each row counts its steps.

    With the gradient g of a row in its t-th step, ``m = b1 m + (1 - b1) g``,
    ``v = b2 v + (1 - b2) g^2`` and ``P -= rate c_t m / (sqrt(v) + e)`` with
    ``c_t = sqrt(1 - b2^t) / (1 - b1^t)``: the efficient form of Kingma and Ba, whose e is fixed
    here before the correction.
    """

    TABLE = correction_table()

    def __init__(self, like: Singles) -> None:
        self.first, self.second = np.zeros_like(like), np.zeros_like(like)
        self.steps = np.zeros(like.shape[0], np.int64)
        self._metric: Singles | None = None

    def step(self, matrix: Singles, rows: Ints, gradient: Singles, rate: float) -> None:
        """Take a step on these rows, which are different."""
        b1, b2 = np.float32(BETA_1), np.float32(BETA_2)
        first = b1 * self.first[rows] + (np.float32(1.0) - b1) * gradient
        second = b2 * self.second[rows] + (np.float32(1.0) - b2) * (gradient * gradient)
        self.first[rows], self.second[rows] = first, second
        self.steps[rows] += 1
        scale = np.float32(rate) * self.TABLE[np.minimum(self.steps[rows], CORRECTED_STEPS - 1)]
        scale = scale.reshape(-1, *(1,) * (matrix.ndim - 1))
        matrix[rows] -= scale * first / (np.sqrt(second) + np.float32(EPSILON))

    def metric(self) -> Singles:
        """Return the squared divisor of each number's steps; infinity before the first.

        The array is overwritten by the next call.
        """
        if self._metric is None or self._metric.shape != self.second.shape:
            self._metric = np.empty_like(self.second)
        for start in range(0, self.steps.size, METRIC_ROWS):
            rows = slice(start, start + METRIC_ROWS)
            self._metric[rows] = self._metric_of(rows)
        return self._metric

    def _metric_of(self, rows: slice) -> Singles:
        t = np.minimum(self.steps[rows], CORRECTED_STEPS - 1).astype(np.float64)
        with np.errstate(divide="ignore"):
            scale = (1.0 / np.sqrt(-np.expm1(t * np.log(BETA_2)))).astype(np.float32)
        scale = scale.reshape(-1, *(1,) * (self.second.ndim - 1))
        with np.errstate(invalid="ignore"):
            divisor = scale * np.sqrt(self.second[rows]) + np.float32(EPSILON)
        return np.where(np.isnan(divisor), np.float32(np.inf), divisor * divisor)

    def state(self) -> State:
        """Return copies of all arrays."""
        return {
            "first": self.first.copy(),
            "second": self.second.copy(),
            "steps": self.steps.copy(),
        }

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.first, self.second = state["first"].copy(), state["second"].copy()
        self.steps = state["steps"].copy()

    def grow(self, like: Singles) -> None:
        """Add zeros for rows that are new."""
        for name in ("first", "second", "steps"):
            old = getattr(self, name)
            added = np.zeros((like.shape[0] - old.shape[0], *old.shape[1:]), old.dtype)
            setattr(self, name, np.concatenate((old, added)))


def adagrad_step(
    matrix: Singles, squares: Singles, rows: Ints, gradient: Singles, rate: float
) -> None:
    """Take a step of Adagrad; the squares are those of the block's gradient."""
    total = squares[rows] + gradient * gradient
    squares[rows] = total
    matrix[rows] -= np.float32(rate) * gradient / np.sqrt(total)
