"""A regularizer as the bilinear loops take it: by entry, by group, or between two calls."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.regularizer import (
    EntryPenalty,
    FeatureIds,
    GroupPenalty,
    Regularizer,
    kernel_form,
    kernel_forms,
    target_density,
)
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearWeights
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.kernel import Kernel
from ranking.models.bilinear import Bilinear

BLOCK = 1 << 20
"""Numbers of the rows that are shrunk at a time."""


class Penalty:
    """The form of a regularizer that kernels inline, for one model.

    Attributes
    ----------
    transposed : bool
        Whether W is trained with a row a document feature, as groups of columns need it.
    apart : bool
        Whether no loop has it, so that `shrunk` is taken between two calls.
    """

    def __init__(self, regularizer: Regularizer | None, model: Bilinear) -> None:
        self.regularizer = regularizer
        self.group: GroupPenalty | None = None
        self.apart = regularizer is not None and "matrix" not in kernel_forms(regularizer)
        self.ids = FeatureIds(model.query_feature_ids, model.document_feature_ids)
        if regularizer is not None and target_density(regularizer) is None:
            form = kernel_form(regularizer, "matrix", self.ids)
            self.group = form if isinstance(form, GroupPenalty) else None
        self.transposed = self.group is not None and self.group.columns

    def begin(self, kernel: Kernel, model: Bilinear) -> BilinearWeights:
        """Return the model's weights, ready for training."""
        weights = model.weights.T.tocsr() if self.transposed else model.weights
        if self.group is None:
            return BilinearWeights(kernel, weights)
        return BilinearWeights(kernel, weights, self.group.groups, self.group.weights)

    def strengths(self) -> dict[str, float]:
        """Return l1 and l2 as a kernel takes them."""
        if self.regularizer is None or self.apart:
            return {"l1": 0.0, "l2": 0.0}
        if self.group is not None:
            return {"l1": self.group.strength, "l2": 0.0}
        entry = kernel_form(self.regularizer, "matrix", self.ids)
        if not isinstance(entry, EntryPenalty):
            raise CombinationError(
                f"regularizer {self.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, "
                "which sgd needs; l1 and l2 are."
            )
        return {"l1": entry.l1, "l2": entry.l2}

    def shrunk(self, weights: sp.csr_array, due: float) -> sp.csr_array:
        """Return W after the regularizer's operator, for the sum of some steps' rates."""
        assert self.regularizer is not None
        made = weights.copy()
        for entries, there, rows in _packed(made):
            made.data[entries] = self.regularizer.prox(rows, due)[there]
        made.eliminate_zeros()
        return made

    def value(self, regularizer: Regularizer, model: Bilinear) -> float:
        """Return the penalty of the model's weights, in time that follows the non-zeros."""
        if self.apart:
            return sum(regularizer.penalty(rows) for _, _, rows in _packed(model.weights))
        if not any(self.strengths().values()):
            return 0.0  # and W, which may be large, is not even looked at
        weights = model.weights
        if self.group is None:
            return regularizer.penalty(weights.data.astype(np.float64))
        squares = (weights.multiply(weights)).sum(axis=0 if self.group.columns else 1)
        norms = np.sqrt(np.bincount(self.group.groups, weights=np.asarray(squares).ravel()))
        return self.group.strength * float((self.group.weights * norms).sum())


def _packed(weights: sp.csr_array) -> Iterator[tuple[Ints, NDArray[np.bool_], Floats]]:
    """Yield rows without their zeros, some at a time: where their entries are, and a matrix.

    Rows of about one length come together; where a shorter one has no entry, there is a 0.
    """
    lengths = np.diff(weights.indptr)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < order.size:
        stop = start + 1 + int(np.searchsorted(_filled(lengths[order[start:]]), BLOCK))
        rows = order[start : min(stop, order.size)]
        within = np.arange(lengths[rows[-1]])
        there = within < lengths[rows, None]
        entries = (weights.indptr[rows].astype(np.int64)[:, None] + within)[there]
        packed = np.zeros(there.shape)
        packed[there] = weights.data[entries]
        yield entries, there, packed
        start += rows.size


def _filled(lengths: Ints) -> Ints:
    """Return how many numbers the first 1, 2, ... rows take, all as long as the longest."""
    filled: Ints = lengths * np.arange(1, lengths.size + 1)
    return filled
