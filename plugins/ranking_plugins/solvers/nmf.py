"""Non-negative matrix factorisation by hierarchical alternating least squares (HALS)."""

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
from ranking_plugins.solvers.factorization import Factorization, Floats, give, vectors


@dataclasses.dataclass
class NMF(Factorization):
    """Finds vectors without negative numbers, one dimension of one side at a time.

    Each such step is the exact minimum with the rest held, so the objective never grows. It begins
    with the absolute values of what the model begins with, scaled to fit.

    Parameters
    ----------
    max_epochs : int
        Passes over both sides at most.
    tolerance : float
        Stops when a pass decreases the objective by less than this share of it.
    """

    name: ClassVar[str] = "nmf"

    max_epochs: int = integer(200, minimum=1)
    tolerance: float = number(1e-5, minimum=0.0, below=1.0)

    def factorise(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Improve the queries' vectors, then the documents', once a turn."""
        matrix, model = self.relevance(problem), cast(Factored, problem.model)
        _refuse_negative(matrix)
        transposed = matrix.T.tocsr()
        if problem.state is None:
            queries, documents = _start(matrix, model)
            done, before = 0, np.inf
        else:
            queries, documents = problem.state["queries"].copy(), problem.state["documents"].copy()
            done, before = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
        for epoch in range(done + 1, self.max_epochs + 1):
            _improve(queries, matrix @ documents, documents.T @ documents)
            pulls = transposed @ queries
            _improve(documents, pulls, queries.T @ queries)
            give(model, queries, documents)
            objective = expanded(matrix, pulls * documents, queries, documents)
            converged = before - objective <= self.tolerance * objective
            state = partial(_state, queries, documents, epoch, objective)
            yield EpochResult(epoch, objective, converged, state)
            if converged:
                return
            before = objective


def _improve(side: Floats, pulls: Floats, gram: Floats) -> None:
    """Minimise ``|R - side other'|^2`` over one column of a side after the other.

    Parameters
    ----------
    pulls, gram : arrays
        ``R other`` and ``other' other``, which do not change meanwhile.
    """
    for column in range(side.shape[1]):
        # A column that the other side lacks has no say in the objective.
        if gram[column, column] > 0.0:
            slope = pulls[:, column] - side @ gram[:, column]
            moved = side[:, column] + slope / gram[column, column]
            side[:, column] = np.maximum(moved, 0.0)


def _start(matrix: Any, model: Factored) -> tuple[Floats, Floats]:
    """Return the model's first vectors without their signs, at the scale that fits best."""
    queries, documents = (np.abs(side) for side in vectors(model))
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
            f"{matrix.data[entry]:g}; leave out what is below, or use solver svd."
        )


def _state(queries: Floats, documents: Floats, epoch: int, objective: float) -> State:
    return {
        "queries": queries.copy(),
        "documents": documents.copy(),
        "epoch": np.array([epoch]),
        "objective": np.array([objective]),
    }
