"""N-grams that only queries have as features: what was asked, word by word."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking._utils.tensors import Tensors
from ranking.data.text import vocabulary
from ranking.data.text.counts import count, take_columns
from ranking.data.text.tokenise import check_texts, ngram_range
from ranking.data.text.weights import smooth_idf
from ranking.errors import ModelFileError

Ints = NDArray[np.int64]

PREFIX = "query:"

PAIRS_AT_A_TIME = 1 << 22
"""Pairs of a query and a training query whose similarities are in memory at a time, at least one
query."""

ROUNDING = 1e-9
"""Share by which a cosine may miss the least one, so that 1 is reached."""


class QueryNgrams:
    """Counts of the n-grams of training queries, stop words included.

    With `similarity`, a query has only the n-grams that it shares with similar training queries.
    Two queries are as similar as the cosine of their words and n-grams, up to the longest, each
    counted once and weighted by the smooth idf of the training queries.

    Parameters
    ----------
    ngrams : int or str
        As in `TextFeatures`.
    similarity : float
        The least cosine with a training query; 0 keeps all known n-grams.
    """

    def __init__(self, ngrams: int | str, similarity: float = 0.0) -> None:
        self._range = ngram_range(ngrams)
        self._similarity = similarity
        self._columns: dict[str, int] = {}
        self._training = _Training(sparse.csr_array((0, 0), dtype=np.float32))

    def fit(self, texts: Iterable[str]) -> None:
        """Learn the n-grams of the training queries."""
        terms, counts = self._count(texts)
        self._columns = {term: at for at, term in enumerate(sorted(terms))}
        if self._similarity:
            self._training = _Training(self._select_known(terms, counts))

    @property
    def names(self) -> list[str]:
        """The name of each feature, ``query:`` and the n-gram."""
        return [f"{PREFIX}{term}" for term in self._columns if self._is_feature(term)]

    def transform(self, texts: Iterable[str]) -> Any:
        """Return the counts of known n-grams, one row per text, in float32."""
        terms, counts = self._count(texts)
        known = self._select_known(terms, counts)
        if not self._similarity:
            return known
        n_unknown = np.diff(counts.indptr) - np.diff(known.indptr)
        rows = self._training.shared(known, n_unknown, self._similarity)
        features = [at for at, term in enumerate(self._columns) if self._is_feature(term)]
        return sparse.csr_array(rows[:, features])

    def _count(self, texts: Iterable[str]) -> tuple[list[str], Any]:
        first, last = self._range
        span = (1 if self._similarity else first, last)
        return count(check_texts(texts), span, frozenset())

    def _is_feature(self, term: str) -> bool:
        return not self._similarity or term.count(" ") + 1 >= self._range[0]

    def _select_known(self, terms: list[str], counts: Any) -> Any:
        positions = np.array([self._columns.get(term, -1) for term in terms], dtype=np.int64)
        return sparse.csr_array(take_columns(counts, positions, len(self._columns)), dtype="f4")

    def tensors(self) -> Tensors:
        """Return the n-grams, and with `similarity` those of each training query, as arrays."""
        if not self._columns:
            return {}
        packed, offsets = vocabulary.pack(list(self._columns))
        tensors: Tensors = {"query_words": packed, "query_word_offsets": offsets}
        return tensors | (self._training.tensors() if self._similarity else {})

    def restore(self, tensors: Tensors) -> None:
        """Restore what `tensors` returned."""
        names = ["query_words", "query_word_offsets"]
        if self._similarity:
            names += ["training_query_indptr", "training_query_indices"]
        if not any(name in tensors for name in names):
            self._columns = {}
            self._training = _Training(sparse.csr_array((0, 0), dtype=np.float32))
            return
        missing = [name for name in names if name not in tensors]
        if missing:
            raise ModelFileError(f"text features need `{missing[0]}`, and it is missing.")
        terms = vocabulary.unpack(*(tensors[name] for name in names[:2]))
        self._columns = {term: at for at, term in enumerate(terms)}
        if self._similarity:
            arrays = [tensors[name] for name in names[2:]]
            self._training = _Training.restore(arrays[0], arrays[1], len(terms))


class _Training:
    """The training queries: which words and n-grams each has.

    Parameters
    ----------
    counts : csr_array
        One row per training query; only which entries are stored matters.
    """

    def __init__(self, counts: Any) -> None:
        self._rows = _occurrences(counts)
        n_queries = counts.shape[0]
        n_with = np.bincount(counts.indices, minlength=counts.shape[1])
        self._weights = smooth_idf(n_with, n_queries) ** 2
        self._unknown = float(smooth_idf(np.zeros(1, np.int64), n_queries)[0]) ** 2
        self._norms = np.sqrt(self._rows @ self._weights)
        self._known = set(_keys(self._rows))

    def shared(self, rows: Any, n_unknown: Ints, least: float) -> Any:
        """Return what each row shares with the training queries that are similar enough.

        Parameters
        ----------
        rows : csr_array
            Counts of the known words and n-grams of each query.
        n_unknown : int array
            The number of others that each has.
        least : float
            The least cosine.
        """
        # A training query shares all of it with itself.
        is_training = np.array([key in self._known for key in _keys(rows)], np.bool_)
        others = np.flatnonzero(~is_training | (n_unknown > 0))
        row_of = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        mask = np.ones(rows.nnz, np.bool_)
        mask[np.isin(row_of, others)] = self._in_similar(rows[others], n_unknown[others], least)
        ends = np.concatenate(([0], np.cumsum(mask)))[rows.indptr]
        return sparse.csr_array((rows.data[mask], rows.indices[mask], ends), shape=rows.shape)

    def _in_similar(self, rows: Any, n_unknown: Ints, least: float) -> NDArray[np.bool_]:
        """Return for each entry of the rows whether a similar training query has it too."""
        mask = np.zeros(rows.nnz, np.bool_)
        size = max(PAIRS_AT_A_TIME // max(self._rows.shape[0], 1), 1)
        for start in range(0, rows.shape[0], size):
            block = rows[start : start + size]
            shared = self._of_similar(block, n_unknown[start : start + size], least)
            row_of = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
            keys = row_of * block.shape[1] + block.indices
            first = rows.indptr[start]
            mask[first : first + block.nnz] = np.isin(
                keys, shared.coords[0].astype(np.int64) * block.shape[1] + shared.coords[1]
            )
        return mask

    def _of_similar(self, rows: Any, n_unknown: Ints, least: float) -> Any:
        """Return where a training query similar to a row has an entry, as a coo_array."""
        rows = _occurrences(rows)
        norms = np.sqrt(rows @ self._weights + n_unknown * self._unknown)
        products = sparse.csr_array(rows.multiply(self._weights) @ self._rows.T).tocoo()
        bounds = least * norms[products.coords[0]] * self._norms[products.coords[1]]
        similar = products.data >= bounds * (1.0 - ROUNDING)
        pairs = tuple(positions[similar] for positions in products.coords)
        ones = np.ones(pairs[0].size, np.float32)
        neighbours = sparse.coo_array((ones, pairs), shape=products.shape).tocsr()
        return sparse.csr_array(neighbours @ self._rows).tocoo()

    def tensors(self) -> Tensors:
        """Return the rows as arrays."""
        return {
            "training_query_indptr": self._rows.indptr.astype(np.int64),
            "training_query_indices": self._rows.indices.astype(np.int32),
        }

    @classmethod
    def restore(cls, indptr: NDArray[Any], indices: NDArray[Any], n_columns: int) -> Self:
        """Restore what `tensors` returned, or raise `ModelFileError`."""
        _check_rows(indptr, indices, n_columns)
        ones = np.ones(indices.size, np.float32)
        return cls(sparse.csr_array((ones, indices, indptr), shape=(indptr.size - 1, n_columns)))


def _keys(rows: Any) -> list[bytes]:
    """Return the columns of each row as bytes."""
    columns = rows.indices.astype(np.int64)
    return [columns[start:end].tobytes() for start, end in pairwise(rows.indptr.tolist())]


def _occurrences(counts: Any) -> Any:
    """Return 1 for each stored entry."""
    ones = np.ones(counts.nnz, np.float32)
    return sparse.csr_array((ones, counts.indices, counts.indptr), shape=counts.shape)


def _check_rows(indptr: NDArray[Any], indices: NDArray[Any], n_columns: int) -> None:
    """Raise `ModelFileError` unless the arrays are rows of increasing positions."""
    typed = indptr.dtype == np.int64 and indices.dtype == np.int32
    if not typed or indptr.ndim != 1 or indices.ndim != 1 or indptr.size < 1:
        raise ModelFileError(
            "text features need `training_query_indptr`, a vector of int64, and "
            "`training_query_indices`, one of int32."
        )
    if indptr[0] != 0 or indptr[-1] != indices.size or (np.diff(indptr) < 0).any():
        raise ModelFileError(
            "text features' `training_query_indptr` must go from 0 to the "
            f"{indices.size} training_query_indices, and never decrease."
        )
    if indices.size and (indices.min() < 0 or indices.max() >= n_columns):
        raise ModelFileError(
            f"text features' `training_query_indices` must be from 0 to {n_columns - 1}."
        )
    rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
    if ((np.diff(indices) <= 0) & (np.diff(rows) == 0)).any():
        raise ModelFileError(
            "text features' `training_query_indices` must increase within each training query."
        )
