"""The users and items of the training data, and which items each user has, for `recommend`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ranking.contracts.model import Tensors
from ranking.data.exclusions import Ints, Pairs, pattern, places
from ranking.data.ids import merge_ids, pack_ids, unpack_ids
from ranking.data.matching_data import MatchingData
from ranking.data.validation import Ids, check_compressed
from ranking.errors import DataError, ModelFileError


class SeenItems(NamedTuple):
    """Users and items that a model knows by id, and the positives of the training data.

    Attributes
    ----------
    user_ids, item_ids : int64 or str arrays
    positives : csr_array of bool or None
        One row per user and one column per item; None in a model file without them.
    """

    user_ids: Ids
    item_ids: Ids
    positives: Any

    @classmethod
    def from_data(cls, data: MatchingData) -> SeenItems | None:
        """Return what `recommend` needs of training data; None if they have features or labels."""
        by_id = data.queries is None and data.documents is None
        if not by_id or data.relevance is None or data.own_document is not None:
            return None
        positives = sparse.csr_array(data.relevance > 0)
        positives.sort_indices()
        return cls(data.query_ids, data.document_ids, positives)

    def union(self, other: SeenItems) -> SeenItems:
        """Return the users, items and positives of both."""
        users = merge_ids(self.user_ids, other.user_ids)
        items = merge_ids(self.item_ids, other.item_ids)
        if self.positives is None or other.positives is None:
            return SeenItems(users, items, None)
        shape = (users.size, items.size)
        parts = [one.positives.tocoo() for one in (self, other)]
        rows = [places(users, one.user_ids) for one in (self, other)]
        columns = [places(items, one.item_ids) for one in (self, other)]
        row = np.concatenate([at[part.row] for at, part in zip(rows, parts, strict=True)])
        column = np.concatenate([at[part.col] for at, part in zip(columns, parts, strict=True)])
        pointers, documents = pattern(row, column, users.size)
        ones = np.ones(documents.size, np.bool_)
        return SeenItems(users, items, sparse.csr_array((ones, documents, pointers), shape=shape))

    def without_positives(self) -> SeenItems:
        """Return the ids only, such as for a model file that must not tell who has what."""
        return self._replace(positives=None)

    def data(self, users: Ints) -> MatchingData:
        """Return some users and all items as data without positives."""
        return MatchingData(
            None,
            None,
            sparse.csr_array((users.size, self.item_ids.size)),
            query_ids=self.user_ids[users],
            document_ids=self.item_ids,
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
        return tensors

    @classmethod
    def restore(cls, tensors: Tensors) -> SeenItems:
        """Restore what `tensors` returned, or raise `ModelFileError`."""
        users, items = unpack_ids("user_ids", tensors), unpack_ids("item_ids", tensors)
        indptr, indices = tensors.get("indptr"), tensors.get("indices")
        if indptr is None and indices is None:
            return cls(users, items, None)
        kinds = (getattr(indptr, "dtype", None), getattr(indices, "dtype", None))
        if indptr is None or indices is None or kinds != (np.int64, np.int32):
            raise ModelFileError("seen items need `indptr` of int64 and `indices` of int32.")
        try:
            ones = np.ones(indices.size, np.bool_)
            shape = (users.size, items.size)
            # SciPy's own check skips a matrix whose number of entries is negative.
            check_compressed(indptr, indices, ones, shape, "positives")
            positives = sparse.csr_array((ones, indices, indptr), shape=shape)
            positives.check_format(full_check=True)
        except ValueError as error:
            raise ModelFileError(f"the seen items in the file are damaged: {error}") from error
        return cls(users, items, positives)
