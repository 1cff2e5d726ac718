"""`JudgedLists`: documents judged for queries, validated once and read-only."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ranking.data.fingerprint import fingerprint
from ranking.data.validation import (
    as_feature_ids,
    as_features,
    as_grades,
    as_ids,
    first_repeat,
    read_only,
    read_only_matrix,
    refuse_infinite,
    take_columns,
)
from ranking.errors import DataError, DataWarning

Ints = NDArray[np.int64]
Ids = NDArray[np.int64] | NDArray[np.str_]
Lists = TypeVar("Lists", bound="JudgedLists")


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class JudgedLists:
    """Documents with features and grades, grouped by query.

    Rows may come in any order; they are stored query by query, the queries in the order of their
    first row and the rows of a query in their input order. Arrays are copied only if necessary.

    Parameters
    ----------
    features : array-like or scipy.sparse matrix of shape (rows, features)
        Finite. float32 and float64 are kept, other real types become float64; sparse ones become
        CSR with sorted indices.
    grades : array-like of shape (rows,)
        Finite; higher is more relevant. Metrics of binary relevance count 1 and above as relevant.
    qids : sequence of int or str of length rows
        The query of each row.
    doc_ids : sequence of int or str of length rows, optional
        Distinct within a query. By default the row's number within its query, from 0.
    feature_ids : array-like of int of shape (features,), optional
        Ids of the columns in files and models. By default from 1, as in LETOR.

    Attributes
    ----------
    features : ndarray or scipy.sparse.csr_array
        Read-only, C-contiguous.
    grades : float64 array
    query_ids : int64 or str array
        One per query.
    group_ptr : int64 array
        Query q has the rows ``group_ptr[q]:group_ptr[q + 1]``.
    feature_ids : int64 array
    row_order : int64 array
        The input row of each stored row: ``out[data.row_order] = scores`` returns scores to the
        caller's order. After `select` it still refers to the original input.

    Raises
    ------
    DataError
        If the data are inconsistent or not finite; the message names the row and the query.

    Examples
    --------
    >>> data = JudgedLists([[0.1], [0.7], [0.3]], grades=[0, 2, 1], qids=["b", "a", "b"])
    >>> data
    JudgedLists(3 rows, 2 queries, 1 features)
    >>> data.row_order
    array([0, 2, 1])
    """

    features: Any
    grades: NDArray[np.float64]
    query_ids: Ids
    group_ptr: Ints
    feature_ids: Ints
    row_order: Ints
    _explicit_doc_ids: NDArray[np.str_] | None

    def __init__(
        self,
        features: Any,
        grades: ArrayLike,
        qids: Sequence[int] | Sequence[str] | NDArray[Any],
        *,
        doc_ids: Sequence[int] | Sequence[str] | NDArray[Any] | None = None,
        feature_ids: ArrayLike | None = None,
    ) -> None:
        rows = as_features(features)
        columns = as_feature_ids(feature_ids, rows.shape[1])
        queries = as_ids("qids", qids, rows.shape[0])
        names = None if doc_ids is None else as_ids("doc_ids", doc_ids, rows.shape[0])
        refuse_infinite(rows, columns, queries)
        numbers = as_grades(grades, queries)
        query_ids, group_ptr, order = group_rows(queries)
        if order is None:
            order = np.arange(rows.shape[0])
        else:
            rows, numbers = rows[order], numbers[order]
            names = None if names is None else names[order]
        self._set_fields(
            features=rows,
            grades=numbers,
            query_ids=query_ids,
            group_ptr=group_ptr,
            feature_ids=columns,
            row_order=order,
            _explicit_doc_ids=None if names is None else names.astype(np.str_, copy=False),
        )
        self._check_unique_doc_ids()

    def _set_fields(self, **values: Any) -> Self:
        for name, value in values.items():
            object.__setattr__(self, name, None if value is None else read_only_matrix(value))
        return self

    def _check_unique_doc_ids(self) -> None:
        if self._explicit_doc_ids is None:
            return
        repeat = first_repeat(self.row_groups, self._explicit_doc_ids)
        if repeat is not None:
            one, other = self.row_order[list(repeat)]
            query = self.query_ids[self.row_groups[repeat[0]]]
            document = str(self._explicit_doc_ids[repeat[0]])
            raise DataError(
                f"doc_ids: rows {one} and {other} of query {query} are both document "
                f"{document!r}; give each document of a query its own id, or leave doc_ids out."
            )

    @property
    def n_rows(self) -> int:
        """The number of judged documents."""
        return int(self.features.shape[0])

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.group_ptr.size - 1

    @property
    def n_features(self) -> int:
        """The number of columns."""
        return int(self.features.shape[1])

    @property
    def has_doc_ids(self) -> bool:
        """Whether document ids were passed, rather than numbered."""
        return self._explicit_doc_ids is not None

    @functools.cached_property
    def row_groups(self) -> Ints:
        """The position of each row's query."""
        return read_only(np.repeat(np.arange(self.n_queries), np.diff(self.group_ptr)))

    @functools.cached_property
    def _numbers(self) -> Ints:
        """The row's number within its query."""
        return np.arange(self.n_rows) - self.group_ptr[self.row_groups]

    @functools.cached_property
    def doc_ids(self) -> NDArray[np.str_]:
        """The id of each document; by default its number within its query."""
        if self._explicit_doc_ids is not None:
            return self._explicit_doc_ids
        return read_only(_numbers_as_text(int(self._numbers.max()))[self._numbers])

    @functools.cached_property
    def doc_ranks(self) -> Ints:
        """The rank of each document's id among all ids, in byte order as strcmp compares."""
        # NumPy compares code points, and UTF-8 keeps their order.
        if self._explicit_doc_ids is not None:
            return read_only(
                np.unique(self._explicit_doc_ids, return_inverse=True)[1].astype(np.int64)
            )
        return read_only(
            np.argsort(np.argsort(_numbers_as_text(int(self._numbers.max()))))[self._numbers]
        )

    def aligned_features(self, feature_ids: ArrayLike) -> Any:
        """Return the features with the columns of a model, in its order.

        A feature that is missing in the data is zero, one that is unknown to the model is left
        out; a `DataWarning` counts both. The same array is returned if nothing has to change.
        """
        names = as_feature_ids(feature_ids, None)
        if np.array_equal(names, self.feature_ids):
            return self.features
        missing = names[~np.isin(names, self.feature_ids)]
        unknown = self.feature_ids[~np.isin(self.feature_ids, names)]
        messages = []
        if missing.size:
            messages.append(
                f"{missing.size} of the model's {names.size} features are not in the data and "
                f"count as zero (the first is {missing[0]})"
            )
        if unknown.size:
            messages.append(
                f"{unknown.size} of the data's {self.n_features} features are unknown to the "
                f"model and are left out (the first is {unknown[0]})"
            )
        if messages:
            warnings.warn("; ".join(messages) + ".", DataWarning, stacklevel=2)
        return read_only_matrix(take_columns(self.features, self.feature_ids, names))

    def select(self, queries: ArrayLike) -> JudgedLists:
        """Return the data of these queries, with all their documents.

        Parameters
        ----------
        queries : array-like of int
            Positions in `query_ids`, each at most once; the result has them in this order.
        """
        positions = np.asarray(queries)
        if positions.ndim != 1 or positions.size == 0 or positions.dtype.kind not in "iu":
            raise DataError(
                f"select takes positions of queries, at least one; got {str(queries)[:60]}."
            )
        outside = positions[(positions < 0) | (positions >= self.n_queries)]
        if outside.size:
            raise DataError(
                f"select: there is no query at position {outside[0]}; "
                f"positions run from 0 to {self.n_queries - 1}."
            )
        if np.unique(positions).size < positions.size:
            raise DataError("select: a position is given twice; give each query once.")
        starts, stops = self.group_ptr[positions], self.group_ptr[positions + 1]
        sizes = stops - starts
        group_ptr = np.concatenate(([0], np.cumsum(sizes)))
        rows: Any
        if (starts[1:] == stops[:-1]).all():
            rows = slice(starts[0], stops[-1])  # adjacent queries need no copy
        else:
            rows = np.repeat(starts - group_ptr[:-1], sizes) + np.arange(group_ptr[-1])
        names = self._explicit_doc_ids
        return object.__new__(type(self))._set_fields(
            features=self.features[rows],
            grades=self.grades[rows],
            query_ids=self.query_ids[positions],
            group_ptr=group_ptr,
            feature_ids=self.feature_ids,
            row_order=self.row_order[rows],
            _explicit_doc_ids=None if names is None else names[rows],
        )

    def with_grades(self, grades: ArrayLike) -> JudgedLists:
        """Return the same rows with other grades, one for each stored row, without a copy."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["grades"] = as_grades(grades, self.query_ids[self.row_groups])
        return object.__new__(type(self))._set_fields(**fields)

    def with_features(self, features: Any, feature_ids: ArrayLike, kind: type[Lists]) -> Lists:
        """Return the same rows with other features, as judged lists of a kind."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["features"] = as_features(features)
        fields["feature_ids"] = as_feature_ids(feature_ids, features.shape[1])
        refuse_infinite(fields["features"], fields["feature_ids"], self.query_ids[self.row_groups])
        return object.__new__(kind)._set_fields(**fields)

    @classmethod
    def concatenate(cls, parts: Sequence[JudgedLists]) -> JudgedLists:
        """Return all rows of several data sets; features missing in one of them are zero there.

        The result is sparse if any part is. `row_order` numbers the rows of all inputs in order.
        """
        query_ids = np.concatenate([part.query_ids for part in parts])
        repeat = first_repeat(np.zeros(query_ids.size, np.int64), query_ids)
        if repeat is not None:
            raise DataError(
                f"query {query_ids[repeat[0]]} is in two of the data sets; "
                "join its rows before, or rename one."
            )
        feature_ids = np.unique(np.concatenate([part.feature_ids for part in parts]))
        features = [take_columns(p.features, p.feature_ids, feature_ids) for p in parts]
        is_sparse = any(sparse.issparse(block) for block in features)
        sizes = np.concatenate([np.diff(part.group_ptr) for part in parts])
        offsets = np.cumsum([0] + [part.n_rows for part in parts])
        has_ids = any(part._explicit_doc_ids is not None for part in parts)
        return object.__new__(cls)._set_fields(
            features=sparse.vstack(features, format="csr") if is_sparse else np.vstack(features),
            grades=np.concatenate([part.grades for part in parts]),
            query_ids=query_ids,
            group_ptr=np.concatenate(([0], np.cumsum(sizes))),
            feature_ids=feature_ids,
            row_order=np.concatenate(
                [part.row_order + offset for part, offset in zip(parts, offsets, strict=False)]
            ),
            _explicit_doc_ids=np.concatenate([part.doc_ids for part in parts]) if has_ids else None,
        )

    def fingerprint(self) -> str:
        """Return a hash of everything that training depends on, to recognise the same data."""
        return fingerprint((self.features, self.grades, self.group_ptr, self.feature_ids))

    def __repr__(self) -> str:
        return (
            f"JudgedLists({self.n_rows} rows, {self.n_queries} queries, {self.n_features} features)"
        )


def query_weights(data: JudgedLists, sample_weight: ArrayLike) -> NDArray[np.float64]:
    """Return the mean weight of the rows of each query.

    Parameters
    ----------
    data : JudgedLists
    sample_weight : array-like
        One per row, in the caller's order.
    """
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (data.n_rows,):
        raise DataError(
            f"sample_weight must have one weight per row, {data.n_rows}; its shape is "
            f"{weights.shape}."
        )
    if not np.isfinite(weights).all() or weights.min() < 0.0:
        raise DataError("sample_weight must be finite and not negative.")
    sums = np.add.reduceat(weights[data.row_order], data.group_ptr[:-1])
    means: NDArray[np.float64] = sums / np.diff(data.group_ptr)
    if not means.any():
        raise DataError("every sample_weight is zero, so no query counts; give some a weight.")
    return means


COPIES = 16
"""The most copies of a query whose weight is no multiple of the smallest."""

ROUNDING = 1e-6


def repeat_queries(data: JudgedLists, weights: NDArray[np.float64]) -> JudgedLists:
    """Return data in which each query is as often as its weight says.

    A mean over queries or over pairs is then the weighted mean, in every loss. Weights that are
    multiples of the smallest are exact; others are rounded to a sixteenth of the largest. Queries
    of weight 0 are left out.
    """
    multiples = weights / weights[weights > 0].min()
    whole = np.abs(multiples - np.rint(multiples)).max() <= ROUNDING * multiples.max()
    if whole and multiples.max() <= COPIES**2:
        copies = np.rint(multiples).astype(np.int64)
    else:
        copies = np.rint(COPIES * weights / weights.max()).astype(np.int64)
        copies[(weights > 0) & (copies == 0)] = 1
    if copies.min() == copies.max():
        return data
    queries = np.repeat(np.arange(data.n_queries), copies)
    starts, sizes = data.group_ptr[queries], np.diff(data.group_ptr)[queries]
    ends = np.cumsum(sizes)
    rows = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes) + np.repeat(starts, sizes)
    return JudgedLists(
        data.features[rows],
        data.grades[rows],
        np.repeat(np.arange(queries.size), sizes),
        doc_ids=data.doc_ids[rows] if data.has_doc_ids else None,
        feature_ids=data.feature_ids,
    )


def group_rows(qids: Ids) -> tuple[Ids, Ints, Ints | None]:
    """Group rows by query, in order of first appearance.

    Returns
    -------
    query_ids, group_ptr
        As in `JudgedLists`.
    order : int64 array or None
        The row of each position; None if the rows of each query are adjacent already.
    """
    starts = np.concatenate(([0], np.flatnonzero(qids[1:] != qids[:-1]) + 1))
    heads = qids[starts]
    _, first, inverse = np.unique(heads, return_index=True, return_inverse=True)
    if first.size == heads.size:
        return heads, np.append(starts, qids.size), None
    rank = np.argsort(np.argsort(first))
    row_rank = np.repeat(rank[inverse], np.diff(starts, append=qids.size))
    group_ptr = np.concatenate(([0], np.cumsum(np.bincount(row_rank))))
    return heads[np.sort(first)], group_ptr, np.argsort(row_rank, kind="stable")


def _numbers_as_text(largest: int) -> NDArray[np.str_]:
    return np.arange(largest + 1).astype(f"<U{len(str(largest))}")
