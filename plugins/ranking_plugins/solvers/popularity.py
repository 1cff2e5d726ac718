"""Popularity: the biases of documents that minimise the squared error, without embeddings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import ClassVar, cast

import numpy as np

from ranking.contracts.solver import EpochResult, TrainingProblem
from ranking.errors import CombinationError
from ranking.models.factored import Factored
from ranking_plugins.solvers.factorization import Factorization


@dataclasses.dataclass
class Popularity(Factorization):
    """Set the bias of each document to its mean relevance over all queries, embeddings to 0.

    These are the biases of least squared error over all pairs of a query and a document. The seed
    has no effect.
    """

    name: ClassVar[str] = "popularity"

    def factorize(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Average the columns of the relevance matrix, in one epoch."""
        matrix, model = self.relevance(problem), cast(Factored, problem.model)
        if not model.biases:
            raise CombinationError(
                "popularity sets the biases of documents, and the model has none; set biases=true."
            )
        n_queries, n_documents = matrix.shape
        means = np.bincount(matrix.indices, matrix.data, n_documents) / n_queries
        model.U[:], model.V[:] = 0.0, 0.0
        model.document_biases[:] = means
        # sum (r - b)^2 at the means: the cross term is twice the sum of n b^2.
        objective = float((matrix.data**2).sum() - n_queries * (means**2).sum())
        yield EpochResult(1, objective, True, dict)
