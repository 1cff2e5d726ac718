"""A regularizer as the bilinear loops take it: by entry, or by group."""

from __future__ import annotations

import numpy as np

from ranking.contracts.regularizer import GroupPenalty, Regularizer
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearWeights
from ranking.kernels.kernel import Kernel
from ranking.models.bilinear import Bilinear


class Penalty:
    """The form of a regularizer that kernels inline, for one model.

    Attributes
    ----------
    transposed : bool
        Whether W is trained with a row a document feature, as groups of columns need it.
    """

    def __init__(self, regularizer: Regularizer | None, model: Bilinear) -> None:
        self.regularizer = regularizer
        self.group: GroupPenalty | None = None
        if regularizer is not None:
            self.group = regularizer.group_penalty(
                model.query_feature_ids, model.document_feature_ids
            )
        self.transposed = self.group is not None and self.group.columns

    def begin(self, kernel: Kernel, model: Bilinear) -> BilinearWeights:
        """Return the model's weights, ready for training."""
        weights = model.weights.T.tocsr() if self.transposed else model.weights
        if self.group is None:
            return BilinearWeights(kernel, weights)
        return BilinearWeights(kernel, weights, self.group.groups, self.group.weights)

    def strengths(self) -> dict[str, float]:
        """Return l1 and l2 as a kernel takes them."""
        if self.regularizer is None:
            return {"l1": 0.0, "l2": 0.0}
        if self.group is not None:
            return {"l1": self.group.strength, "l2": 0.0}
        entry = self.regularizer.entry_penalty()
        if entry is None:
            raise CombinationError(
                f"regularizer {self.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, "
                "which sgd needs; l1 and l2 are."
            )
        return {"l1": entry.l1, "l2": entry.l2}

    def value(self, regularizer: Regularizer, model: Bilinear) -> float:
        """Return the penalty of the model's weights, in time that follows the non-zeros."""
        if not any(self.strengths().values()):
            return 0.0  # and W, which may be large, is not even looked at
        weights = model.weights
        if self.group is None:
            return regularizer.penalty(weights.data.astype(np.float64))
        squares = (weights.multiply(weights)).sum(axis=0 if self.group.columns else 1)
        norms = np.sqrt(np.bincount(self.group.groups, weights=np.asarray(squares).ravel()))
        return self.group.strength * float((self.group.weights * norms).sum())
