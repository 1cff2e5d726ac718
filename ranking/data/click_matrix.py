"""The click matrix M: which query features go with which document features in the clicks.

``M = sum over queries i and their documents j of r_ij / (n_x n_i) x_i y_ij'``, where x_i and y_ij
are the features, r_ij is the response (clicks, grades), n_x the number of queries that have
documents and n_i the number of documents of query i: stored entries of the relevance, also zeros.
Matching by alignment (Wu, Lu and Li, 2013) needs no other statistics of the data. With degree
normalization, r_ij is first divided by powers of the sums of responses of query i and document j.
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
"""Queries whose part of M is computed at a time; fixed, so that sums have fixed bits."""

BANDS = 32
"""Bands of the rows of M that threads compute in parallel; their number changes no bits."""


def nonnegative(relevance: Floats) -> Floats:
    """Return the relevance as responses, with 0 for negative values."""
    return np.maximum(relevance, 0.0)


@dataclasses.dataclass(frozen=True)
class ClickMatrix:
    """M by rows and by columns.

    Attributes
    ----------
    rows : scipy.sparse.csr_array of float32
        One row per query feature, one column per document feature.
    columns : scipy.sparse.csr_array of float32
        The transpose: one row per document feature.
    query_feature_ids, document_feature_ids : int64 or str arrays
    n_queries : int
        Number of queries with documents (n_x).
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
        """Return M as data: each feature is a query or a document, and M is the relevance.

        A ranker with ``alignment:per_query=false`` trains on it as on the original data, which
        need not be in memory any more.
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
    responses: Responses = nonnegative,
    *,
    per_query: bool = True,
    degrees: tuple[float, float] = (0.0, 0.0),
    threads: int = 1,
) -> ClickMatrix:
    """Compute M.

    Parameters
    ----------
    data : MatchingData
    responses : function
        Maps relevance to responses (r).
    per_query : bool
        Whether to divide by n_x n_i, so that queries have equal weight however many documents
        they have. Otherwise M is a plain sum over pairs.
    degrees : tuple of float
        Exponents of degree normalization, of queries and of documents.
    threads : int
        Results are identical for any value.
    """
    if any(degrees):
        data, responses = normalized(data, responses, degrees), nonnegative
    builder = ClickMatrixBuilder(responses, per_query=per_query, threads=threads)
    builder.add(data)
    return builder.finish()


def click_matrix_of_chunks(
    chunks: Iterable[MatchingData],
    responses: Responses = nonnegative,
    *,
    per_query: bool = True,
    threads: int = 1,
) -> ClickMatrix:
    """Compute M of data in chunks, such as a log that is larger than memory.

    A query must have all its documents in one chunk, since n_i counts them; a query in two chunks
    is an error. All chunks have the same features.
    """
    builder = ClickMatrixBuilder(responses, per_query=per_query, threads=threads)
    for chunk in chunks:
        builder.add(chunk)
    return builder.finish()


def normalized(
    data: MatchingData, responses: Responses, degrees: tuple[float, float]
) -> MatchingData:
    """Return the data with degree-normalized responses as their relevance.

    Parameters
    ----------
    degrees : tuple of float
        The exponents of the sums of responses of a query, and of a document.
    """
    if data.relevance is None:
        raise DataError(
            "degree normalization needs the documents of each query, and these data are labelled "
            "by class; leave query_degree and document_degree out, or pass relevance."
        )
    relevance = sparse.csr_array(data.relevance, dtype=np.float64, copy=True)
    if data.own_document is not None:
        owner = np.repeat(np.arange(data.n_queries), np.diff(relevance.indptr))
        relevance.data[relevance.indices == data.own_document[owner]] = 0.0
    relevance.data = responses(relevance.data)
    powers = [
        degree_powers(np.asarray(relevance.sum(axis=axis)).ravel(), exponent)
        for axis, exponent in zip((1, 0), degrees, strict=True)
    ]
    relevance.data *= np.repeat(powers[0], np.diff(relevance.indptr))
    relevance.data *= powers[1][relevance.indices]
    return data._replace(relevance=relevance)


def degree_powers(sums: Floats, exponent: float) -> Floats:
    """Return ``sums ** -exponent``, and 0 for a sum of 0."""
    powers: Floats = np.where(sums > 0.0, np.where(sums > 0.0, sums, 1.0) ** -exponent, 0.0)
    return powers


class ClickMatrixBuilder:
    """Accumulates M: sums over blocks of queries, one band of its rows at a time."""

    def __init__(
        self, responses: Responses = nonnegative, *, per_query: bool = True, threads: int = 1
    ) -> None:
        self.responses, self.per_query, self.threads = responses, per_query, threads
        self.n_queries = 0
        self._sums: list[_OrderedSum] = []
        self._bands: list[slice] = []
        self._features: tuple[Ids, Ids] | None = None
        self._seen: set[Any] = set()

    def add(self, data: MatchingData) -> None:
        """Add the clicks of a chunk; its queries must be new."""
        self._check_features(data)
        self._check_queries(data)
        compute = _by_classes if data.labels is not None else _by_pairs
        blocks = [
            slice(at, min(at + BLOCK, data.n_queries)) for at in range(0, data.n_queries, BLOCK)
        ]

        def compute_block(queries: slice) -> _Block:
            return compute(data, queries, self.responses, self.per_query)

        parts = list(in_order(compute_block, blocks, self.threads))
        self.n_queries += sum(part.n_queries for part in parts)

        def band(at: int) -> None:
            rows = self._bands[at]
            for part in parts:
                self._sums[at].add(part.left[rows] @ part.right)

        for _ in in_order(band, range(len(self._bands)), self.threads):
            pass

    def _check_features(self, data: MatchingData) -> None:
        feature_ids = (data.query_feature_ids, data.document_feature_ids)
        if self._features is None:
            self._features = feature_ids
            rows = feature_ids[0].size
            size = max(-(-rows // BANDS), 1)
            self._bands = [slice(at, at + size) for at in range(0, max(rows, 1), size)]
            self._sums = [_OrderedSum() for _ in self._bands]
        sides = zip(("query", "document"), feature_ids, self._features, strict=True)
        for side, own, first in sides:
            if not np.array_equal(own, first):
                raise DataError(
                    f"the chunks have different {side} features: {own.size} here, {first.size} in "
                    "the first; describe all with the same features, such as hashed words."
                )

    def _check_queries(self, data: MatchingData) -> None:
        ids = set(data.query_ids.tolist())
        repeated = self._seen & ids
        if repeated:
            raise DataError(
                f"query {min(repeated)!r} is in two chunks, so the number of its documents is not "
                "known; sort the log by query, and cut it between queries."
            )
        self._seen |= ids

    def finish(self) -> ClickMatrix:
        """Return M."""
        if self._features is None or not all(self._sums):
            raise DataError("there are no data; add at least one chunk.")
        divisor = self.n_queries if self.per_query and self.n_queries else 1

        def band(total: _OrderedSum) -> Any:
            rows = sparse.csr_array(total.pop() / divisor, dtype=np.float32)
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
    """The contribution of some queries to n_x M, as a product, and how many have documents."""

    n_queries: int
    left: Any
    right: Any


def _by_pairs(data: MatchingData, block: slice, responses: Responses, per_query: bool) -> _Block:
    """Return the block of some queries: their features, and the weighted sum of their documents."""
    relevance = data.relevance[block].astype(np.float64)
    n_queries = relevance.shape[0]
    mask = np.ones(relevance.nnz, np.bool_)
    owner = np.repeat(np.arange(n_queries), np.diff(relevance.indptr))
    if data.own_document is not None:
        mask = relevance.indices != data.own_document[block][owner]
    counts = np.bincount(owner[mask], minlength=n_queries)
    values = np.where(mask, responses(relevance.data), 0.0)
    if per_query:
        values /= np.maximum(counts, 1)[owner]
    weights = sparse.csr_array((values, relevance.indices, relevance.indptr), relevance.shape)
    queries = sparse.csr_array(data.query_rows[block], dtype=np.float64)
    right = weights if data.documents is None else weights @ data.document_rows
    return _Block(int(np.count_nonzero(counts)), queries.T.tocsr(), right)


def _by_classes(data: MatchingData, block: slice, responses: Responses, per_query: bool) -> _Block:
    """Return the same for data labelled by class, from sums by class instead of by pair."""
    assert data.labels is not None
    assert data.classes is not None
    counts = data.n_relevant[block]
    values = np.full(counts.size, float(responses(np.ones(1))[0])) * (counts > 0)
    if per_query:
        values /= np.maximum(counts, 1)
    queries = sparse.csr_array(data.query_rows[block], dtype=np.float64, copy=True)
    queries.data *= np.repeat(values, np.diff(queries.indptr))
    classes = data.classes.size
    right = _members(data.labels[1], classes).T.tocsr() @ data.document_rows
    left = (_members(data.labels[0][block], classes).T.tocsr() @ queries).T.tocsr()
    if data.own_document is not None:
        positions = data.own_document[block]
        own = sparse.csr_array(data.document_rows[positions], dtype=np.float64, copy=True)
        same = data.labels[1][positions] == data.labels[0][block]
        own.data *= np.repeat(-same.astype(np.float64), np.diff(own.indptr))
        left, right = sparse.hstack([left, queries.T]).tocsr(), sparse.vstack([right, own]).tocsr()
    return _Block(int(np.count_nonzero(counts)), left, right)


def _members(labels: NDArray[np.int64], classes: int) -> Any:
    """Return one row per label, with a 1 at its class."""
    ones, pointers = np.ones(labels.size), np.arange(labels.size + 1)
    return sparse.csr_array((ones, labels, pointers), shape=(labels.size, classes))


class _OrderedSum:
    """A pairwise sum of sparse matrices: each is copied only O(log n) times."""

    def __init__(self) -> None:
        self._parts: list[tuple[int, Any]] = []

    def add(self, matrix: Any) -> None:
        """Add a matrix; two partial sums of equally many terms are merged."""
        self._parts.append((1, matrix))
        while len(self._parts) > 1 and self._parts[-1][0] == self._parts[-2][0]:
            self._merge()

    def _merge(self) -> None:
        (count, last), (before, other) = self._parts.pop(), self._parts.pop()
        self._parts.append((count + before, other + last))

    def __bool__(self) -> bool:
        """Return whether a matrix was added."""
        return bool(self._parts)

    def pop(self) -> Any:
        """Return the sum and clear it."""
        while len(self._parts) > 1:
            self._merge()
        return self._parts.pop()[1]
