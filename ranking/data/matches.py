"""`Matches`: who matches whom; what `MatchingData` and `TextCollection` have in common."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ranking.data.validation import Ids, Ints, as_csr, as_ids, first_repeat, frozen, frozen_any
from ranking.errors import DataError


@dataclasses.dataclass(frozen=True, init=False, eq=False, repr=False)
class Matches:
    """Which documents are relevant to which queries, by a sparse matrix or by classes.

    Attributes
    ----------
    query_ids, document_ids : int64 or str arrays
        By default positions, from 0.
    relevance : scipy.sparse.csr_array or None
        Grades or clicks, one row a query. A stored entry is a judgement, also when it is 0; a
        document is relevant if its entry is above 0.
    times : float64 array or None
        When each stored entry of `relevance` came about.
    labels : (int64 array, int64 array) or None
        The classes of queries and documents, as positions in `classes`: the documents of its own
        class are relevant to a query. The matrix that this stands for is never made.
    classes : int64 or str array or None
    itself : int64 array or None
        Where queries are documents too, the position of each query among the documents: no object
        is relevant to itself.
    """

    query_ids: Ids
    document_ids: Ids
    relevance: Any
    times: NDArray[np.float64] | None
    labels: tuple[Ints, Ints] | None
    classes: Ids | None
    itself: Ints | None

    def _fill(self, **values: Any) -> Self:
        for name, value in values.items():
            if isinstance(value, np.ndarray) or sparse.issparse(value):
                value = frozen_any(value)
            elif isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
                value = tuple(frozen(array) for array in value)
            object.__setattr__(self, name, value)
        return self

    def _replace(self, **values: Any) -> Self:
        """Return the same data with some fields changed by somebody who knows what fits."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return object.__new__(type(self))._fill(**{**fields, **values})

    def _fill_matches(
        self,
        sizes: tuple[int, int],
        relevance: Any,
        labels: tuple[Any, Any] | None,
        query_ids: Any,
        document_ids: Any,
        times: Any,
        same_objects: bool,
    ) -> None:
        n_queries, n_documents = sizes
        if (relevance is None) == (labels is None):
            raise DataError(
                "give either relevance, a matrix, or labels, the classes of both sides."
            )
        matrix = None if relevance is None else as_relevance(relevance, sizes)
        codes, classes = (None, None) if labels is None else as_labels(labels, sizes)
        if times is not None and labels is not None:
            raise DataError("times belong to entries of relevance, and labels have none.")
        if same_objects and n_queries != n_documents:
            raise DataError(
                f"there are {n_queries} queries and {n_documents} documents; "
                "same_objects needs as many of the one as of the other."
            )
        self._fill(
            query_ids=as_unique_ids("query_ids", query_ids, n_queries, "queries"),
            document_ids=as_unique_ids("document_ids", document_ids, n_documents, "documents"),
            relevance=matrix,
            times=None if times is None else as_times(times, relevance, matrix),
            labels=codes,
            classes=classes,
            itself=np.arange(n_queries) if same_objects else None,
        )

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return self.query_ids.size

    @property
    def n_documents(self) -> int:
        """The number of documents."""
        return self.document_ids.size

    @functools.cached_property
    def n_relevant(self) -> Ints:
        """The number of relevant documents of each query."""
        if self.labels is not None:
            counts = np.diff(self._members[1])[self.labels[0]]
            if self.itself is not None:
                counts = counts - (self.labels[1][self.itself] == self.labels[0])
            return frozen(counts)
        above = np.concatenate(([0], np.cumsum(self.relevance.data > 0)))
        counts = np.diff(above[self.relevance.indptr])
        if self.itself is not None:
            own = [self._graded(q, self.itself[[q]])[0] for q in range(self.n_queries)]
            counts = counts - np.array(own)
        return frozen(counts)

    @functools.cached_property
    def _members(self) -> tuple[Ints, Ints]:
        """The documents class by class, and where each class begins."""
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
            found = documents[starts[label] : starts[label + 1]]
        else:
            entries = slice(*self.relevance.indptr[query : query + 2])
            found = self.relevance.indices[entries][self.relevance.data[entries] > 0]
        if self.itself is not None:
            found = found[found != self.itself[query]]
        return found.astype(np.int64)

    def is_relevant(self, query: int, documents: ArrayLike) -> NDArray[np.bool_]:
        """Say of each document, given by position, whether it is relevant to a query."""
        self._check_query(query)
        places = as_positions("documents", documents, self.n_documents)
        if self.labels is not None:
            found: NDArray[np.bool_] = self.labels[1][places] == self.labels[0][query]
        else:
            found = self._graded(query, places)
        return found if self.itself is None else found & (places != self.itself[query])

    def _graded(self, query: int, places: Ints) -> NDArray[np.bool_]:
        entries = slice(*self.relevance.indptr[query : query + 2])
        indices, grades = self.relevance.indices[entries], self.relevance.data[entries]
        if not indices.size:
            return np.zeros(places.shape, np.bool_)
        at = np.searchsorted(indices, places).clip(max=indices.size - 1)
        found: NDArray[np.bool_] = (indices[at] == places) & (grades[at] > 0)
        return found

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
        chosen = as_positions("queries", queries, self.n_queries)
        if chosen.size == 0 or np.unique(chosen).size < chosen.size:
            raise DataError("select takes positions of queries: at least one, and each once.")
        relevance, times, labels = self.relevance, self.times, self.labels
        if relevance is not None:
            if times is not None:
                numbered = sparse.csr_array(
                    (np.arange(relevance.nnz), relevance.indices, relevance.indptr),
                    shape=relevance.shape,
                )
                times = times[numbered[chosen].data]
            relevance = relevance[chosen]
        if labels is not None:
            labels = (labels[0][chosen], labels[1])
        return self._replace(
            query_ids=self.query_ids[chosen],
            relevance=relevance,
            times=times,
            labels=labels,
            itself=None if self.itself is None else self.itself[chosen],
            **self._selected(chosen),
        )

    def _selected(self, chosen: Ints) -> dict[str, Any]:
        """Return what describes the queries, for these only."""
        raise NotImplementedError

    def keep_entries(self, kept: NDArray[np.bool_]) -> Self:
        """Return the same queries and documents with some entries of `relevance` only."""
        if self.relevance is None:
            raise DataError("these data are labelled by class and have no entries to choose from.")
        counts = np.concatenate(([0], np.cumsum(kept)))
        parts = (
            self.relevance.data[kept],
            self.relevance.indices[kept],
            counts[self.relevance.indptr].astype(self.relevance.indptr.dtype),
        )
        return self._replace(
            relevance=sparse.csr_array(parts, shape=self.relevance.shape),
            times=None if self.times is None else self.times[kept],
        )


def as_relevance(given: Any, sizes: tuple[int, int]) -> Any:
    """Return relevance as a checked CSR array with a row a query and a column a document."""
    matrix = given
    if not sparse.issparse(given):
        matrix = np.asarray(given)
        if matrix.ndim != 2 or matrix.dtype.kind not in "buif":
            raise DataError(
                "relevance must be a matrix of numbers, queries by documents; it has "
                f"{matrix.ndim} dimensions and type {matrix.dtype}."
            )
    if matrix.shape != sizes:
        remedy = "give one row a query and one column a document"
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
            f"{csr.data[entry]}; leave out what nobody judged."
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


def as_times(times: Any, given: Any, matrix: Any) -> NDArray[np.float64]:
    """Return the times of the entries in the order in which `matrix` stores them."""
    if not sparse.issparse(given) or given.format not in ("csr", "coo"):
        raise DataError("times need relevance as a CSR or COO matrix, with one time an entry.")
    array = np.asarray(times)
    if array.dtype.kind == "M":
        array = (array - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    if array.dtype.kind not in "iuf" or array.shape != (given.nnz,):
        raise DataError(
            f"times has shape {array.shape} and type {array.dtype}, and relevance {matrix.nnz} "
            "entries; give one number or date an entry."
        )
    numbers = array.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise DataError(
            f"times: entry {int(np.argmin(np.isfinite(numbers)))} is not finite; fill it in or "
            "leave the entry out."
        )
    row, column = given.tocoo().coords
    return numbers[np.lexsort((column, row))]


def as_unique_ids(name: str, values: Any, n_rows: int, rows_of: str) -> Ids:
    """Return ids, one an object and no two the same; by default positions."""
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
        raise DataError(f"{name} are given by position, as whole numbers; got {str(values)[:60]}.")
    places = array.astype(np.int64)
    outside = places[(places < 0) | (places >= bound)]
    if outside.size:
        raise DataError(
            f"{name}: there is none at position {outside[0]}; positions run from 0 to {bound - 1}."
        )
    return places
