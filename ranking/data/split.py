"""Splitting data to train and to test, by query, by time or one interaction a user, and `leakage`.

Every draw comes from the seed alone (SplitMix64, as in the kernels), and queries are drawn in the
order of their ids, so neither the order of the rows nor the number of threads matters.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.matches import Matches
from ranking.data.matching_data import MatchingData
from ranking.data.text_collection import TextCollection
from ranking.data.validation import row_bytes
from ranking.errors import DataError, DataWarning
from ranking.kernels.reference.random import random_bits

Splittable = TypeVar("Splittable", JudgedLists, Matches)
Related = TypeVar("Related", bound=Matches)


def query_kfold(
    data: Splittable, k: int, seed: int = 0, *, check: bool = True
) -> list[tuple[Splittable, Splittable]]:
    """Split by query into `k` folds, each tested once; a query is never cut.

    Parameters
    ----------
    data : JudgedLists, MatchingData or TextCollection
    k : int
        From 2 to the number of queries. Sizes of folds differ by 1 at most.
    seed : int
        Which queries go together.
    check : bool
        Warn of `leakage` between the parts.

    Returns
    -------
    list of (train, test)
    """
    if not 2 <= k <= data.n_queries:
        raise DataError(
            f"k={k} folds cannot be made of {data.n_queries} queries; take from 2 to "
            f"{data.n_queries}."
        )
    # The draw belongs to the place of the id, so that the order of the rows does not matter.
    by_id = np.argsort(data.query_ids, kind="stable")
    shuffled = by_id[np.argsort(_bits(seed, data.n_queries), kind="stable")]
    pairs = []
    for fold in range(k):
        test = np.sort(shuffled[fold::k])
        train = np.setdiff1d(np.arange(data.n_queries), test)
        pairs.append((data.select(train), data.select(test)))
    if check:
        for number, (train_part, test_part) in enumerate(pairs):
            _tell(leakage(train_part, test_part), f"fold {number}", queries_may_return=False)
    return pairs


def by_time(
    data: Related, when: float | None = None, *, share: float | None = None, check: bool = True
) -> tuple[Related, Related]:
    """Split at a moment: what came before trains, what came then or later tests.

    Both parts keep all queries and documents; those of one moment are never cut.

    Parameters
    ----------
    data : MatchingData or TextCollection
        With times.
    when : float
        The moment, in the unit of `data.times`.
    share : float
        Instead of `when`: about which share of the entries, the latest, is to test.
    check : bool
        Warn of `leakage` between the parts.
    """
    if data.times is None:
        raise DataError("the data have no times; give times, or split with query_kfold.")
    if (when is None) == (share is None):
        raise DataError("give either when, a moment, or share, a part of 1.")
    if when is None:
        if share is None or not 0 < share < 1:
            raise DataError(f"share={share} must be above 0 and below 1.")
        place = round(data.times.size * (1 - share))
        when = float(np.sort(data.times)[min(place, data.times.size - 1)])
    later = data.times >= when
    if later.all() or not later.any():
        raise DataError(
            f"all entries are on one side of {when}; times run from {data.times.min()} to "
            f"{data.times.max()}."
        )
    train, test = data.keep_entries(~later), data.keep_entries(later)
    if check:
        _tell(leakage(train, test), "the split by time", queries_may_return=True)
    return train, test


def leave_one_out(data: Related, seed: int = 0, *, check: bool = True) -> tuple[Related, Related]:
    """Take one relevant document of each query to test: the last by time, else a drawn one.

    Both parts keep all queries and documents. A query with a single entry above 0 only trains.

    Parameters
    ----------
    data : MatchingData or TextCollection
        With a relevance matrix.
    seed : int
        Draws the document, or among the last ones if several have the same time.
    check : bool
        Warn of `leakage` between the parts.
    """
    if data.relevance is None:
        raise DataError("data labelled by class have no entries to leave out; use query_kfold.")
    relevance = data.relevance
    rows = np.repeat(np.arange(data.n_queries), np.diff(relevance.indptr))
    bits = _bits(seed, relevance.nnz)
    moments = np.zeros(relevance.nnz) if data.times is None else data.times
    above = np.flatnonzero(relevance.data > 0)
    ordered = above[np.lexsort((bits[above], moments[above], rows[above]))]
    counts = np.bincount(rows[above], minlength=data.n_queries)
    lasts = ordered[np.cumsum(counts)[counts > 1] - 1]
    if not lasts.size:
        raise DataError("no query has two relevant documents, so that none can be left out.")
    left = np.zeros(relevance.nnz, np.bool_)
    left[lasts] = True
    train, test = data.keep_entries(~left), data.keep_entries(left)
    if check:
        _tell(leakage(train, test), "leave-one-out", queries_may_return=True)
    return train, test


@dataclasses.dataclass(frozen=True)
class Leakage:
    """What is in the training and in the test data.

    Attributes
    ----------
    pairs : list of (query id, document id)
        JudgedLists in both.
    queries : list of query ids
        With entries in both. By design so if data are split by time or leave-one-out.
    rows : int
        Rows of the test data (documents of `JudgedLists`, queries of other data) whose features, not
        all zero, or text are those of a row of the training data under another name.
    """

    pairs: list[tuple[Any, Any]]
    queries: list[Any]
    rows: int

    def __bool__(self) -> bool:
        return bool(self.pairs or self.queries or self.rows)

    def __str__(self) -> str:
        told = []
        if self.pairs:
            told.append(f"{len(self.pairs)} pairs of query and document (as {self.pairs[0]})")
        if self.queries:
            told.append(f"{len(self.queries)} queries (as {self.queries[0]!r})")
        if self.rows:
            told.append(f"{self.rows} rows of features or texts")
        return " and ".join(told) or "nothing"


def leakage(train: JudgedLists | Matches, test: JudgedLists | Matches) -> Leakage:
    """Report what training and test data share.

    Examples
    --------
    >>> train = MatchingData(None, None, [[1, 1]], query_ids=["u"])
    >>> print(leakage(train, MatchingData(None, None, [[0, 1]], query_ids=["u"])))
    1 pairs of query and document (as ('u', 1)) and 1 queries (as 'u')
    """
    if isinstance(train, JudgedLists) != isinstance(test, JudgedLists):
        raise DataError("train and test are of different kinds; compare two of one kind.")
    known = set(train.query_ids[_active(train)].tolist())
    queries = [query for query in test.query_ids[_active(test)].tolist() if query in known]
    return Leakage(_shared_pairs(train, test), queries, _shared_rows(train, test))


def _shared_pairs(
    train: JudgedLists | Matches, test: JudgedLists | Matches
) -> list[tuple[Any, Any]]:
    """Return the pairs of query id and document id that are judged in both."""
    one, other = _pairs(train), _pairs(test)
    if one is None or other is None:
        return []
    place = {query: at for at, query in enumerate(one[0].tolist())}
    column = {document: at for at, document in enumerate(one[1].tolist())}
    # A pair is a number that counts in the training data; who is not there has none.
    query_at = np.array([place.get(query, -1) for query in other[0].tolist()])[other[2]]
    document_at = np.array([column.get(name, -1) for name in other[1].tolist()])[other[3]]
    known = np.flatnonzero((query_at >= 0) & (document_at >= 0))
    keys = query_at[known] * len(column) + document_at[known]
    shared = known[np.isin(keys, one[2] * len(column) + one[3])] if known.size else known
    queries, documents = other[0][other[2][shared]], other[1][other[3][shared]]
    return list(zip(queries.tolist(), documents.tolist(), strict=True))


def _pairs(data: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return ids of queries and documents, and the position of both for each judgement."""
    if isinstance(data, JudgedLists):
        # Without ids of their own documents are numbered, and number 0 is no document.
        if not data.has_doc_ids:
            return None
        names, places = np.unique(data.doc_ids, return_inverse=True)
        return data.query_ids, names, data.row_groups, places
    if data.relevance is None:
        return None
    rows = np.repeat(np.arange(data.n_queries), np.diff(data.relevance.indptr))
    return data.query_ids, data.document_ids, rows, data.relevance.indices.astype(np.int64)


def _active(data: JudgedLists | Matches) -> NDArray[np.int64]:
    """Return the positions of the queries that have something to learn from or to test."""
    if isinstance(data, JudgedLists) or data.relevance is None:
        return np.arange(data.n_queries)
    return np.flatnonzero(np.diff(data.relevance.indptr))


def _shared_rows(train: JudgedLists | Matches, test: JudgedLists | Matches) -> int:
    if isinstance(train, JudgedLists) and isinstance(test, JudgedLists):
        known = set(_hashes(train.features).values())
        return sum(key in known for key in _hashes(test.features).values())
    # One query in both is told as a query; here it is another one that looks the same.
    looks: dict[Any, set[Any]] = {}
    for query, look in _looks(train):
        looks.setdefault(look, set()).add(query)
    return sum(bool(looks.get(look, set()) - {query}) for query, look in _looks(test))


def _looks(data: Any) -> list[tuple[Any, Any]]:
    """Return the id of each query that counts with what describes it, if something does."""
    active = _active(data)
    ids = data.query_ids[active].tolist()
    if isinstance(data, TextCollection):
        return [(one, data.query_texts[at]) for one, at in zip(ids, active, strict=True)]
    if not isinstance(data, MatchingData) or data.queries is None:
        return []
    return [(ids[row], look) for row, look in _hashes(data.queries[active]).items()]


def _hashes(features: Any) -> dict[int, bytes]:
    """Return the bytes of each row that is not all zero."""
    if sparse.issparse(features):
        features = features.copy()
        features.eliminate_zeros()
        some = np.diff(features.indptr) > 0
    else:
        some = features.any(axis=1)
    rows = zip(row_bytes(features), some.tolist(), strict=True)
    return {row: key for row, (key, kept) in enumerate(rows) if kept}


def _tell(found: Leakage, where: str, *, queries_may_return: bool) -> None:
    if queries_may_return:
        # All queries are in both parts by design, and so are those that look the same.
        found = dataclasses.replace(found, queries=[], rows=0)
    if found:
        warnings.warn(
            f"{where}: training and test data share {found}; remove the duplicates first, or pass "
            "check=False if they are meant.",
            DataWarning,
            stacklevel=3,
        )


def _bits(seed: int, count: int) -> NDArray[np.uint64]:
    out = np.empty(count, dtype=np.uint64)
    random_bits(seed % 2**64, 0, out)
    return out
