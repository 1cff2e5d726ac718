"""`RelevanceData`: which documents are relevant to which queries.

It is the base of `MatchingData` and `TextCollection`.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ranking.data.validation import (
    Ids,
    Ints,
    as_csr,
    as_ids,
    first_repeat,
    read_only,
    read_only_matrix,
)
from ranking.errors import DataError


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class RelevanceData:
    """Which documents are relevant to which queries, by a sparse matrix or by classes.

    Attributes
    ----------
    query_ids, document_ids : int64 or str arrays
        By default positions, from 0.
    relevance : scipy.sparse.csr_array or None
        Grades or clicks, one row per query. A stored entry is a judgement, also when it is 0; a
        document is relevant if its entry is above 0.
    times : float64 array or None
        The time of each stored entry of `relevance`.
    labels : (int64 array, int64 array) or None
        The classes of queries and documents, as positions in `classes`: the documents of its own
        class are relevant to a query. The equivalent matrix is never built.
    classes : int64 or str array or None
    own_document : int64 array or None
        Where queries are documents too, the position of each query among the documents, which is
        never relevant to it.

    Recommenders may say `user_ids`, `item_ids`, `n_users` and `n_items`.
    """

    query_ids: Ids
    document_ids: Ids
    relevance: Any
    times: NDArray[np.float64] | None
    labels: tuple[Ints, Ints] | None
    classes: Ids | None
    own_document: Ints | None

    def _set_fields(self, **values: Any) -> Self:
        for name, value in values.items():
            if isinstance(value, np.ndarray) or sparse.issparse(value):
                value = read_only_matrix(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
                value = tuple(read_only(array) for array in value)
            object.__setattr__(self, name, value)
        return self

    def _replace(self, **values: Any) -> Self:
        """Return a copy with some fields replaced, which are not checked."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return object.__new__(type(self))._set_fields(**{**fields, **values})

    def _set_relevance(
        self,
        sizes: tuple[int, int],
        relevance: Any,
        labels: tuple[Any, Any] | None,
        query_ids: Any,
        document_ids: Any,
        times: Any,
        queries_are_documents: bool,
    ) -> None:
        n_queries, n_documents = sizes
        if (relevance is None) == (labels is None):
            raise DataError(
                "pass either relevance (a matrix) or labels (the classes of both sides)."
            )
        matrix = None if relevance is None else as_relevance(relevance, sizes)
        codes, classes = (None, None) if labels is None else as_labels(labels, sizes)
        if times is not None and labels is not None:
            raise DataError(
                "times need a relevance matrix, one time per entry; labels have no entries."
            )
        if queries_are_documents and n_queries != n_documents:
            raise DataError(
                f"there are {n_queries} queries and {n_documents} documents; "
                "queries_are_documents=True needs equal numbers of both."
            )
        self._set_fields(
            query_ids=as_unique_ids("query_ids", query_ids, n_queries, "queries"),
            document_ids=as_unique_ids("document_ids", document_ids, n_documents, "documents"),
            relevance=matrix,
            times=None if times is None else as_times(times, relevance, matrix),
            labels=codes,
            classes=classes,
            own_document=np.arange(n_queries) if queries_are_documents else None,
        )

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.query_ids.size

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return self.document_ids.size

    @property
    def user_ids(self) -> Ids:
        """The ids of the users: `query_ids`."""
        return self.query_ids

    @property
    def item_ids(self) -> Ids:
        """The ids of the items: `document_ids`."""
        return self.document_ids

    @property
    def n_users(self) -> int:
        """The number of users: `n_queries`."""
        return self.n_queries

    @property
    def n_items(self) -> int:
        """The number of items: `n_documents`."""
        return self.n_documents

    @functools.cached_property
    def n_relevant(self) -> Ints:
        """The number of relevant documents of each query."""
        if self.labels is not None:
            counts = np.diff(self._members[1])[self.labels[0]]
            if self.own_document is not None:
                counts = counts - (self.labels[1][self.own_document] == self.labels[0])
            return read_only(counts)
        above = np.concatenate(([0], np.cumsum(self.relevance.data > 0)))
        counts = np.diff(above[self.relevance.indptr])
        if self.own_document is not None:
            own = [self._graded(q, self.own_document[[q]])[0] for q in range(self.n_queries)]
            counts = counts - np.array(own)
        return read_only(counts)

    @functools.cached_property
    def _members(self) -> tuple[Ints, Ints]:
        """The documents ordered by class, and the offset of each class."""
        assert self.labels is not None
        assert self.classes is not None
        documents = np.argsort(self.labels[1], kind="stable")
        counts = np.bincount(self.labels[1], minlength=self.classes.size)
        return documents, np.concatenate(([0], np.cumsum(counts)))

    def relevant(self, query: int) -> Ints:
        """Return the positions of the documents relevant to a query, in order."""
        self._check_query(query)
        if self.labels is not None:
            documents, starts = self._members
            label = self.labels[0][query]
            positions = documents[starts[label] : starts[label + 1]]
        else:
            entries = slice(*self.relevance.indptr[query : query + 2])
            positions = self.relevance.indices[entries][self.relevance.data[entries] > 0]
        if self.own_document is not None:
            positions = positions[positions != self.own_document[query]]
        return positions.astype(np.int64)

    def is_relevant(self, query: int, documents: ArrayLike) -> NDArray[np.bool_]:
        """Return for each document position whether the document is relevant to a query."""
        self._check_query(query)
        positions = as_positions("documents", documents, self.n_documents)
        if self.labels is not None:
            relevant: NDArray[np.bool_] = self.labels[1][positions] == self.labels[0][query]
        else:
            relevant = self._graded(query, positions)
        if self.own_document is not None:
            relevant &= positions != self.own_document[query]
        return relevant

    def _graded(self, query: int, positions: Ints) -> NDArray[np.bool_]:
        entries = slice(*self.relevance.indptr[query : query + 2])
        indices, grades = self.relevance.indices[entries], self.relevance.data[entries]
        if not indices.size:
            return np.zeros(positions.shape, np.bool_)
        at = np.searchsorted(indices, positions).clip(max=indices.size - 1)
        relevant: NDArray[np.bool_] = (indices[at] == positions) & (grades[at] > 0)
        return relevant

    def _check_query(self, query: int) -> None:
        if not 0 <= query < self.n_queries:
            raise DataError(
                f"there is no query at position {query}; positions run from 0 to "
                f"{self.n_queries - 1}."
            )

    def select(self, queries: ArrayLike) -> Self:
        """Return the data of these queries only, with all documents.

        Parameters
        ----------
        queries : array-like of int
            Positions in `query_ids`, each at most once; the result has them in this order.
        """
        positions = as_positions("queries", queries, self.n_queries)
        if positions.size == 0 or np.unique(positions).size < positions.size:
            raise DataError("select takes positions of queries: at least one, each at most once.")
        relevance, times, labels = self.relevance, self.times, self.labels
        if relevance is not None:
            if times is not None:
                numbered = sparse.csr_array(
                    (np.arange(relevance.nnz), relevance.indices, relevance.indptr),
                    shape=relevance.shape,
                )
                times = times[numbered[positions].data]
            relevance = relevance[positions]
        if labels is not None:
            labels = (labels[0][positions], labels[1])
        return self._replace(
            query_ids=self.query_ids[positions],
            relevance=relevance,
            times=times,
            labels=labels,
            own_document=None if self.own_document is None else self.own_document[positions],
            **self._select_features(positions),
        )

    def _select_features(self, positions: Ints) -> dict[str, Any]:
        """Return the fields that describe these queries."""
        raise NotImplementedError

    def keep_entries(self, mask: NDArray[np.bool_]) -> Self:
        """Return the same queries and documents with the entries of `relevance` in the mask."""
        if self.relevance is None:
            raise DataError("data labelled by class have no entries to select.")
        counts = np.concatenate(([0], np.cumsum(mask)))
        parts = (
            self.relevance.data[mask],
            self.relevance.indices[mask],
            counts[self.relevance.indptr].astype(self.relevance.indptr.dtype),
        )
        return self._replace(
            relevance=sparse.csr_array(parts, shape=self.relevance.shape),
            times=None if self.times is None else self.times[mask],
        )


def as_relevance(relevance: Any, sizes: tuple[int, int]) -> Any:
    """Return relevance as a checked CSR array, one row per query and one column per document."""
    matrix = relevance
    if not sparse.issparse(relevance):
        matrix = np.asarray(relevance)
        if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
            raise DataError(
                "relevance must be a matrix of numbers, queries by documents; it has "
                f"{matrix.ndim} dimensions and type {matrix.dtype}."
            )
    if matrix.shape != sizes:
        remedy = "pass one row per query and one column per document"
        if matrix.shape == sizes[::-1]:
            remedy = "transpose it"
        raise DataError(
            f"relevance has shape {tuple(map(int, matrix.shape))}, but there are {sizes[0]} "
            f"queries and {sizes[1]} documents: {remedy}."
        )
    csr = as_csr(matrix if sparse.issparse(matrix) else sparse.csr_array(matrix), "relevance")
    good = np.isfinite(csr.data)
    if not good.all():
        entry = int(np.argmin(good))
        query = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
        raise DataError(
            f"relevance must not be NaN or inf: query {query}, document {csr.indices[entry]} is "
            f"{csr.data[entry]}; leave out entries that were not judged."
        )
    return csr


def as_labels(labels: Any, sizes: tuple[int, int]) -> tuple[tuple[Ints, Ints], Ids]:
    """Return both sides' labels as positions in the sorted classes, and the classes."""
    if not isinstance(labels, tuple) or len(labels) != 2:
        raise DataError("labels must be a pair: (labels of the queries, labels of the documents).")
    one = as_ids("labels of the queries", labels[0], sizes[0], "queries")
    same = labels[1] is labels[0]
    other = one if same else as_ids("labels of the documents", labels[1], sizes[1], "documents")
    if one.dtype.kind != other.dtype.kind:
        raise DataError(
            f"labels of the queries are like {one[0]!r} and labels of the documents like "
            f"{other[0]!r}; give both as numbers or both as text."
        )
    both: Any = one if same else np.concatenate((one, other))
    classes, codes = np.unique(both, return_inverse=True)
    codes = codes.astype(np.int64, copy=False)
    if same:
        return (codes, codes), classes
    return (codes[: sizes[0]], codes[sizes[0] :]), classes


def as_times(times: Any, relevance: Any, matrix: Any) -> NDArray[np.float64]:
    """Return the times of the entries in the order in which `matrix` stores them."""
    if not sparse.issparse(relevance) or relevance.format not in ("csr", "coo"):
        raise DataError("times need relevance as a CSR or COO matrix, one time per entry.")
    array = np.asarray(times)
    if array.dtype.kind == "M":
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    if array.dtype.kind not in "iuf" or array.shape != (relevance.nnz,):
        raise DataError(
            f"times has shape {array.shape} and type {array.dtype}, and relevance {matrix.nnz} "
            "entries; pass one number or date per entry."
        )
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise DataError(
            f"times: entry {int(np.argmin(np.isfinite(numbers)))} is not finite; fill it in or "
            "leave the entry out."
        )
    row, column = relevance.tocoo().coords
    return numbers[np.lexsort((column, row))]


def as_unique_ids(name: str, values: Any, n_rows: int, rows_of: str) -> Ids:
    """Return distinct ids, one per row; by default positions."""
    if values is None:
        return np.arange(n_rows)
    ids = as_ids(name, values, n_rows, rows_of)
    repeat = first_repeat(np.zeros(ids.size, np.int64), ids)
    if repeat is not None:
        raise DataError(
            f"{name}: {rows_of} {repeat[0]} and {repeat[1]} are both {ids[repeat[0]]!s}; give "
            "each its own id."
        )
    return ids


def as_positions(name: str, values: ArrayLike, bound: int) -> Ints:
    """Return positions as an int64 array, each from 0 and below `bound`."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise DataError(f"{name} must be positions, as whole numbers; got {str(values)[:60]}.")
    positions = array.astype(np.int64)
    outside = positions[(positions < 0) | (positions >= bound)]
    if outside.size:
        raise DataError(
            f"{name}: there is none at position {outside[0]}; positions run from 0 to {bound - 1}."
        )
    return positions
