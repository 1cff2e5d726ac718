"""Truncated singular value decomposition: the minimal squared error for the dimensions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import svds

from ranking.contracts.parameters import choice
from ranking.contracts.solver import EpochResult, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DataError
from ranking.models.factored import Factored
from ranking_plugins.losses.squared import Squared
from ranking_plugins.solvers.factorization import Factorization, Floats, embeddings, set_embeddings


@dataclasses.dataclass
class SVD(Factorization):
    """Compute the largest singular values and vectors of a matrix, by ARPACK.

    The seed has no effect.

    Parameters
    ----------
    matrix : {"relevance", "documents"}
        The relevance of documents for queries: both sides are scaled by the square roots of the
        singular values. Or the features of the documents, one row per document (latent semantic
        indexing): a feature has its right singular vector on both sides, so a query and a document
        have the inner product of the query and the approximated document, singular values included;
        the objective is the squared error of the approximated features.
    """

    name: ClassVar[str] = "svd"

    matrix: str = choice("relevance", "relevance", "documents")

    @property
    def by_id(self) -> bool:
        """Whether queries and documents are known by id only, so that features have no effect."""
        return self.matrix == "relevance"

    def factorize(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Decompose the matrix, in one epoch."""
        model, loss = cast(Factored, problem.model), cast(Squared, problem.loss)
        if self.matrix == "documents":
            features = _document_features(cast(MatchingData, problem.data))
            _, _, directions = _largest(features, model.dimensions, "documents and features")
            _set_directions(model, directions)
            objective = loss.factored_value(features, features @ directions, directions)
        else:
            matrix = self.relevance(problem)
            left, values, right = _largest(matrix, model.dimensions, "queries and documents")
            roots = np.sqrt(values)
            set_embeddings(model, left * roots, right * roots)
            objective = loss.factored_value(matrix, *embeddings(model))
        yield EpochResult(1, objective, True, dict)


def _largest(matrix: Any, dimensions: int, sides: str) -> tuple[Floats, Floats, Floats]:
    """Return the left singular vectors, the values and the right vectors, the largest first."""
    if dimensions >= min(matrix.shape):
        raise DataError(
            f"svd needs fewer dimensions than there are {sides}: "
            f"{dimensions} of a matrix of {matrix.shape[0]} x {matrix.shape[1]}; lower "
            f"the model's dimensions to at most {min(matrix.shape) - 1}."
        )
    # A fixed start vector with a component in every direction of a typical matrix.
    start = np.cos(np.arange(min(matrix.shape), dtype=np.float64))
    left, values, right = svds(matrix, k=dimensions, v0=start)
    order = np.argsort(-values, kind="stable")
    signs = _signs(left[:, order])
    return left[:, order] * signs, values[order], right[order].T * signs


def _document_features(data: MatchingData) -> Any:
    if data.documents is None:
        raise DataError(
            "svd:matrix=documents decomposes the features of documents, and these have none; give "
            "texts or features, or matrix=relevance."
        )
    features = sparse.csr_array(data.documents, dtype=np.float64, copy=True)
    features.eliminate_zeros()
    return features


def _set_directions(model: Factored, directions: Floats) -> None:
    """Give each feature its direction, on the side of queries too if they have it."""
    names, known = model.query_feature_ids, model.document_feature_ids
    _, rows, columns = np.intersect1d(names, known, return_indices=True)
    if names.dtype.kind != known.dtype.kind or not rows.size:
        raise DataError(
            "svd:matrix=documents compares queries and documents by the features that both have, "
            "and they share no feature id; use the same feature names."
        )
    queries = np.zeros((names.size, directions.shape[1]))
    queries[rows] = directions[columns]
    set_embeddings(model, queries, directions)


def _signs(left: Floats) -> Floats:
    """Return signs that make the largest entry of each column positive."""
    largest = np.abs(left).argmax(axis=0)
    signs: Floats = np.where(left[largest, np.arange(left.shape[1])] < 0, -1.0, 1.0)
    return signs
