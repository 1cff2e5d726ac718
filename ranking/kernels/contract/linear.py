"""Scores of the linear model."""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Floats, Rows


class LinearFamily(Protocol):
    """Scores of the linear model."""

    def linear_scores(self, features: Rows, weights: Floats, out: Floats, threads: int) -> None:
        """Fill out[i] with the dot product of row i and the weights.

        For a dense row it is the sum in lanes of features[i, r] * weights[r]; for a sparse one
        the sum, from 0.0 and in stored order, of data * weights[index].

        features : (rows, features), Rows
        weights : float64 (features)
        out : float64 (rows)
        """
