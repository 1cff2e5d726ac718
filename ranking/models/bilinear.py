"""Bilinear models: q' W d, with W_ij the weight of query feature i and document feature j."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.model import MatchingModel, Tensors
from ranking.contracts.parameters import choice
from ranking.data.ids import empty_ids, merge_ids, pack_ids, unpack_ids
from ranking.data.validation import Ids, take_columns
from ranking.errors import CombinationError, ModelFileError, PartError
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.kernels.contract import Floats, Ints

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class Bilinear(MatchingModel):
    """Score a query and a document by q' W d.

    Parameters
    ----------
    initial : {"auto", "identity", "zero"}
        W before training. The identity is 1 where a feature of queries and one of documents have
        the same id, which makes the score the cosine of texts of unit length. "auto" is that if
        they share any id, else zero.
    dtype : {"float32", "float64"}
        Type of W.
    trainable : {"all", "unshared"}
        Which entries of W training changes: all, or those of a feature that only queries have and
        one that only documents have, such as ``text:query_ngrams=2,document_ids=true``. The other
        entries keep their initial values.

    Attributes
    ----------
    query_feature_ids, document_feature_ids : int64 or str arrays
        The features of the rows and of the columns of W.
    """

    name: ClassVar[str] = "bilinear"
    form: ClassVar[Any] = "matrix"
    grows: ClassVar[bool] = True
    """Whether training may add entries to W that are zero at the start."""

    initial: str = choice("auto", "auto", "identity", "zero")
    dtype: str = choice("float32", "float32", "float64")
    trainable: str = choice("all", "all", "unshared")

    query_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )
    document_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )

    def _setup(self) -> None:
        self._weights = sp.csr_array((1, 1), dtype=self.dtype)
        self._live: BilinearWeights | None = None
        self._transposed = False

    @property
    def weights(self) -> sp.csr_array:
        """W: one row per query feature, one column per document feature.

        During training it is built from what the solver holds, at each access; see `synchronize`.
        """
        if self._live is None:
            return self._weights
        weights = self._live.weights()
        return weights.T.tocsr() if self._transposed else weights

    @weights.setter
    def weights(self, weights: sp.csr_array) -> None:
        self._weights, self._live = weights, None

    def __getstate__(self) -> dict[str, Any]:
        """Pickle W as it is now, without the solver that may hold it."""
        return {**self.__dict__, "_weights": self.weights, "_live": None}

    def follow(self, live: BilinearWeights, transposed: bool = False) -> None:
        """Read W from the weights of a solver, until `synchronize` copies it."""
        self._live, self._transposed = live, transposed

    def synchronize(self) -> None:
        """Copy W from the solver that holds it."""
        if self._live is not None:
            self._weights, self._live = self.weights, None

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Size W for the features of these data."""
        self.query_feature_ids = data.query_feature_ids.copy()
        self.document_feature_ids = data.document_feature_ids.copy()
        self.weights = self._initial(self.query_feature_ids, self.document_feature_ids)

    def _initial(self, rows: Ids, columns: Ids) -> sp.csr_array:
        at_row, at_column = _shared(rows, columns)
        if self.initial == "zero":
            at_row = at_column = at_row[:0]
        elif not at_row.size and self.initial == "identity":
            raise PartError(
                f"{self.name} has initial=identity, but queries and documents share no feature "
                "id; use the same feature names, or initial=zero."
            )
        ones = np.ones(at_row.size, self.dtype)
        shape = (rows.size, columns.size)
        return sp.csr_array(sp.coo_array((ones, (at_row, at_column)), shape=shape))

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return what `initial` was, if it is "auto"."""
        if self.initial != "auto":
            return {}
        shared = _shared(self.query_feature_ids, self.document_feature_ids)[0].size
        return {"initial": "identity" if shared else "zero"}

    def knows(self, data: MatchingData) -> bool:
        """Return whether W has a row or column for every feature of these data."""
        sides = (
            (data.query_feature_ids, self.query_feature_ids),
            (data.document_feature_ids, self.document_feature_ids),
        )
        return all(bool(np.isin(new, known).all()) for new, known in sides)

    def add_features(self, data: MatchingData, kernel: Kernel) -> None:
        """Append rows and columns to W for the features that are new in these data."""
        rows = merge_ids(self.query_feature_ids, data.query_feature_ids)
        columns = merge_ids(self.document_feature_ids, data.document_feature_ids)
        old = self.weights
        if (rows.size, columns.size) == old.shape:
            return
        fresh = sp.csr_array(self._initial(rows, columns).tocoo()).tocoo()
        new = (fresh.coords[0] >= old.shape[0]) | (fresh.coords[1] >= old.shape[1])
        known = old.tocoo()
        parts = (
            np.concatenate((known.data, fresh.data[new])),
            (
                np.concatenate((known.coords[0], fresh.coords[0][new])),
                np.concatenate((known.coords[1], fresh.coords[1][new])),
            ),
        )
        self.weights = sp.csr_array(sp.coo_array(parts, shape=(rows.size, columns.size)))
        self.query_feature_ids, self.document_feature_ids = rows, columns

    def idle(self) -> set[str]:
        """Return `trainable` if it is all."""
        return {"trainable"} if self.trainable == "all" else set()

    def refuse_partial(self, solver: str) -> None:
        """Refuse `trainable` other than all, for a solver that changes all of W."""
        if self.trainable != "all":
            raise CombinationError(
                f"solver {solver!r} changes all entries of W, and the model has "
                f"trainable={self.trainable}; use solver sgd."
            )

    def trainable_inputs(self, data: MatchingData) -> BilinearInputs:
        """Return what `inputs` does, without features that queries and documents share."""
        at_row, at_column = _shared(self.query_feature_ids, self.document_feature_ids)
        queries, documents = self.aligned(data)
        return BilinearInputs(_without(queries, at_row), _without(documents, at_column))

    def inputs(self, data: MatchingData) -> BilinearInputs:
        """Return the features of queries and documents, aligned with W."""
        return BilinearInputs(*self.aligned(data))

    def aligned(self, data: MatchingData) -> tuple[sp.csr_array, sp.csr_array]:
        """Return the features of queries as the rows of W are, and those of documents."""
        return (
            take_columns(data.query_rows, data.query_feature_ids, self.query_feature_ids),
            take_columns(data.document_rows, data.document_feature_ids, self.document_feature_ids),
        )

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        queries, documents = self.aligned(data)
        weights = self.weights

        def scores(positions: Ints) -> Floats:
            return kernel.bilinear.scores(queries[positions], weights, documents, threads)

        return scores

    def tensors(self) -> Tensors:
        """Return W in CSR, and the ids of its rows and columns."""
        weights = self.weights
        tensors: Tensors = {
            "indptr": weights.indptr.astype(np.int64),
            "indices": weights.indices.astype(np.int32),
            "weights": weights.data,
        }
        tensors |= pack_ids("query_feature_ids", self.query_feature_ids)
        if not np.array_equal(self.query_feature_ids, self.document_feature_ids):
            tensors |= pack_ids("document_feature_ids", self.document_feature_ids)
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore W and its ids."""
        for name, kind in (("indptr", "int64"), ("indices", "int32"), ("weights", self.dtype)):
            array = tensors.get(name)
            if array is None or array.ndim != 1 or array.dtype.name != kind:
                raise ModelFileError(f"a {self.name} model needs `{name}`, a vector of {kind}.")
        rows = unpack_ids("query_feature_ids", tensors)
        same = not any(name.startswith("document_feature_ids") for name in tensors)
        columns = rows if same else unpack_ids("document_feature_ids", tensors)
        self.weights = _check_csr(self.name, tensors, (rows.size, columns.size))
        self.query_feature_ids, self.document_feature_ids = rows, columns

    @property
    def n_weights(self) -> int:
        """The number of weights that may be non-zero: all entries of W."""
        return self.query_feature_ids.size * self.document_feature_ids.size

    @property
    def density(self) -> float:
        """The share of the weights that are not zero."""
        stored = self._weights.nnz if self._live is None else self._live.n_nonzero
        return float(stored / max(self.n_weights, 1))


@dataclasses.dataclass
class Diagonal(Bilinear):
    """Score by q' W d with a diagonal W: one weight per feature that both sides share."""

    name: ClassVar[str] = "diagonal"
    grows: ClassVar[bool] = False

    initial: str = choice("identity", "auto", "identity", "zero")

    def _setup(self) -> None:
        super()._setup()
        if self.initial == "zero":
            raise PartError(
                "diagonal has initial=zero, but entries that are zero at the start stay zero."
            )
        self._n_shared = 0

    def _initial(self, rows: Ids, columns: Ids) -> sp.csr_array:
        weights = super()._initial(rows, columns)
        if not weights.nnz:
            raise PartError(
                "diagonal has a weight for each feature that queries and documents share, and "
                "they share no feature id; use the same feature names, or model bilinear."
            )
        self._n_shared = weights.nnz
        return weights

    def restore(self, tensors: Tensors) -> None:
        """Restore W and its ids, if W is diagonal."""
        super().restore(tensors)
        column_of = np.full(self.query_feature_ids.size, -1)
        at_row, at_column = _shared(self.query_feature_ids, self.document_feature_ids)
        column_of[at_row] = at_column
        rows, columns = self.weights.tocoo().coords
        if not np.array_equal(column_of[rows], columns):
            raise ModelFileError("the matrix of a diagonal model is not diagonal; train it again.")
        self._n_shared = at_row.size

    def shared_features(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the positions of the features that both sides share, in queries and documents."""
        return _shared(self.query_feature_ids, self.document_feature_ids)

    @property
    def n_weights(self) -> int:
        """The number of features that queries and documents share."""
        return self._n_shared


def _shared(rows: Ids, columns: Ids) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions of ids that both have; a number and a text are never the same."""
    if rows.dtype.kind != columns.dtype.kind:
        return np.zeros(0, np.intp), np.zeros(0, np.intp)
    _, at_row, at_column = np.intersect1d(rows, columns, return_indices=True)
    return at_row, at_column


def _without(rows: sp.csr_array, columns: NDArray[np.intp]) -> sp.csr_array:
    """Return rows without the entries of some columns, which stay as empty columns."""
    remaining = np.ones(rows.shape[1], np.bool_)
    remaining[columns] = False
    entries = remaining[rows.indices]
    ends = np.concatenate(([0], np.cumsum(entries)))[rows.indptr].astype(rows.indptr.dtype)
    return sp.csr_array((rows.data[entries], rows.indices[entries], ends), shape=rows.shape)


def _check_csr(name: str, tensors: Tensors, shape: tuple[int, int]) -> sp.csr_array:
    indptr, indices = tensors["indptr"], tensors["indices"]
    weights: NDArray[Any] = tensors["weights"]
    fits = (
        min(shape) > 0
        and indptr.size == shape[0] + 1
        and indptr[0] == 0
        and indptr[-1] == indices.size == weights.size
        and not (indptr[1:] < indptr[:-1]).any()
        and (not indices.size or 0 <= indices.min() <= indices.max() < shape[1])
    )
    if not fits:
        raise ModelFileError(f"the matrix of a {name} model is damaged; train it again.")
    if not np.isfinite(weights).all():
        raise ModelFileError(f"the weights of a {name} model must be finite.")
    narrow = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
    matrix = sp.csr_array((np.array(weights), indices.astype(narrow.dtype), narrow), shape=shape)
    if not matrix.has_canonical_format:
        raise ModelFileError(f"the matrix of a {name} model is not sorted; train it again.")
    return matrix
