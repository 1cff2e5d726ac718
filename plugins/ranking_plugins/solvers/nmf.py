"""Non-negative matrix factorization by hierarchical alternating least squares (HALS)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np

from ranking.contracts.parameters import integer, number
from ranking.contracts.solver import EpochResult, State, TrainingProblem
from ranking.errors import DataError
from ranking.models.factored import Factored
from ranking_plugins.losses.squared import expanded
from ranking_plugins.solvers.factorization import Factorization, Floats, embeddings, set_embeddings


@dataclasses.dataclass
class NMF(Factorization):
    """Compute non-negative embeddings, one dimension of one side at a time.

    Each step is the exact minimum with the rest fixed, so the objective never increases. It starts
    from the absolute values of the initial embeddings, scaled to fit.

    Parameters
    ----------
    max_epochs : int
        The maximal number of passes over both sides.
    tolerance : float
        Stop when a pass decreases the objective by less than this share of it.
    """

    name: ClassVar[str] = "nmf"

    max_epochs: int = integer(200, minimum=1)
    tolerance: float = number(1e-5, minimum=0.0, below=1.0)

    def factorize(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per pass over the embeddings of queries and of documents."""
        matrix, model = self.relevance(problem), cast(Factored, problem.model)
        _refuse_negative(matrix)
        transposed = matrix.T.tocsr()
        if problem.state is None:
            queries, documents = _start(matrix, model)
            done, previous = 0, np.inf
        else:
            queries, documents = problem.state["queries"].copy(), problem.state["documents"].copy()
            done, previous = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
        for epoch in range(done + 1, self.max_epochs + 1):
            _improve(queries, matrix @ documents, documents.T @ documents)
            products = transposed @ queries
            _improve(documents, products, queries.T @ queries)
            set_embeddings(model, queries, documents)
            objective = expanded(matrix, products * documents, queries, documents)
            converged = previous - objective <= self.tolerance * objective
            state = partial(_state, queries, documents, epoch, objective)
            yield EpochResult(epoch, objective, converged, state)
            if converged:
                return
            previous = objective


def _improve(side: Floats, products: Floats, gram: Floats) -> None:
    """Minimize ``|R - side other'|^2`` over the columns of a side, one after the other.

    Parameters
    ----------
    products, gram : arrays
        ``R other`` and ``other' other``, which are constant.
    """
    for column in range(side.shape[1]):
        # A column that is 0 on the other side does not affect the objective.
        if gram[column, column] > 0.0:
            slope = products[:, column] - side @ gram[:, column]
            moved = side[:, column] + slope / gram[column, column]
            side[:, column] = np.maximum(moved, 0.0)


def _start(matrix: Any, model: Factored) -> tuple[Floats, Floats]:
    """Return the absolute values of the initial embeddings, at the scale that fits best."""
    queries, documents = (np.abs(side) for side in embeddings(model))
    pull = float((documents * (matrix.T @ queries)).sum())
    size = float(((queries.T @ queries) * (documents.T @ documents)).sum())
    scale = np.sqrt(pull / size)
    return queries * scale, documents * scale


def _refuse_negative(matrix: Any) -> None:
    if (matrix.data < 0).any():
        entry = int(np.argmax(matrix.data < 0))
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        raise DataError(
            f"nmf needs relevance from 0: query {row}, document {matrix.indices[entry]} is "
            f"{matrix.data[entry]:g}; remove negative values, or use solver svd."
        )


def _state(queries: Floats, documents: Floats, epoch: int, objective: float) -> State:
    return {
        "queries": queries.copy(),
        "documents": documents.copy(),
        "epoch": np.array([epoch]),
        "objective": np.array([objective]),
    }
