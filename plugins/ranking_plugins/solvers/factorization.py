"""What SVD and NMF have in common: one matrix, indicators on both sides, and no penalty."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import threadpool_limits

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.models.factored import Factored
from ranking_plugins.losses.squared import Squared
from ranking_plugins.regularizers.none import NoPenalty

Floats = NDArray[np.float64]


@dataclasses.dataclass
class Factorization(Solver):
    """Makes a factored model of the relevance matrix alone."""

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Take the factored model, the squared loss and no penalty."""
        if model.name != Factored.name:
            return Compatibility(
                False,
                f"{cls.name} makes two thin matrices whose product is near the relevance matrix, "
                "and nothing else",
            )
        if not issubclass(loss, Squared):
            return Compatibility(
                False, f"what {cls.name} makes is optimal for the squared error alone"
            )
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(
                False, f"what {cls.name} makes is optimal without a penalty, and not with one"
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Factorise, with as many threads in the linear algebra as were asked for."""
        turns = self.factorise(problem)
        while True:
            with threadpool_limits(problem.threads):
                turn = next(turns, None)
            if turn is None:
                return
            yield turn

    @abstractmethod
    def factorise(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield the turns."""

    def relevance(self, problem: TrainingProblem) -> Any:
        """Return the matrix to factorise, in float64, or refuse the data."""
        data = cast(MatchingData, problem.data)
        for side, features in (("queries", data.queries), ("documents", data.documents)):
            if features is not None:
                raise DataError(
                    f"{self.name} knows {side} by their ids alone, and these have "
                    f"{features.shape[1]} features; give MatchingData(None, None, relevance), or use "
                    "solver sgd."
                )
        if data.relevance is None:
            raise DataError(
                f"{self.name} factorises a relevance matrix, and these data are labelled by "
                "class; give relevance, or use solver sgd."
            )
        matrix = sparse.csr_array(data.relevance, dtype=np.float64, copy=True)
        matrix.eliminate_zeros()
        if not matrix.nnz:
            raise DataError(f"{self.name} has nothing to factorise: all relevance is 0.")
        return matrix


def give(model: Factored, queries: Floats, documents: Floats) -> None:
    """Give the model its vectors; biases stay 0."""
    width = queries.shape[1]
    model.U[:, :width], model.V[:, :width] = queries, documents


def vectors(model: Factored) -> tuple[Floats, Floats]:
    """Return the vectors of a model, in float64 and without their padding."""
    width = model.dimensions
    return model.U[:, :width].astype(np.float64), model.V[:, :width].astype(np.float64)
