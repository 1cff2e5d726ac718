"""Coordinate descent on item-item weights, column by column (SLIM)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from ranking.contracts.regularizer import EntryPenalty, kernel_form
from ranking.contracts.solver import EpochResult, State, TrainingProblem
from ranking.errors import CombinationError, DataError
from ranking.kernels.contract import ItemRule
from ranking.kernels.item_item import GramMatrix
from ranking.models.item_item import ItemItem
from ranking_plugins.solvers.factorization import refuse_weights

if TYPE_CHECKING:
    from ranking_plugins.solvers.coordinate import Coordinate

SWEEPS = 20
"""Sweeps over the candidates of a column in an epoch, at most."""

MOST_ITEMS = 10_000
"""Items up to which all pairs may be candidates."""


def item_column_epochs(solver: Coordinate, problem: TrainingProblem) -> Iterator[EpochResult]:
    """Yield one result per epoch of some sweeps over each column; none increases the objective."""
    refuse_weights(problem.loss, solver.name)
    penalty = kernel_form(problem.regularizer, "matrix")
    if not isinstance(penalty, EntryPenalty):
        raise CombinationError(
            f"regularizer {problem.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, which "
            "coordinate descent needs; elastic, l1 and l2 are."
        )
    model = cast(ItemItem, problem.model)
    gram = _gram(model.histories)
    candidates = _candidates(gram, solver.neighbors, solver.nonnegative)
    done = 0
    if problem.state is not None:
        done = int(problem.state["epoch"][0])
        candidates.data[:] = problem.state["weights"]
    matrix = GramMatrix(gram)
    rule = ItemRule(
        float(penalty.l1), float(penalty.l2), solver.nonnegative, solver.tolerance, SWEEPS
    )
    for epoch in range(done + 1, solver.max_epochs + 1):
        losses, sweeps = problem.kernel.item_item.columns(matrix, candidates, rule, problem.threads)
        objective = float(losses.sum()) + problem.regularizer.penalty(candidates.data)
        weights = sparse.csr_array(candidates.T, dtype=np.float32)
        weights.eliminate_zeros()
        weights.sort_indices()
        model.weights = weights
        converged = bool((sweeps > 0).all())
        state = partial(_state, epoch, candidates.data)
        yield EpochResult(
            epoch, objective, converged, state, {"open columns": int((sweeps < 0).sum())}
        )
        if converged:
            return


def _gram(histories: Any) -> Any:
    """Return ``R'R`` by rows."""
    wide = histories.astype(np.float64)
    gram = sparse.csr_array(wide.T @ wide)
    gram.sort_indices()
    return gram


def _candidates(gram: Any, neighbors: int, nonnegative: bool) -> Any:
    """Return one row per column of W, with zeros at the items that may have a weight."""
    n = gram.shape[0]
    if neighbors:
        return _nearest(gram, neighbors)
    if nonnegative:  # an item without a common user has a slope of 0 or more, and so no weight
        return sparse.csr_array((np.zeros(gram.nnz), gram.indices, gram.indptr), shape=gram.shape)
    if n > MOST_ITEMS:
        raise DataError(
            f"there are {n} items, and up to {MOST_ITEMS} each item may have a weight for each "
            "other; set neighbors, such as neighbors=200, or nonnegative=true."
        )
    parts = (np.zeros(n * n), np.tile(np.arange(n), n), np.arange(n + 1) * n)
    return sparse.csr_array(parts, shape=(n, n))


def _nearest(gram: Any, neighbors: int) -> Any:
    """Return the items with the largest cosine with each item."""
    lengths = np.sqrt(np.maximum(gram.diagonal(), np.finfo(np.float64).tiny))
    keep = np.zeros(gram.nnz, np.bool_)
    for row in range(gram.shape[0]):
        first, last = int(gram.indptr[row]), int(gram.indptr[row + 1])
        items = gram.indices[first:last]
        cosines = gram.data[first:last] / lengths[items]
        cosines[items == row] = -np.inf
        best = np.argsort(-cosines, kind="stable")[:neighbors]
        keep[first + best[cosines[best] > 0.0]] = True
    indptr = np.concatenate(([0], np.cumsum(keep)))[gram.indptr].astype(gram.indptr.dtype)
    indices = gram.indices[keep]
    return sparse.csr_array((np.zeros(indices.size), indices, indptr), shape=gram.shape)


def _state(epoch: int, weights: Any) -> State:
    return {"epoch": np.array([float(epoch)]), "weights": weights.copy()}
