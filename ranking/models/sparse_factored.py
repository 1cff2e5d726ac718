"""The factored model with vectors that may be sparse: in memory, in the file, and in its images."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import sparse

from ranking.contracts.model import Embedding, Tensors
from ranking.data.ids import unpack_ids
from ranking.data.validation import as_csr
from ranking.errors import ModelFileError
from ranking.kernels.contract import Singles
from ranking.models.factored import Factored

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel

PARTS = {"indptr": np.int64, "indices": np.int32, "data": np.float32}


def _filled(matrix: Any) -> int:
    return int(matrix.nnz if sparse.issparse(matrix) else np.count_nonzero(matrix))


def nonzero_share(matrix: Any, width: int) -> float:
    """Return the share of non-zeros among the first `width` columns; the others are padding."""
    share: float = _filled(matrix) / max(matrix.shape[0] * width, 1)
    return share


def stored_bytes(matrix: Any) -> int:
    """Return the memory of a dense or sparse matrix."""
    parts = [getattr(matrix, name) for name in PARTS] if sparse.issparse(matrix) else [matrix]
    return sum(part.nbytes for part in parts)


def as_sparse(matrix: Any) -> Any:
    """Return a matrix as a csr_array whose positions have 4 bytes, if they fit."""
    made = sparse.csr_array(matrix)
    if made.nnz < 2**31:
        made.indices = made.indices.astype(np.int32, copy=False)
        made.indptr = made.indptr.astype(np.int32, copy=False)
    return made


@dataclasses.dataclass
class SparseFactored(Factored):
    """Scores a query and a document by (U q) . (V d), U and V dense or sparse.

    Each of the two is kept as it was put in, so a sparse one takes the memory of its non-zeros,
    and the image of a sparse object is sparse.

    Parameters
    ----------
    dimensions : int
        The length of a vector.
    biases : bool
        Whether a document feature has a bias; for solver sgd.

    Attributes
    ----------
    U, V : float32 arrays
        Dense, whatever is kept; made anew at each look if that is sparse.
    """

    name: ClassVar[str] = "sparse-factored"

    biases: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        self._kept: tuple[Any, Any] = (None, None)
        super().__post_init__()

    def put(self, queries: Any, documents: Any) -> None:
        """Take the vectors of both sides: padded float32 arrays, or csr_arrays of that width."""
        self._kept = (queries, documents)

    def kept(self, side: int) -> Any:
        """Return the vectors of the query (0) or document features (1) as they are kept."""
        return self._kept[side]

    def images(self, data: MatchingData, side: int) -> Any:
        """Return the vectors of the queries (0) or documents (1), a row an object; sparse if so.

        Sums are in the order of an object's features.
        """
        rows, mapping = self._rows(data, side), self._kept[side]
        if isinstance(rows, int):
            return mapping
        return rows.astype(np.float32) @ mapping

    def _own(self, data: MatchingData, kernel: Kernel, threads: int) -> Embedding:
        rows = self._rows(data, 1)
        biases = self.document_biases
        if biases.size and not isinstance(rows, int):
            biases = np.asarray(rows @ biases, dtype=np.float32)
        made = []
        for side in (0, 1):
            if sparse.issparse(self._kept[side]):
                made.append(self.images(data, side).toarray())
            else:
                made.append(kernel.factored.embeddings(self._rows(data, side), self._kept[side], threads))
        return Embedding(made[0], made[1], biases)

    def tensors(self) -> Tensors:
        """Return what `Factored` does, a sparse matrix by its three parts."""
        found = self._beside_vectors()
        for name, matrix in zip("UV", self._kept, strict=True):
            if sparse.issparse(matrix):
                found |= {
                    f"{name}.{part}": getattr(matrix, part).astype(dtype, copy=False)
                    for part, dtype in PARTS.items()
                }
            else:
                found[name] = np.ascontiguousarray(matrix[:, : self.dimensions])
        return found

    def restore(self, tensors: Tensors) -> None:
        """Take back what `tensors` returned."""
        rows = unpack_ids("query_feature_ids", tensors)
        columns = unpack_ids("document_feature_ids", tensors)
        kept = [
            self._restored(name, tensors, ids.size) for name, ids in (("U", rows), ("V", columns))
        ]
        self._restore_beside(tensors, rows, columns)
        self._kept = (kept[0], kept[1])

    def _restored(self, name: str, tensors: Tensors, n_rows: int) -> Any:
        if f"{name}.data" not in tensors:
            return self._padded(self._checked(name, tensors, (n_rows, self.dimensions)))
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
            given = (parts["data"], parts["indices"], parts["indptr"])
            matrix = as_csr(sparse.csr_array(given, shape=shape), name)
        except ValueError as error:
            raise ModelFileError(f"`{name}` of a {self.name} model is damaged: {error}") from error
        if not np.isfinite(matrix.data).all():
            raise ModelFileError(f"`{name}` of a {self.name} model must be finite.")
        return as_sparse(sparse.csr_array(given, shape=(n_rows, self.width)))

    @property
    def density(self) -> float:
        """The share of the parameters that are not zero."""
        filled = int(np.count_nonzero(self.document_biases))
        size = self.document_biases.size
        for matrix in self._kept:
            filled += _filled(matrix)
            size += matrix.shape[0] * self.dimensions
        return filled / max(size, 1)

    def _dense(self, side: int) -> Singles:
        kept = self._kept[side]
        dense: Singles = kept.toarray() if sparse.issparse(kept) else kept
        return dense

    # `Factored` sets U and V when it begins and grows; here they lead to what is kept.
    @property
    def U(self) -> Singles:  # noqa: N802
        """The vectors of the query features, dense."""
        return self._dense(0)

    @U.setter
    def U(self, given: Singles) -> None:  # noqa: N802
        self._kept = (given, self._kept[1])

    @property
    def V(self) -> Singles:  # noqa: N802
        """The vectors of the document features, dense."""
        return self._dense(1)

    @V.setter
    def V(self, given: Singles) -> None:  # noqa: N802
        self._kept = (self._kept[0], given)
