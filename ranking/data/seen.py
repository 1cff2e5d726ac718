"""The users and items of the training data, and which items each user has, for `recommend`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ranking.contracts.model import Tensors
from ranking.data.exclusions import Ints, Pairs, pattern, places
from ranking.data.ids import merge_ids, pack_ids, unpack_ids
from ranking.data.matching_data import MatchingData
from ranking.data.validation import Ids, check_compressed, take_columns
from ranking.errors import DataError, ModelFileError


class Features(NamedTuple):
    """Features of all users or of all items: one row each, and the ids of the columns."""

    rows: Any
    ids: Ids

    def union(self, other: Features, position: Ints) -> Features:
        """Return rows of both, in each the columns of both.

        Parameters
        ----------
        other : Features
        position : int64 array
            The rows that are wanted; those of `other` are counted after the own ones.
        """
        ids = merge_ids(self.ids, other.ids)
        parts = [sparse.csr_array(take_columns(one.rows, one.ids, ids)) for one in (self, other)]
        return Features(sparse.vstack(parts, format="csr")[position], ids)

    def tensors(self, name: str) -> Tensors:
        """Return named arrays for a model file."""
        tensors = pack_ids(f"{name}_ids", self.ids)
        if not sparse.issparse(self.rows):
            return {**tensors, name: self.rows}
        tensors[f"{name}.indptr"] = self.rows.indptr.astype(np.int64)
        tensors[f"{name}.indices"] = self.rows.indices.astype(np.int32)
        return {**tensors, f"{name}.data": self.rows.data}

    @classmethod
    def restore(cls, name: str, tensors: Tensors, n_rows: int) -> Features | None:
        """Restore what `tensors` returned; None if there is nothing."""
        dense, values = tensors.get(name), tensors.get(f"{name}.data")
        if not any(one.startswith((name + ".", name + "_ids")) for one in tensors):
            return None
        ids = unpack_ids(f"{name}_ids", tensors)
        if dense is not None:
            if dense.dtype.kind != "f" or dense.shape != (n_rows, ids.size):
                raise ModelFileError(f"`{name}` must be numbers of shape ({n_rows}, {ids.size}).")
            return cls(dense, ids)
        parts = [tensors.get(f"{name}.{one}") for one in ("data", "indices", "indptr")]
        kinds = ["" if one is None or one.ndim != 1 else one.dtype.str[1:] for one in parts]
        if kinds not in (["f4", "i4", "i8"], ["f8", "i4", "i8"]):
            raise ModelFileError(f"`{name}` needs `data`, `indices` of int32, `indptr` of int64.")
        check_compressed(parts[2], parts[1], values, (n_rows, ids.size), name)
        rows = sparse.csr_array(tuple(parts), shape=(n_rows, ids.size))
        rows.check_format(full_check=True)
        return cls(rows, ids)


class SeenItems(NamedTuple):
    """Users and items of the training data, their features, and the positives.

    Attributes
    ----------
    user_ids, item_ids : int64 or str arrays
    positives : csr_array of bool or None
        One row per user and one column per item; None in a model file without them.
    users, items : Features or None
        None if they are known by id only.
    """

    user_ids: Ids
    item_ids: Ids
    positives: Any
    users: Features | None = None
    items: Features | None = None

    @property
    def by_id(self) -> bool:
        """Whether both users and items are known by id only."""
        return self.users is None and self.items is None

    @classmethod
    def from_data(cls, data: MatchingData) -> SeenItems | None:
        """Return what `recommend` needs of training data; None if they have labels."""
        if data.relevance is None or data.own_document is not None:
            return None
        positives = sparse.csr_array(data.relevance > 0)
        positives.sort_indices()
        users = None if data.queries is None else Features(data.queries, data.query_feature_ids)
        items = (
            None if data.documents is None else Features(data.documents, data.document_feature_ids)
        )
        return cls(data.query_ids, data.document_ids, positives, users, items)

    def union(self, other: SeenItems) -> SeenItems:
        """Return the users, items and positives of both, and the later features of each."""
        users = merge_ids(self.user_ids, other.user_ids)
        items = merge_ids(self.item_ids, other.item_ids)
        features = (
            _union(self.users, other.users, (users, self.user_ids, other.user_ids)),
            _union(self.items, other.items, (items, self.item_ids, other.item_ids)),
        )
        if self.positives is None or other.positives is None:
            return SeenItems(users, items, None, *features)
        shape = (users.size, items.size)
        parts = [one.positives.tocoo() for one in (self, other)]
        rows = [places(users, one.user_ids) for one in (self, other)]
        columns = [places(items, one.item_ids) for one in (self, other)]
        row = np.concatenate([at[part.row] for at, part in zip(rows, parts, strict=True)])
        column = np.concatenate([at[part.col] for at, part in zip(columns, parts, strict=True)])
        pointers, documents = pattern(row, column, users.size)
        ones = np.ones(documents.size, np.bool_)
        positives = sparse.csr_array((ones, documents, pointers), shape=shape)
        return SeenItems(users, items, positives, *features)

    def without_positives(self) -> SeenItems | None:
        """Return the ids only, such as for a model file that must not tell who has what.

        Features of users may tell who they are, so that there is nothing to return with them.
        """
        return None if self.users is not None else self._replace(positives=None)

    def data(self, users: Ints) -> MatchingData:
        """Return some users and all items as data without positives."""
        return MatchingData(
            None if self.users is None else self.users.rows[users],
            None if self.items is None else self.items.rows,
            sparse.csr_array((users.size, self.item_ids.size)),
            query_ids=self.user_ids[users],
            document_ids=self.item_ids,
            query_feature_ids=None if self.users is None else self.users.ids,
            document_feature_ids=None if self.items is None else self.items.ids,
        )

    def exclusions(self, users: Ints) -> Pairs:
        """Return the positives of some users, to be left out of their lists."""
        if self.positives is None:
            raise DataError(
                "this model was saved without the items that users have; pass exclude_seen=False, "
                "or call rank with exclude=."
            )
        rows = self.positives[users]
        return rows.indptr.astype(np.int64), rows.indices.astype(np.int64)

    def tensors(self) -> Tensors:
        """Return named arrays for a model file."""
        tensors = {**pack_ids("user_ids", self.user_ids), **pack_ids("item_ids", self.item_ids)}
        if self.positives is not None:
            tensors["indptr"] = self.positives.indptr.astype(np.int64)
            tensors["indices"] = self.positives.indices.astype(np.int32)
        for name, features in (("users", self.users), ("items", self.items)):
            tensors |= {} if features is None else features.tensors(name)
        return tensors

    @classmethod
    def restore(cls, tensors: Tensors) -> SeenItems:
        """Restore what `tensors` returned, or raise `ModelFileError`."""
        users, items = unpack_ids("user_ids", tensors), unpack_ids("item_ids", tensors)
        try:
            seen = cls(
                users,
                items,
                _restore_positives(tensors, (users.size, items.size)),
                Features.restore("users", tensors, users.size),
                Features.restore("items", tensors, items.size),
            )
            if not seen.by_id:
                seen.data(np.arange(users.size))  # checks the values
        except ModelFileError:
            raise
        except ValueError as error:
            raise ModelFileError(f"the seen items in the file are damaged: {error}") from error
        return seen


def _restore_positives(tensors: Tensors, shape: tuple[int, int]) -> Any:
    indptr, indices = tensors.get("indptr"), tensors.get("indices")
    if indptr is None and indices is None:
        return None
    kinds = (getattr(indptr, "dtype", None), getattr(indices, "dtype", None))
    if indptr is None or indices is None or kinds != (np.int64, np.int32):
        raise ModelFileError("seen items need `indptr` of int64 and `indices` of int32.")
    ones = np.ones(indices.size, np.bool_)
    # SciPy's own check skips a matrix whose number of entries is negative.
    check_compressed(indptr, indices, ones, shape, "positives")
    positives = sparse.csr_array((ones, indices, indptr), shape=shape)
    positives.check_format(full_check=True)
    return positives


def _union(
    one: Features | None, other: Features | None, ids: tuple[Ids, Ids, Ids]
) -> Features | None:
    """Return the features of merged ids, the later ones where both have some."""
    merged, first, second = ids
    if one is None or other is None:  # a side has features in all data of a model, or in none
        return None
    if other.rows is one.rows and merged.size == second.size:
        return one
    known = np.isin(merged, second)
    position = np.empty(merged.size, np.int64)
    position[~known] = places(first, merged[~known])
    position[known] = first.size + places(second, merged[known])
    return one.union(other, position)
