"""The base of SVD and NMF: one relevance matrix, no features and no penalty."""

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
from ranking.errors import CombinationError, DataError
from ranking.models.factored import Factored, require_dot_product
from ranking_plugins.losses.squared import Squared
from ranking_plugins.regularizers.none import NoPenalty

Floats = NDArray[np.float64]


@dataclasses.dataclass
class Factorization(Solver):
    """Factorize the relevance matrix."""

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the factored model, the squared loss and no penalty."""
        if model.name != Factored.name:
            return Compatibility(
                False,
                f"{cls.name} computes two thin matrices whose product approximates the relevance "
                "matrix, and nothing else",
            )
        if not issubclass(loss, Squared):
            return Compatibility(
                False, f"the result of {cls.name} is optimal only for the squared error"
            )
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(
                False, f"the result of {cls.name} is optimal only without a penalty"
            )
        return YES

    @property
    def by_id(self) -> bool:
        """Whether queries and documents are known by id only, so that features have no effect."""
        return True

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Factorize, with the given number of threads in the linear algebra."""
        refuse_weights(problem.loss, self.name)
        require_dot_product(cast(Factored, problem.model), f"solver {self.name}")
        epochs = self.factorize(problem)
        while True:
            with threadpool_limits(problem.threads):
                result = next(epochs, None)
            if result is None:
                return
            yield result

    @abstractmethod
    def factorize(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch."""

    def relevance(self, problem: TrainingProblem) -> Any:
        """Return the matrix to factorize, in float64; refuse data with features or classes."""
        data = cast(MatchingData, problem.data)
        for side, features in (("queries", data.queries), ("documents", data.documents)):
            if features is not None:
                raise DataError(
                    f"{self.name} uses only the ids of {side}, and these have {features.shape[1]} "
                    "features; pass MatchingData(None, None, relevance), or use solver sgd."
                )
        if data.relevance is None:
            raise DataError(
                f"{self.name} factorizes a relevance matrix, and these data are labelled by "
                "class; pass relevance, or use solver sgd."
            )
        matrix = sparse.csr_array(data.relevance, dtype=np.float64, copy=True)
        matrix.eliminate_zeros()
        if not matrix.nnz:
            raise DataError(f"{self.name} has nothing to factorize: all relevance is 0.")
        return matrix


def set_embeddings(model: Factored, queries: Floats, documents: Floats) -> None:
    """Set the embeddings of the model; biases stay 0."""
    width = queries.shape[1]
    model.U[:, :width], model.V[:, :width] = queries, documents


def embeddings(model: Factored) -> tuple[Floats, Floats]:
    """Return the embeddings of a model, in float64 and without padding."""
    width = model.dimensions
    return model.U[:, :width].astype(np.float64), model.V[:, :width].astype(np.float64)


def refuse_weights(loss: Loss, solver: str) -> None:
    """Refuse different weights of observed and unobserved pairs."""
    if cast(Squared, loss).weighted:
        raise CombinationError(
            f"solver {solver!r} weights all pairs by 1, and the loss is {loss.spec()}: leave the "
            "weights out, or take solver alternating with model factored (recipe ials)."
        )
