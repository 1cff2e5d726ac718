"""The factored model with embeddings that may be sparse, in memory and in the file."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from ranking.contracts.model import Embedding, Tensors
from ranking.contracts.parameters import boolean, number
from ranking.data.ids import unpack_ids
from ranking.data.validation import as_csr
from ranking.errors import ModelFileError
from ranking.kernels.contract import Singles
from ranking.models.factored import Factored

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

PARTS = {"indptr": np.int64, "indices": np.int32, "data": np.float32}


def _n_nonzero(matrix: Any) -> int:
    return int(matrix.nnz if sparse.issparse(matrix) else np.count_nonzero(matrix))


def nonzero_share(matrix: Any, width: int) -> float:
    """Return the share of non-zeros among the first `width` columns; the others are padding."""
    share: float = _n_nonzero(matrix) / max(matrix.shape[0] * width, 1)
    return share


def stored_bytes(matrix: Any) -> int:
    """Return the memory of a dense or sparse matrix."""
    parts = [getattr(matrix, name) for name in PARTS] if sparse.issparse(matrix) else [matrix]
    return sum(part.nbytes for part in parts)


def as_sparse(matrix: Any) -> Any:
    """Return a matrix as a csr_array, with 4-byte indices if they suffice."""
    rows = sparse.csr_array(matrix)
    if rows.nnz < 2**31:
        rows.indices = rows.indices.astype(np.int32, copy=False)
        rows.indptr = rows.indptr.astype(np.int32, copy=False)
    return rows


@dataclasses.dataclass
class SparseFactored(Factored):
    """Score a query and a document by (U q) . (V d), U and V dense or sparse.

    Each of the two is stored as it was set, so a sparse one takes the memory of its non-zeros, and
    the embedding of a sparse row is sparse.

    Parameters
    ----------
    dimensions : int
        The length of an embedding (number of latent factors).
    biases : bool
        Whether a document feature has a bias; for solver sgd.
    init_scale : float
        As in `factored`, but 1: a penalty that sets entries to 0 would set smaller ones to 0 at
        the start, before anything was learnt.

    Attributes
    ----------
    U, V : float32 arrays
        Dense; if the stored matrix is sparse, converted at each access.
    """

    name: ClassVar[str] = "sparse-factored"

    biases: bool = boolean(False)
    init_scale: float = number(1.0, above=0.0)

    def _setup(self) -> None:
        self._stored: tuple[Any, Any] = (None, None)
        super()._setup()

    def set_matrices(self, queries: Any, documents: Any) -> None:
        """Set the embeddings of both sides: padded float32 arrays, or csr_arrays of that width."""
        self._stored = (queries, documents)

    def matrix(self, side: int) -> Any:
        """Return the embeddings of the query (0) or document features (1) as they are stored."""
        return self._stored[side]

    def embeddings(self, data: MatchingData, side: int) -> Any:
        """Return the embeddings of the queries (0) or documents (1), sparse if U or V is.

        Sums are in the order of the features of a row.
        """
        rows, mapping = self.feature_rows(data, side), self._stored[side]
        if isinstance(rows, int):
            return mapping
        return rows.astype(np.float32) @ mapping

    def _own(self, data: MatchingData, kernel: Kernel, threads: int) -> Embedding:
        rows = self.feature_rows(data, 1)
        biases = self.document_biases
        if biases.size and not isinstance(rows, int):
            biases = np.asarray(rows @ biases, dtype=np.float32)
        sides = []
        for side in (0, 1):
            if sparse.issparse(self._stored[side]):
                sides.append(self.embeddings(data, side).toarray())
            else:
                sides.append(
                    kernel.factored.embeddings(
                        self.feature_rows(data, side), self._stored[side], threads
                    )
                )
        return Embedding(sides[0], sides[1], biases)

    def tensors(self) -> Tensors:
        """Return what `Factored` does; a sparse matrix by its three arrays."""
        tensors = self._other_tensors()
        for name, matrix in zip("UV", self._stored, strict=True):
            if sparse.issparse(matrix):
                tensors |= {
                    f"{name}.{part}": getattr(matrix, part).astype(dtype, copy=False)
                    for part, dtype in PARTS.items()
                }
            else:
                tensors[name] = np.ascontiguousarray(matrix[:, : self.dimensions])
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        rows = unpack_ids("query_feature_ids", tensors)
        columns = unpack_ids("document_feature_ids", tensors)
        matrices = [
            self._restore_matrix(name, tensors, ids.size)
            for name, ids in (("U", rows), ("V", columns))
        ]
        self._restore_others(tensors, rows, columns)
        self._stored = (matrices[0], matrices[1])

    def _restore_matrix(self, name: str, tensors: Tensors, n_rows: int) -> Any:
        if f"{name}.data" not in tensors:
            return self._pad(self._check_tensor(name, tensors, (n_rows, self.dimensions)))
        parts = {part: tensors.get(f"{name}.{part}") for part in PARTS}
        for part, dtype in PARTS.items():
            array = parts[part]
            if array is None or array.dtype != dtype or array.ndim != 1:
                raise ModelFileError(
                    f"a {self.name} model needs `{name}.{part}`, a vector of "
                    f"{np.dtype(dtype).name}."
                )
        try:
            shape = (n_rows, self.dimensions)
            arrays = (parts["data"], parts["indices"], parts["indptr"])
            matrix = as_csr(sparse.csr_array(arrays, shape=shape), name)
        except ValueError as error:
            raise ModelFileError(f"`{name}` of a {self.name} model is damaged: {error}") from error
        if not np.isfinite(matrix.data).all():
            raise ModelFileError(f"`{name}` of a {self.name} model must be finite.")
        return as_sparse(sparse.csr_array(arrays, shape=(n_rows, self.width)))

    @property
    def has_embeddings(self) -> bool:
        """Whether any number of U or V is not zero; else scores are the biases alone."""
        return any(_n_nonzero(matrix) for matrix in self._stored)

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero."""
        n_nonzero = int(np.count_nonzero(self.document_biases))
        size = self.document_biases.size
        for matrix in self._stored:
            n_nonzero += _n_nonzero(matrix)
            size += matrix.shape[0] * self.dimensions
        return n_nonzero / max(size, 1)

    def _dense(self, side: int) -> Singles:
        stored = self._stored[side]
        dense: Singles = stored.toarray() if sparse.issparse(stored) else stored
        return dense

    def densify(self) -> None:
        """Store U and V as dense arrays, for a solver that changes them in place."""
        self._stored = (self._dense(0), self._dense(1))

    # `Factored` sets U and V when it is initialized or grows; here they refer to what is stored.
    @property
    def U(self) -> Singles:  # noqa: N802
        """The embeddings of the query features, dense."""
        return self._dense(0)

    @U.setter
    def U(self, matrix: Singles) -> None:  # noqa: N802
        self._stored = (matrix, self._stored[1])

    @property
    def V(self) -> Singles:  # noqa: N802
        """The embeddings of the document features, dense."""
        return self._dense(1)

    @V.setter
    def V(self, matrix: Singles) -> None:  # noqa: N802
        self._stored = (self._stored[0], matrix)
