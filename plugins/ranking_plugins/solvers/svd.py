"""Truncated singular value decomposition: the minimal squared error for the dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, cast

import numpy as np
from scipy.sparse.linalg import svds

from ranking.contracts.solver import EpochResult, TrainingProblem
from ranking.errors import DataError
from ranking.models.factored import Factored
from ranking_plugins.losses.squared import Squared
from ranking_plugins.solvers.factorization import Factorization, Floats, embeddings, set_embeddings


@dataclasses.dataclass
class SVD(Factorization):
    """Compute the largest singular values and vectors of the relevance matrix, by ARPACK.

    Both sides are scaled by the square roots of the singular values. The seed has no effect.
    """

    name: ClassVar[str] = "svd"

    def factorize(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Decompose the matrix, in one epoch."""
        matrix, model = self.relevance(problem), cast(Factored, problem.model)
        if model.dimensions >= min(matrix.shape):
            raise DataError(
                f"svd needs fewer dimensions than there are queries and documents: "
                f"{model.dimensions} of a matrix of {matrix.shape[0]} x {matrix.shape[1]}; lower "
                f"the model's dimensions to at most {min(matrix.shape) - 1}."
            )
        # A fixed start vector with a component in every direction of a typical matrix.
        start = np.cos(np.arange(min(matrix.shape), dtype=np.float64))
        left, values, right = svds(matrix, k=model.dimensions, v0=start)
        order = np.argsort(-values, kind="stable")
        left, right = left[:, order], right[order].T
        roots = np.sqrt(values[order]) * _signs(left)
        set_embeddings(model, left * roots, right * roots)
        objective = cast(Squared, problem.loss).factored_value(matrix, *embeddings(model))
        yield EpochResult(1, objective, True, dict)


def _signs(left: Floats) -> Floats:
    """Return signs that make the largest entry of each column positive."""
    largest = np.abs(left).argmax(axis=0)
    signs: Floats = np.where(left[largest, np.arange(left.shape[1])] < 0, -1.0, 1.0)
    return signs
