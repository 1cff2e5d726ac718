"""Columns that are orthogonal and of one length: dimensions that say different things."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.regularizer import Array, Granularity, Regularizer
from ranking.errors import PartError
from ranking_plugins.regularizers.polar import polar_factor


@dataclasses.dataclass
class Orthonormal(Regularizer):
    """The constraint ``P'P = scale**2 I`` on a matrix with a row a feature.

    Parameters
    ----------
    scale : float or "auto"
        The length of a column. 1 is orthonormal in the strict sense; "auto" is sqrt(rows /
        columns), with which rows have norm 1 in the mean, as a loss with a margin needs it.
    """

    name: ClassVar[str] = "orthonormal"
    granularity: ClassVar[Granularity] = "matrix"
    bounded: ClassVar[bool] = True
    unsupported: ClassVar[Mapping[str, str]] = {
        "vector": "a vector of weights is a matrix of one row, whose columns are no two orthogonal",
        "matrix": "the polar factor of a sparse matrix is dense, and exists only if it has as many "
        "rows as columns; of a diagonal matrix it has nothing but signs",
    }

    scale: float | str = "auto"

    def __post_init__(self) -> None:
        """Check the parameter."""
        scale: object = self.scale
        fits = isinstance(scale, numbers.Real) and 0.0 < float(scale) < np.inf
        if scale != "auto" and not fits:
            raise PartError(
                f"orthonormal has scale={scale!r}; it must be a number above 0, or auto."
            )

    def column_length(self, shape: tuple[int, ...]) -> float:
        """Return the length of the columns of a matrix of this shape; refuse a wide one."""
        if shape[0] < shape[1]:
            raise PartError(
                f"orthonormal needs at least as many rows as columns, and there are {shape[0]} "
                f"features for {shape[1]} dimensions; take fewer dimensions."
            )
        return self._length(shape)

    def _length(self, shape: tuple[int, ...]) -> float:
        return float(np.sqrt(shape[0] / shape[1])) if self.scale == "auto" else float(self.scale)

    def penalty(self, parameters: Array) -> float:
        """Return 0 if the columns are orthogonal and long enough, up to rounding; else infinity."""
        square = self._length(parameters.shape) ** 2
        gram = parameters.T @ parameters
        off = np.abs(gram - square * np.eye(gram.shape[0])).max(initial=0.0)
        return 0.0 if off <= 1e-4 * square else float("inf")

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the nearest such matrix: the polar factor, which is a retraction."""
        return self.maximize(parameters)

    def maximize(self, gain: Array) -> Array:
        """Return scale times the polar factor of the gain, where <gain, P> is largest."""
        return self.column_length(gain.shape) * polar_factor(gain)

    def maximize_rows(self, gain: NDArray[np.float32], threads: int = 1) -> NDArray[np.float32]:
        """Return the same in single precision."""
        return np.float32(self.column_length(gain.shape)) * polar_factor(gain, threads)
