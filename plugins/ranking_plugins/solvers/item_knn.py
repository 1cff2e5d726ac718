"""Item-based nearest neighbours: cosines of items by their users, shrunk and pruned."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, cast

import numpy as np
from scipy import sparse

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, TrainingProblem
from ranking.models.item_item import ItemItem
from ranking_plugins.losses.alignment import Alignment
from ranking_plugins.regularizers.none import NoPenalty

BLOCK = 1024
"""Items whose neighbours are computed at a time."""


@dataclasses.dataclass
class ItemKNN(Solver):
    """Set ``W_ij = G_ij / (|r_i| |r_j| + shrinkage)`` for the nearest neighbours i of each item j.

    r_i are the values of item i for all users, and ``G = R'R`` their inner products; the diagonal
    is 0. Without shrinkage W_ij is the cosine. These weights minimise
    ``sum_ij (|r_i| |r_j| + shrinkage) W_ij**2 / 2 - G_ij W_ij`` over the chosen pairs: the
    alignment of histories and scores, with a penalty on weights between popular items. That is the
    objective. The seed has no effect.

    Parameters
    ----------
    neighbors : int
        The number of neighbours of an item, those with the largest weights, the first of equals.
    shrinkage : float
        How strongly weights of pairs with few common users are reduced.
    """

    name: ClassVar[str] = "item-knn"

    neighbors: int = integer(100, minimum=1)
    shrinkage: float = number(10.0, minimum=0.0)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the item-item model, alignment and no penalty."""
        if not issubclass(model, ItemItem):
            return Compatibility(False, "neighbours of items are weights of an item-item model")
        if not issubclass(loss, Alignment):
            return Compatibility(
                False, "cosines maximize an alignment, and neither an error nor a margin"
            )
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(
                False, "cosines are the minimum for one penalty, which shrinkage sets"
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Compute the weights, in one epoch."""
        model = cast(ItemItem, problem.model)
        histories = sparse.csr_array(model.histories, dtype=np.float64)
        by_item = sparse.csr_array(histories.T)
        norms = np.sqrt(np.asarray((histories * histories).sum(axis=0)).ravel())
        blocks, objective = [], 0.0
        for at in range(0, norms.size, BLOCK):
            products = sparse.csr_array(by_item[at : at + BLOCK] @ histories)
            products.sort_indices()
            weights, gained = self._neighbours(products, at, norms)
            blocks.append(weights)
            objective -= gained / 2.0
        columns = sparse.vstack(blocks, format="csr")
        model.weights = sparse.csr_array(columns.T, dtype=np.float32)
        model.weights.sort_indices()
        yield EpochResult(1, objective, True, dict)

    def _neighbours(self, products: Any, first: int, norms: Any) -> tuple[Any, float]:
        """Return the weights of a block of items, one row each, and the sum of G_ij W_ij."""
        items = np.repeat(np.arange(products.shape[0]), np.diff(products.indptr))
        others = products.indices
        allowed = (others != items + first) & (products.data > 0.0)
        items, others, values = items[allowed], others[allowed], products.data[allowed]
        weights = values / (norms[items + first] * norms[others] + self.shrinkage)
        order = np.lexsort((others, -weights, items))
        starts = np.searchsorted(items[order], np.arange(products.shape[0]))
        position = np.arange(order.size) - starts[items[order]]
        nearest = order[position < self.neighbors]
        entries = (weights[nearest], (items[nearest], others[nearest]))
        block = sparse.coo_array(entries, shape=products.shape).tocsr()
        return block, float((values[nearest] * weights[nearest]).sum())
