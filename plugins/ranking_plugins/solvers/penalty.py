"""A regularizer of the bilinear model: by entry or group in the kernel, or between calls."""

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
    StructuredPenalty,
    SupportsStructure,
    kernel_form,
    kernel_forms,
    target_density,
)
from ranking.errors import CombinationError
from ranking.kernels.bilinear import BilinearWeights
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.kernel import Kernel
from ranking.models.bilinear import Bilinear, Diagonal

BLOCK = 1 << 20
"""Numbers of the rows to which `prox` is applied at a time."""


class Penalty:
    """The kernel form of a regularizer, for one model.

    Attributes
    ----------
    transposed : bool
        Whether W is trained with one row per document feature, for groups of columns.
    prox_between_calls : bool
        Whether no kernel has it, so that `prox` is applied between calls.
    """

    def __init__(
        self, regularizer: Regularizer | None, model: Bilinear, one_row: bool = False
    ) -> None:
        """Prepare a regularizer for the features of a model.

        Parameters
        ----------
        one_row : bool
            Whether W is the weights of a linear model, whose only query feature is 1.
        """
        self.regularizer = regularizer
        self.shared = model.shared_features() if isinstance(model, Diagonal) else None
        self.structure = self._structure(model, one_row)
        self.group: GroupPenalty | None = None
        self.prox_between_calls = regularizer is not None and "matrix" not in kernel_forms(
            regularizer
        )
        self.ids = FeatureIds(model.query_feature_ids, model.document_feature_ids)
        if regularizer is not None and target_density(regularizer) is None:
            form = kernel_form(regularizer, "matrix", self.ids)
            self.group = form if isinstance(form, GroupPenalty) else None
        self.transposed = self.group is not None and self.group.columns

    def begin(self, kernel: Kernel, model: Bilinear) -> BilinearWeights:
        """Return the weights of the model in the form in which they are trained."""
        weights = model.weights.T.tocsr() if self.transposed else model.weights
        if self.group is None:
            return BilinearWeights(kernel, weights)
        return BilinearWeights(kernel, weights, self.group.groups, self.group.weights)

    def strengths(self) -> dict[str, float]:
        """Return l1 and l2 for the kernel."""
        if self.regularizer is None or self.prox_between_calls:
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

    def prox(self, weights: sp.csr_array, rate: float) -> sp.csr_array:
        """Return the prox of W, for the sum of the learning rates of some steps."""
        assert self.regularizer is not None
        if self.structure is not None:
            return self._structured_prox(self.structure, weights, rate)
        result = weights.copy()
        for entries, present, rows in _packed(result):
            result.data[entries] = self.regularizer.prox(rows, rate)[present]
        result.eliminate_zeros()
        return result

    def _structure(self, model: Bilinear, one_row: bool) -> StructuredPenalty | None:
        """Return the penalty if it knows features by their ids, or None."""
        regularizer: object = self.regularizer
        if not isinstance(regularizer, SupportsStructure):
            return None
        rows, columns = model.query_feature_ids, model.document_feature_ids
        if self.shared is not None:
            return regularizer.structure(None, columns[self.shared[1]])
        return regularizer.structure(None if one_row else rows, columns)

    def _structured_prox(
        self, structure: StructuredPenalty, weights: sp.csr_array, rate: float
    ) -> sp.csr_array:
        result = structure.prox(self._coupled(weights), rate).astype(weights.dtype)
        if self.shared is not None:
            entries = (result.toarray()[0], self.shared)
            result = sp.coo_array(entries, shape=weights.shape).tocsr()
        result.eliminate_zeros()
        result.sort_indices()
        return result

    def _coupled(self, weights: sp.csr_array) -> sp.csr_array:
        """Return W as the penalty takes it: of a diagonal model, the shared features in one row."""
        if self.shared is None:
            return weights
        return sp.csr_array(np.atleast_2d(weights[self.shared]))

    def value(self, regularizer: Regularizer, model: Bilinear) -> float:
        """Return the penalty of the weights of the model, in time linear in the non-zeros."""
        if self.structure is not None:
            return self.structure.penalty(self._coupled(model.weights))
        if self.prox_between_calls:
            return sum(regularizer.penalty(rows) for _, _, rows in _packed(model.weights))
        if not any(self.strengths().values()):
            return 0.0  # without a copy of W, which may be large
        weights = model.weights
        if self.group is None:
            return regularizer.penalty(weights.data.astype(np.float64))
        squares = (weights.multiply(weights)).sum(axis=0 if self.group.columns else 1)
        norms = np.sqrt(np.bincount(self.group.groups, weights=np.asarray(squares).ravel()))
        return self.group.strength * float((self.group.weights * norms).sum())


def _packed(weights: sp.csr_array) -> Iterator[tuple[Ints, NDArray[np.bool_], Floats]]:
    """Yield blocks of rows without their zeros: positions of the entries, a mask, and a matrix.

    Rows of similar length are in one block; shorter ones are padded with 0.
    """
    lengths = np.diff(weights.indptr)
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] > 0]
    start = 0
    while start < order.size:
        stop = start + 1 + int(np.searchsorted(_filled(lengths[order[start:]]), BLOCK))
        rows = order[start : min(stop, order.size)]
        within = np.arange(lengths[rows[-1]])
        present = within < lengths[rows, None]
        entries = (weights.indptr[rows].astype(np.int64)[:, None] + within)[present]
        packed = np.zeros(present.shape)
        packed[present] = weights.data[entries]
        yield entries, present, packed
        start += rows.size


def _filled(lengths: Ints) -> Ints:
    """Return the size of blocks of the first 1, 2, ... rows, padded to the longest."""
    filled: Ints = lengths * np.arange(1, lengths.size + 1)
    return filled
