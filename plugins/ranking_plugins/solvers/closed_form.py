"""Item-item weights in closed form (EASE): the inverse of the Gram matrix of the items."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, TrainingProblem
from ranking.errors import DataError
from ranking.kernels.contract import Floats
from ranking.models.item_item import ItemItem
from ranking_plugins.losses.squared import Squared
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.regularizers.polar import one_blas_thread
from ranking_plugins.regularizers.strength import known
from ranking_plugins.solvers.factorization import refuse_weights
from ranking_plugins.solvers.pruning import pruned

BLOCK = 1024
"""Users whose error is summed, or rows of weights that are pruned, at a time."""


@dataclasses.dataclass
class ClosedForm(Solver):
    """Minimize ``|R - R W|**2 + strength/2 |W|**2`` over W with a zero diagonal (Steck, 2019).

    With ``P = (R'R + strength/2 I)**-1``, the minimum is ``W_ij = -P_ij / P_jj``. P is dense:
    8 bytes per pair of items, and as many again for all of W.

    Parameters
    ----------
    density : float
        The share of weights to keep, those with the largest absolute values; 1 keeps all.
    max_gigabytes : float
        Refuse a Gram matrix that needs more memory.
    """

    name: ClassVar[str] = "closed-form"

    density: float = number(1.0, above=0.0, maximum=1.0)
    max_gigabytes: float = number(13.0, above=0.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the item-item model, the squared loss and L2."""
        if not issubclass(model, ItemItem):
            return Compatibility(
                False, "the closed form is that of a full matrix of weights between items"
            )
        if not issubclass(loss, Squared):
            return Compatibility(False, "the closed form is the minimum of a squared error")
        if regularizer is not L2:
            return Compatibility(
                False,
                "the minimum is the inverse of a matrix only if the penalty is a sum of squares, "
                "which also makes that matrix invertible",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Compute the weights, in one epoch."""
        refuse_weights(problem.loss, self.name)
        model, regularizer = cast(ItemItem, problem.model), cast(L2, problem.regularizer)
        ridge = known(regularizer.strength) / 2.0
        n = model.document_feature_ids.size
        gigabytes = n * n * 8 / 1e9
        if gigabytes > self.max_gigabytes:
            raise DataError(
                f"the Gram matrix of {n} items needs {gigabytes:.1f} gigabytes, and max_gigabytes "
                f"is {self.max_gigabytes:g}; raise it, leave out rare items, or use solver "
                "coordinate with neighbors (recipe slim)."
            )
        with one_blas_thread():
            inverse = _inverse(model.histories, ridge)
        diagonal = inverse.diagonal().copy()
        objective = float((1.0 / diagonal - ridge).sum())
        model.weights = _weights(inverse, diagonal, self.density)
        if model.weights.nnz < n * (n - 1):
            objective = _objective(model.histories, model.weights, ridge)
        yield EpochResult(1, objective, True, dict, {"megabytes": inverse.nbytes / 1e6})


def _inverse(histories: Any, ridge: float) -> Floats:
    """Return ``(R'R + ridge I)**-1``; ridge must be positive."""
    wide = histories.astype(np.float64)
    gram = np.asfortranarray((wide.T @ wide).toarray())
    gram[np.diag_indices_from(gram)] += ridge
    factor, failed = lapack.dpotrf(gram, lower=1, overwrite_a=1)
    if failed:
        raise DataError(
            "the Gram matrix of the items is not positive definite; raise the strength of l2."
        )
    inverse, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    upper = np.triu_indices(inverse.shape[0], 1) if inverse.shape[0] <= BLOCK else None
    if upper is not None:
        inverse[upper] = inverse.T[upper]
        return cast(Floats, inverse)
    for at in range(0, inverse.shape[0], BLOCK):  # without a second copy
        inverse[at : at + BLOCK, at + BLOCK :] = inverse[at + BLOCK :, at : at + BLOCK].T
        square = inverse[at : at + BLOCK, at : at + BLOCK]
        square[...] = np.tril(square) + np.tril(square, -1).T
    return cast(Floats, inverse)


def _weights(inverse: Floats, diagonal: Floats, density: float) -> Any:
    """Return W, pruned block by block and then as a whole."""
    n = diagonal.size
    parts = []
    for at in range(0, n, BLOCK):
        rows = inverse[at : at + BLOCK] / -diagonal
        rows[np.arange(rows.shape[0]), at + np.arange(rows.shape[0])] = 0.0
        # A block may have most of the large weights, so its own share is not final.
        block = sparse.csr_array(rows.astype(np.float32))
        parts.append(pruned(block, min(1.0, density * -(-n // BLOCK))))
    weights = sparse.csr_array(sparse.vstack(parts, format="csr"))
    return pruned(weights, density) if density < 1.0 else weights


def _objective(histories: Any, weights: Any, ridge: float) -> float:
    """Return the objective of any W, by blocks of users."""
    total = 0.0
    for at in range(0, histories.shape[0], BLOCK):
        block = histories[at : at + BLOCK].astype(np.float64)
        error = (block @ weights.astype(np.float64) - block).tocsr()
        total += float((error.data * error.data).sum())
    return total + ridge * float((weights.data.astype(np.float64) ** 2).sum())
