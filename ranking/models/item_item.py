"""Item-item models: the items of a user's history speak for other items."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from ranking.contracts.model import MatchingModel, Tensors
from ranking.contracts.parameters import integer, number
from ranking.data.ids import empty_ids, pack_ids, unpack_ids
from ranking.data.validation import Ids, check_compressed, take_columns
from ranking.errors import DataError, ModelFileError
from ranking.kernels.contract import WIDE, Floats, Ints, Singles

if TYPE_CHECKING:
    from ranking.data.matching_data import MatchingData
    from ranking.kernels.kernel import Kernel


class ItemWeight(NamedTuple):
    """An item of a history, its value there, and its weight for the item that is explained."""

    item: Any
    value: float
    weight: float


@dataclasses.dataclass
class ItemItem(MatchingModel):
    """Score a user and an item by h' (W + low_pass L R'), with the user's history h.

    The history of a user of the training data is stored with the model; that of a new user is
    folded in without training. W has a row for each item of a history and a column for each item
    that is scored; it is sparse. L and R have `dimensions` columns; without any, W is all there is.

    Parameters
    ----------
    dimensions : int
        The number of columns of L and R: the directions of a low-pass filter.
    low_pass : float
        The weight of the low-pass filter.

    Attributes
    ----------
    histories : csr_array of float32
        One row per user, one column per item.
    weights : csr_array of float32
        W, one row and one column per item.
    left, right : float32 arrays
        L and R, padded with zeros to a multiple of 8.
    query_feature_ids, document_feature_ids : int64 or str arrays
        The users and the items.
    """

    name: ClassVar[str] = "item-item"
    form: ClassVar[Any] = "items"

    dimensions: int = integer(0, minimum=0, maximum=4096)
    low_pass: float = number(0.3, minimum=0.0)

    query_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )
    document_feature_ids: Ids = dataclasses.field(
        init=False, repr=False, compare=False, default_factory=empty_ids
    )

    def _setup(self) -> None:
        self.histories = sp.csr_array((0, 0), dtype=np.float32)
        self.weights = sp.csr_array((0, 0), dtype=np.float32)
        self.left: Singles = np.zeros((0, self.width), np.float32)
        self.right: Singles = np.zeros((0, self.width), np.float32)

    @property
    def by_id(self) -> bool:
        """Whether queries and documents are known by id only, so that features have no effect."""
        return True

    def idle(self) -> set[str]:
        """Return `low_pass`, if there are no directions."""
        return set() if self.dimensions else {"low_pass"}

    @property
    def width(self) -> int:
        """The columns of L and R with their padding."""
        return -(-self.dimensions // WIDE) * WIDE

    def initialize(self, data: MatchingData, seed: int, kernel: Kernel) -> None:
        """Store the histories, and set all weights to 0."""
        self.histories = user_histories(data)
        self.query_feature_ids = data.query_ids.copy()
        self.document_feature_ids = data.document_ids.copy()
        n = self.document_feature_ids.size
        self.weights = sp.csr_array((n, n), dtype=np.float32)
        self.left = np.zeros((n, self.width), np.float32)
        self.right = np.zeros((n, self.width), np.float32)

    def adjusted(self, **values: Any) -> ItemItem | None:
        """Return the model with another low-pass filter: another weight, or fewer directions.

        The directions are those with the largest singular values, the largest first, so that a
        smaller number of them needs no training.
        """
        dimensions = int(values.get("dimensions", self.dimensions))
        if not values.keys() <= {"dimensions", "low_pass"} or dimensions > self.dimensions:
            return None
        other = dataclasses.replace(self, **{**values, "dimensions": dimensions})
        other.weights, other.histories = self.weights, self.histories
        other.query_feature_ids = self.query_feature_ids
        other.document_feature_ids = self.document_feature_ids
        other.left, other.right = (
            _first_columns(side, dimensions, other.width) for side in (self.left, self.right)
        )
        return other

    def with_histories(self, histories: Any, ids: Ids) -> ItemItem:
        """Return a model of the same weights for other users.

        Parameters
        ----------
        histories : csr_array
            One row per user, one column per item of the model.
        ids : array
            The users.
        """
        other = dataclasses.replace(self)
        other.weights, other.left, other.right = self.weights, self.left, self.right
        other.document_feature_ids, other.query_feature_ids = self.document_feature_ids, ids
        other.histories = sp.csr_array(histories, dtype=np.float32)
        return other

    def fold_in(self, lists: Sequence[Sequence[Any]], ids: Ids) -> ItemItem:
        """Return a model for new users, from the ids of the items that they have."""
        position = {name: at for at, name in enumerate(self.document_feature_ids.tolist())}
        unknown = [name for names in lists for name in names if name not in position]
        if unknown:
            raise DataError(
                f"the model does not know item {unknown[0]!r}; train with it, or leave it out."
            )
        counts = [len(set(names)) for names in lists]
        columns = [position[name] for names in lists for name in sorted({*names})]
        parts = (
            np.ones(len(columns), np.float32),
            columns,
            np.concatenate(([0], np.cumsum(counts))),
        )
        shape = (len(lists), self.document_feature_ids.size)
        histories = sp.csr_array(parts, shape=shape)
        histories.sort_indices()
        return self.with_histories(histories, ids)

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], Floats]:
        """Return a function from positions of queries to their scores, one row per query."""
        users = take_columns(data.query_rows, data.query_feature_ids, self.query_feature_ids)
        same = data.documents is None and np.array_equal(
            data.document_feature_ids, self.document_feature_ids
        )
        items = take_columns(
            data.document_rows, data.document_feature_ids, self.document_feature_ids
        )
        # Products of sparse matrices add in stored order, whatever the kernel.
        weights = self.weights if same else sparse_product(self.weights, items.T)
        right = self.right
        if self.dimensions and not same:
            right = np.asarray(items @ self.right, np.float32)
        none: Singles = np.zeros(0, np.float32)

        def scores(positions: Ints) -> Floats:
            histories = sparse_product(users[positions], self.histories)
            result: Floats = (histories @ weights).toarray().astype(np.float64)
            if self.dimensions:
                embeddings = kernel.factored.embeddings(histories, self.left, threads)
                filtered = kernel.factored.scores(embeddings, right, none, threads)
                filtered *= np.float32(self.low_pass)
                result += filtered
            return result

        return scores

    def explain(self, user: Any, item: Any) -> list[ItemWeight]:
        """Return what each item of the history of a user says for an item, the largest first."""
        row = _position("user", self.query_feature_ids, user)
        column = _position("item", self.document_feature_ids, item)
        part = slice(*self.histories.indptr[row : row + 2])
        items, values = self.histories.indices[part], self.histories.data[part]
        weights = self.weights[items][:, [column]].toarray().ravel().astype(np.float64)
        if self.dimensions:
            left = self.left[items].astype(np.float64)
            weights += self.low_pass * (left @ self.right[column].astype(np.float64))
        order = np.argsort(-np.abs(values * weights), kind="stable")
        names = self.document_feature_ids[items].tolist()
        return [ItemWeight(names[at], float(values[at]), float(weights[at])) for at in order]

    def related(self, item: Any, k: int = 5) -> list[ItemWeight]:
        """Return the k items with the largest absolute weights for an item of a history."""
        row = _position("item", self.document_feature_ids, item)
        weights = self.weights[[row]].toarray().ravel().astype(np.float64)
        if self.dimensions:
            weights += self.low_pass * (self.right @ self.left[row]).astype(np.float64)
        weights[row] = 0.0
        order = np.argsort(-np.abs(weights), kind="stable")[:k]
        names = self.document_feature_ids[order].tolist()
        return [
            ItemWeight(name, 1.0, float(weights[at])) for name, at in zip(names, order, strict=True)
        ]

    def tensors(self) -> Tensors:
        """Return histories and W in CSR, L and R without padding, and the ids."""
        tensors: Tensors = {
            **pack_ids("query_feature_ids", self.query_feature_ids),
            **pack_ids("document_feature_ids", self.document_feature_ids),
            "left": np.ascontiguousarray(self.left[:, : self.dimensions]),
            "right": np.ascontiguousarray(self.right[:, : self.dimensions]),
        }
        for name, matrix in (("histories", self.histories), ("weights", self.weights)):
            tensors[f"{name}.indptr"] = matrix.indptr.astype(np.int64)
            tensors[f"{name}.indices"] = matrix.indices.astype(np.int32)
            tensors[f"{name}.values"] = matrix.data
        return tensors

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        users = unpack_ids("query_feature_ids", tensors)
        items = unpack_ids("document_feature_ids", tensors)
        left = self._factor("left", tensors, items.size)
        right = self._factor("right", tensors, items.size)
        self.histories = _matrix("histories", tensors, (users.size, items.size))
        self.weights = _matrix("weights", tensors, (items.size, items.size))
        self.left, self.right = left, right
        self.query_feature_ids, self.document_feature_ids = users, items

    def _factor(self, name: str, tensors: Tensors, rows: int) -> Singles:
        array, shape = tensors.get(name), (rows, self.dimensions)
        if array is None or array.dtype != np.float32 or array.shape != shape:
            raise ModelFileError(f"a {self.name} model needs `{name}`, float32 of shape {shape}.")
        if not np.isfinite(array).all():
            raise ModelFileError(f"`{name}` of a {self.name} model must be finite.")
        padded = np.zeros((rows, self.width), np.float32)
        padded[:, : self.dimensions] = array
        return padded

    @property
    def density(self) -> float:
        """The share of W that is not zero."""
        return float(self.weights.nnz / max(self.document_feature_ids.size**2, 1))


def _first_columns(matrix: Singles, count: int, width: int) -> Singles:
    """Return the first columns, padded with zeros to the width."""
    narrow = np.zeros((matrix.shape[0], width), np.float32)
    narrow[:, :count] = matrix[:, :count]
    return narrow


def sparse_product(left: Any, right: Any) -> Any:
    """Return a product of sparse matrices as float32 with sorted indices."""
    product = sp.csr_array(left @ right, dtype=np.float32)
    product.sort_indices()
    return product


def user_histories(data: MatchingData) -> Any:
    """Return the positives of each user; refuse data with features or labels.

    Returns
    -------
    csr_array of float32
    """
    for side, features in (("users", data.queries), ("items", data.documents)):
        if features is not None:
            raise DataError(
                f"an item-item model does not use features of {side}, and these have "
                f"{features.shape[1]}; leave them out, or train model factored."
            )
    if data.relevance is None:
        raise DataError(
            "an item-item model needs the items that each user has, and these data are labelled "
            "by class; pass relevance."
        )
    histories = sp.csr_array(data.relevance, dtype=np.float32, copy=True)
    histories.data = np.maximum(histories.data, np.float32(0.0))
    histories.eliminate_zeros()
    histories.sort_indices()
    if not histories.nnz:
        raise DataError("no user has an item with positive relevance: nothing to learn from.")
    return histories


def _position(what: str, ids: Ids, item_id: Any) -> int:
    """Return the position of an id; a number may be given as text."""
    positions = np.flatnonzero(ids.astype(np.str_) == str(item_id))
    if not positions.size:
        raise DataError(
            f"the model does not know {what} {item_id!r}, only others such as {ids[0]!r}."
        )
    return int(positions[0])


def _matrix(name: str, tensors: Tensors, shape: tuple[int, int]) -> Any:
    kinds = {"indptr": "int64", "indices": "int32", "values": "float32"}
    parts = [tensors.get(f"{name}.{part}") for part in kinds]
    for part, array, kind in zip(kinds, parts, kinds.values(), strict=True):
        if array is None or array.ndim != 1 or array.dtype.name != kind:
            raise ModelFileError(f"an item-item model needs `{name}.{part}`, a vector of {kind}.")
    indptr, indices, values = parts
    assert indptr is not None
    assert indices is not None
    assert values is not None
    try:
        # SciPy's own check skips a matrix whose number of entries is negative.
        check_compressed(indptr, indices, values, shape, name)
        matrix = sp.csr_array((values, indices, indptr), shape=shape)
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ModelFileError(f"`{name}` of the item-item model is damaged: {error}") from error
    if not np.isfinite(values).all():
        raise ModelFileError(f"`{name}` of the item-item model must be finite.")
    return matrix
