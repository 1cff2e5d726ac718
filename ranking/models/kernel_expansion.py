"""The kernel expansion: documents are compared with those of the training data by a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.model import MatchingModel, Tensors
from ranking.contracts.parameters import choice, integer, number
from ranking.data.ids import empty_ids, pack_ids, unpack_ids
from ranking.data.validation import Ids, take_columns
from ranking.errors import ModelFileError
from ranking.kernels.contract import Floats, Ints

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class KernelExpansion(MatchingModel):
    """Score a query and a document by the sum over s of (q' A)_s k(support document s, document).

    That is q' W phi(d) with a matrix W over the feature space phi of the kernel k, which is never
    computed.

    Parameters
    ----------
    function : {"rbf", "polynomial", "linear"}
        k(x, y): exp(-gamma |x - y|^2), (gamma x'y + offset)^degree, or x'y.
    gamma : float
    degree : int
    offset : float

    Attributes
    ----------
    support : csr_array
        The documents of the expansion, one row each.
    coefficients : csr_array
        A: one row per query feature, one column per support document.
    query_feature_ids, document_feature_ids : int64 or str arrays
    """

    name: ClassVar[str] = "kernel-expansion"
    form: ClassVar[Any] = "expansion"

    function: str = choice("rbf", "rbf", "polynomial", "linear")
    gamma: float = number(1.0, above=0.0)
    degree: int = integer(2, minimum=1)
    offset: float = number(1.0, minimum=0.0)

    query_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )
    document_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )

    def _setup(self) -> None:
        self.support = sp.csr_array((0, 1))
        self.coefficients = sp.csr_array((1, 0))

    def idle(self) -> set[str]:
        """Return the parameters that the kernel function does not have."""
        used = {"rbf": {"gamma"}, "polynomial": {"gamma", "degree", "offset"}, "linear": set()}
        return {"gamma", "degree", "offset"} - used[self.function]

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Begin without support documents, when all scores are 0."""
        self.query_feature_ids = data.query_feature_ids.copy()
        self.document_feature_ids = data.document_feature_ids.copy()
        self.support = sp.csr_array((0, self.document_feature_ids.size))
        self.coefficients = sp.csr_array((self.query_feature_ids.size, 0))

    def documents(self, data: MatchingData) -> sp.csr_array:
        """Return the features of documents, aligned with those of the support."""
        rows = take_columns(
            data.document_rows, data.document_feature_ids, self.document_feature_ids
        )
        return sp.csr_array(rows, dtype=np.float64)

    def queries(self, data: MatchingData) -> sp.csr_array:
        """Return the features of queries, aligned with the rows of the coefficients."""
        rows = take_columns(data.query_rows, data.query_feature_ids, self.query_feature_ids)
        return sp.csr_array(rows, dtype=np.float64)

    def evaluate(self, left: sp.csr_array, right: sp.csr_array) -> NDArray[np.float64]:
        """Return k of each row of one with each row of the other."""
        products: NDArray[np.float64] = (left @ right.T).toarray()
        if self.function == "linear":
            return products
        if self.function == "polynomial":
            powers: NDArray[np.float64] = (self.gamma * products + self.offset) ** self.degree
            return powers
        squares = left.multiply(left).sum(axis=1)[:, None] + right.multiply(right).sum(axis=1)
        distances = np.maximum(squares - 2.0 * products, 0.0)
        similarities: NDArray[np.float64] = np.exp(-self.gamma * distances)
        return similarities

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        queries, documents = self.queries(data), self.documents(data)
        similarities = self.evaluate(self.support, documents)

        def scores(positions: Ints) -> Floats:
            mixed = queries[positions] @ self.coefficients
            return np.asarray(mixed @ similarities, dtype=np.float64)

        return scores

    def tensors(self) -> Tensors:
        """Return the support and the coefficients in CSR, and the ids of features."""
        tensors: Tensors = {}
        for name in ("support", "coefficients"):
            matrix = getattr(self, name)
            tensors[f"{name}/indptr"] = matrix.indptr.astype(np.int64)
            tensors[f"{name}/indices"] = matrix.indices.astype(np.int32)
            tensors[f"{name}/values"] = matrix.data.astype(np.float64)
        return (
            tensors
            | pack_ids("query_feature_ids", self.query_feature_ids)
            | pack_ids("document_feature_ids", self.document_feature_ids)
        )

    def restore(self, tensors: Tensors) -> None:
        """Restore support, coefficients and ids."""
        queries = unpack_ids("query_feature_ids", tensors)
        documents = unpack_ids("document_feature_ids", tensors)
        self.support = _matrix("support", tensors, documents.size)
        coefficients = _matrix("coefficients", tensors, self.support.shape[0])
        if coefficients.shape[0] != queries.size:
            raise ModelFileError(
                f"a kernel-expansion has {coefficients.shape[0]} rows of coefficients and "
                f"{queries.size} query features; train it again."
            )
        self.coefficients = coefficients
        self.query_feature_ids, self.document_feature_ids = queries, documents

    @property
    def density(self) -> float:
        """The share of the coefficients that are not zero."""
        return float(self.coefficients.nnz / max(np.prod(self.coefficients.shape), 1))


def _matrix(name: str, tensors: Tensors, width: int) -> sp.csr_array:
    """Return a matrix of a model file, or refuse it."""
    parts = [tensors.get(f"{name}/{part}") for part in ("values", "indices", "indptr")]
    kinds = ("float64", "int32", "int64")
    arrays: list[NDArray[Any]] = []
    for array, kind in zip(parts, kinds, strict=True):
        if array is None or array.ndim != 1 or array.dtype.name != kind:
            raise ModelFileError(f"a kernel-expansion needs `{name}` in CSR; train it again.")
        arrays.append(np.array(array))
    values, indices, indptr = arrays
    fits = (
        indptr.size > 0
        and indptr[0] == 0
        and indptr[-1] == indices.size == values.size
        and not (np.diff(indptr) < 0).any()
        and (not indices.size or 0 <= indices.min() <= indices.max() < width)
        and np.isfinite(values).all()
    )
    if not fits:
        raise ModelFileError(f"`{name}` of the kernel-expansion is damaged; train it again.")
    return sp.csr_array((values, indices, indptr), shape=(indptr.size - 1, width))
