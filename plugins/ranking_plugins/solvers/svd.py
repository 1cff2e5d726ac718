"""Truncated singular value decomposition: the best squared error of any vectors so short."""

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
from ranking_plugins.solvers.factorization import Factorization, Floats, give, vectors


@dataclasses.dataclass
class SVD(Factorization):
    """Takes the largest singular values of the relevance matrix, and their vectors, by ARPACK.

    Both sides get a root of the singular values. The seed plays no part.
    """

    name: ClassVar[str] = "svd"

    def factorise(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Decompose, in one turn."""
        matrix, model = self.relevance(problem), cast(Factored, problem.model)
        if model.dimensions >= min(matrix.shape):
            raise DataError(
                f"svd takes fewer dimensions than there are queries and documents: "
                f"{model.dimensions} of a matrix of {matrix.shape[0]} x {matrix.shape[1]}; lower "
                f"the model's dimensions to at most {min(matrix.shape) - 1}."
            )
        # A fixed vector, with a part in every direction that a real matrix may have.
        start = np.cos(np.arange(min(matrix.shape), dtype=np.float64))
        left, values, right = svds(matrix, k=model.dimensions, v0=start)
        order = np.argsort(-values, kind="stable")
        left, right = left[:, order], right[order].T
        roots = np.sqrt(values[order]) * _signs(left)
        give(model, left * roots, right * roots)
        objective = cast(Squared, problem.loss).factored_value(matrix, *vectors(model))
        yield EpochResult(1, objective, True, dict)


def _signs(left: Floats) -> Floats:
    """Return signs that make the largest entry of each column positive."""
    largest = np.abs(left).argmax(axis=0)
    signs: Floats = np.where(left[largest, np.arange(left.shape[1])] < 0, -1.0, 1.0)
    return signs
