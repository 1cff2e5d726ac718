"""Orthogonal columns of one length: dimensions that are not redundant."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import Array, Granularity, Regularizer
from ranking.errors import PartError
from ranking_plugins.regularizers.polar import gram, polar_factor


@dataclasses.dataclass
class Orthonormal(Regularizer):
    """The constraint ``P'P = scale**2 I`` on a matrix with one row per feature.

    Parameters
    ----------
    scale : float or "unit-rows"
        The length of a column. 1 is orthonormal in the strict sense; "unit-rows" is sqrt(rows /
        columns), so that rows have norm 1 on average, as a loss with a margin requires.
    """

    name: ClassVar[str] = "orthonormal"
    granularity: ClassVar[Granularity] = "matrix"
    unsupported: ClassVar[Mapping[str, str]] = {
        "vector": "a vector of weights is a matrix of one row, whose columns cannot be orthogonal",
        "matrix": "the polar factor of a sparse matrix is dense, and exists only if it has as many "
        "rows as columns; of a diagonal matrix it has nothing but signs",
    }

    scale: float | str = number("unit-rows", above=0.0, words=("unit-rows",))

    def column_length(self, shape: tuple[int, ...]) -> float:
        """Return the length of the columns of a matrix of this shape; refuse a wide one."""
        if shape[0] < shape[1]:
            raise PartError(
                f"orthonormal needs at least as many rows as columns, and there are {shape[0]} "
                f"features for {shape[1]} dimensions; use fewer dimensions."
            )
        return self._length(shape)

    def _length(self, shape: tuple[int, ...]) -> float:
        if self.scale == "unit-rows":
            return float(np.sqrt(shape[0] / shape[1]))
        return float(self.scale)

    def penalty(self, parameters: Array) -> float:
        """Return 0 if the columns are orthogonal and long enough, up to rounding; else infinity."""
        square = self._length(parameters.shape) ** 2
        products = gram(parameters)
        off = np.abs(products - square * np.eye(products.shape[0])).max(initial=0.0)
        return 0.0 if off <= 1e-4 * square else float("inf")

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the nearest such matrix: the polar factor (a retraction)."""
        return self.maximize(parameters)

    def maximize(self, gain: Array) -> Array:
        """Return scale times the polar factor of the gain, where <gain, P> is largest."""
        return self.column_length(gain.shape) * polar_factor(gain)
