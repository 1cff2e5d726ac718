"""M, the matrix that says which query features go with which document features in the clicks.

``M = sum over queries i and their documents j of r_ij / (n_x n_i) x_i y_ij'``, where x_i and y_ij
are the features, r_ij is the response (clicks, grades), n_x the number of queries that have
documents and n_i the number of documents of query i: stored entries of the relevance, also zeros.
Matching by alignment (Wu, Lu and Li, 2013) needs nothing else of the data.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking._utils.parallel import in_order
from ranking.data.matching_data import MatchingData
from ranking.data.validation import Ids
from ranking.errors import DataError

Floats = NDArray[np.float64]
Responses = Callable[[Floats], Floats]

BLOCK = 65536
"""Queries whose part of M is made at a time; it is fixed, so that sums have fixed bits."""

BANDS = 32
"""Parts of the rows of M, which threads make side by side; their number changes no bits."""


def as_they_are(relevance: Floats) -> Floats:
    """Return the responses: what is stored, and 0 for what is below 0."""
    return np.maximum(relevance, 0.0)


@dataclasses.dataclass(frozen=True)
class ClickMatrix:
    """M by rows and by columns.

    Attributes
    ----------
    rows : scipy.sparse.csr_array of float32
        A row a query feature, a column a document feature.
    columns : scipy.sparse.csr_array of float32
        The transpose: a row a document feature.
    query_feature_ids, document_feature_ids : int64 or str arrays
    n_queries : int
        n_x: queries that have documents.
    """

    rows: Any
    columns: Any
    query_feature_ids: Ids
    document_feature_ids: Ids
    n_queries: int

    @property
    def nbytes(self) -> int:
        """The memory of both orders."""
        return sum(
            part.nbytes
            for matrix in (self.rows, self.columns)
            for part in (matrix.data, matrix.indices, matrix.indptr)
        )

    def as_matching(self) -> MatchingData:
        """Return features as data: every one is its own query or document, and M the relevance.

        A ranker with ``alignment:per_query=false`` trains on it as on the data that M is from,
        which need not be in memory any more.
        """
        return MatchingData(
            None,
            None,
            self.rows,
            query_ids=self.query_feature_ids,
            document_ids=self.document_feature_ids,
        )


def click_matrix(
    data: MatchingData,
    responses: Responses = as_they_are,
    *,
    per_query: bool = True,
    threads: int = 1,
) -> ClickMatrix:
    """Return M of some data.

    Parameters
    ----------
    data : MatchingData
    responses : function
        From relevance to r.
    per_query : bool
        Whether the divisor n_x n_i is there: every query counts alike, however many documents it
        has. Without, every pair does, and M is a plain sum.
    threads : int
        The result does not depend on it.
    """
    builder = ClickMatrixBuilder(responses, per_query=per_query, threads=threads)
    builder.add(data)
    return builder.finish()


def click_matrix_of_chunks(
    chunks: Iterable[MatchingData],
    responses: Responses = as_they_are,
    *,
    per_query: bool = True,
    threads: int = 1,
) -> ClickMatrix:
    """Return M of data that come in chunks, such as a log that is larger than memory.

    A query must have all its documents in one chunk, since n_i counts them; one that comes twice
    is refused. All chunks have the same features.
    """
    builder = ClickMatrixBuilder(responses, per_query=per_query, threads=threads)
    for chunk in chunks:
        builder.add(chunk)
    return builder.finish()


class ClickMatrixBuilder:
    """M in the making: sums over blocks of queries, a band of its rows at a time."""

    def __init__(
        self, responses: Responses = as_they_are, *, per_query: bool = True, threads: int = 1
    ) -> None:
        self.responses, self.per_query, self.threads = responses, per_query, threads
        self.n_queries = 0
        self._sums: list[_OrderedSum] = []
        self._bands: list[slice] = []
        self._features: tuple[Ids, Ids] | None = None
        self._seen: set[Any] = set()

    def add(self, data: MatchingData) -> None:
        """Add the clicks of these data, whose queries are new."""
        self._check_features(data)
        self._check_queries(data)
        make = _by_classes if data.labels is not None else _by_pairs
        blocks = [
            slice(at, min(at + BLOCK, data.n_queries)) for at in range(0, data.n_queries, BLOCK)
        ]

        def block(queries: slice) -> _Block:
            return make(data, queries, self.responses, self.per_query)

        made = list(in_order(block, blocks, self.threads))
        self.n_queries += sum(one.counted for one in made)

        def band(at: int) -> None:
            rows = self._bands[at]
            for one in made:
                self._sums[at].add(one.left[rows] @ one.right)

        for _ in in_order(band, range(len(self._bands)), self.threads):
            pass

    def _check_features(self, data: MatchingData) -> None:
        given = (data.query_feature_ids, data.document_feature_ids)
        if self._features is None:
            self._features = given
            rows = given[0].size
            size = max(-(-rows // BANDS), 1)
            self._bands = [slice(at, at + size) for at in range(0, max(rows, 1), size)]
            self._sums = [_OrderedSum() for _ in self._bands]
        for side, have, want in zip(("query", "document"), given, self._features, strict=True):
            if not np.array_equal(have, want):
                raise DataError(
                    f"the chunks have different {side} features: {have.size} here, {want.size} in "
                    "the first; describe all with the same features, such as hashed words."
                )

    def _check_queries(self, data: MatchingData) -> None:
        ids = set(data.query_ids.tolist())
        twice = self._seen & ids
        if twice:
            raise DataError(
                f"query {min(twice)!r} is in two chunks, so the number of its documents is not "
                "known; sort the log by query, and cut it between queries."
            )
        self._seen |= ids

    def finish(self) -> ClickMatrix:
        """Return M."""
        if self._features is None or not all(self._sums):
            raise DataError("there is no data to make M of; give at least one chunk.")
        divisor = self.n_queries if self.per_query and self.n_queries else 1

        def band(total: _OrderedSum) -> Any:
            rows = sparse.csr_array(total.taken() / divisor, dtype=np.float32)
            rows.eliminate_zeros()
            rows.sort_indices()
            return rows

        rows = sparse.csr_array(
            sparse.vstack(list(in_order(band, self._sums, self.threads)), format="csr")
        )
        if not np.isfinite(rows.data).all():
            raise DataError("M is not finite; scale the features or the relevance down.")
        columns = rows.T.tocsr()
        return ClickMatrix(rows, columns, *self._features, self.n_queries)


class _Block(NamedTuple):
    """What some queries add to n_x M, as a product, and how many of them have documents."""

    counted: int
    left: Any
    right: Any


def _by_pairs(data: MatchingData, chosen: slice, responses: Responses, per_query: bool) -> _Block:
    """Return the block of some queries: their features, and what each is matched with."""
    relevance = data.relevance[chosen].astype(np.float64)
    n_queries = relevance.shape[0]
    kept = np.ones(relevance.nnz, np.bool_)
    owner = np.repeat(np.arange(n_queries), np.diff(relevance.indptr))
    if data.itself is not None:
        kept = relevance.indices != data.itself[chosen][owner]
    counts = np.bincount(owner[kept], minlength=n_queries)
    values = np.where(kept, responses(relevance.data), 0.0)
    if per_query:
        values /= np.maximum(counts, 1)[owner]
    weights = sparse.csr_array((values, relevance.indices, relevance.indptr), relevance.shape)
    queries = sparse.csr_array(data.query_rows[chosen], dtype=np.float64)
    right = weights if data.documents is None else weights @ data.document_rows
    return _Block(int(np.count_nonzero(counts)), queries.T.tocsr(), right)


def _by_classes(data: MatchingData, chosen: slice, responses: Responses, per_query: bool) -> _Block:
    """Do the same where the same class is relevant: sums by class, and nothing by pair."""
    assert data.labels is not None
    assert data.classes is not None
    counts = data.n_relevant[chosen]
    values = np.full(counts.size, float(responses(np.ones(1))[0])) * (counts > 0)
    if per_query:
        values /= np.maximum(counts, 1)
    queries = sparse.csr_array(data.query_rows[chosen], dtype=np.float64, copy=True)
    queries.data *= np.repeat(values, np.diff(queries.indptr))
    classes = data.classes.size
    right = _members(data.labels[1], classes).T.tocsr() @ data.document_rows
    left = (_members(data.labels[0][chosen], classes).T.tocsr() @ queries).T.tocsr()
    if data.itself is not None:
        places = data.itself[chosen]
        own = sparse.csr_array(data.document_rows[places], dtype=np.float64, copy=True)
        same = data.labels[1][places] == data.labels[0][chosen]
        own.data *= np.repeat(-same.astype(np.float64), np.diff(own.indptr))
        left, right = sparse.hstack([left, queries.T]).tocsr(), sparse.vstack([right, own]).tocsr()
    return _Block(int(np.count_nonzero(counts)), left, right)


def _members(labels: NDArray[np.int64], classes: int) -> Any:
    """Return a row an object, with a 1 at its class."""
    ones, pointers = np.ones(labels.size), np.arange(labels.size + 1)
    return sparse.csr_array((ones, labels, pointers), shape=(labels.size, classes))


class _OrderedSum:
    """A sum of sparse matrices by pairs, then pairs of pairs: each is copied few times."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Any]] = []

    def add(self, matrix: Any) -> None:
        """Add one; two that stand for as many become one."""
        self._parts.append((1, matrix))
        while len(self._parts) > 1 and self._parts[-1][0] == self._parts[-2][0]:
            self._merge()

    def _merge(self) -> None:
        (count, last), (before, other) = self._parts.pop(), self._parts.pop()
        self._parts.append((count + before, other + last))

    def __bool__(self) -> bool:
        """Say whether there is anything."""
        return bool(self._parts)

    def taken(self) -> Any:
        """Return the sum, and forget it."""
        while len(self._parts) > 1:
            self._merge()
        return self._parts.pop()[1]
