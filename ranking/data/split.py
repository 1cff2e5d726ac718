"""Split data into training and test data by query, by time, leave-one-out or at random.

Random numbers depend on the seed alone (SplitMix64, as in the kernels), and queries are shuffled in
the order of their ids, so neither the order of the rows nor the number of threads matters.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.relevance import RelevanceData
from ranking.data.text_collection import TextCollection
from ranking.data.validation import row_bytes
from ranking.errors import DataError, DataWarning
from ranking.kernels.reference.random import random_bits

Splittable = TypeVar("Splittable", JudgedLists, RelevanceData)
Related = TypeVar("Related", bound=RelevanceData)

METHODS = ("by-query", "by-time", "leave-one-out", "random")


@overload
def split_data(
    data: Splittable,
    method: str,
    *,
    share: float = ...,
    when: float | None = ...,
    folds: None = ...,
    seed: int = ...,
    check: bool = ...,
) -> tuple[Splittable, Splittable]: ...


@overload
def split_data(
    data: Splittable, method: str, *, folds: int, seed: int = ..., check: bool = ...
) -> list[tuple[Splittable, Splittable]]: ...


def split_data(
    data: Any,
    method: str,
    *,
    share: float = 0.2,
    when: float | None = None,
    folds: int | None = None,
    seed: int = 0,
    check: bool = True,
) -> Any:
    """Split data into training and test data.

    Parameters
    ----------
    data : JudgedLists, MatchingData or TextCollection
    method : {"by-query", "by-time", "leave-one-out", "random"}
        ``"by-query"`` divides no query. The others keep all queries and documents in both parts and
        divide their relevance: the latest entries, one positive of each query (the last by time,
        else a random one), or random entries for test; they are not for judged lists.
    share : float
        The approximate share for test of the queries or entries; leave-one-out has its own.
    when : float, optional
        By time: the first time of the test data, instead of a share.
    folds : int, optional
        By query: the number of folds for cross-validation, instead of a share.
    seed : int
        Seed of the random choices.
    check : bool
        Whether to warn of content that both parts have.

    Returns
    -------
    (train, test), or with `folds` a list of them

    Examples
    --------
    >>> data = JudgedLists([[1.0], [2.0], [3.0]], [0, 1, 0], ["a", "b", "c"])
    >>> train, test = split_data(data, "by-query", share=0.3)
    >>> train.n_queries, test.n_queries
    (2, 1)
    """
    _refuse_method(data, method, when, folds)
    if folds is not None:
        return query_kfold(data, folds, seed, check=check)
    if not 0 < share < 1:
        raise DataError(f"share is {share!r}; it must be above 0 and below 1.")
    if method == "by-query":
        return _hold_out_queries(data, share, seed, check)
    if method == "by-time":
        return split_by_time(data, when, share=share if when is None else None, check=check)
    if method == "leave-one-out":
        return leave_one_out(data, seed, check=check)
    return _hold_out_entries(data, share, seed)


def _refuse_method(data: Any, method: str, when: float | None, folds: int | None) -> None:
    if not isinstance(data, JudgedLists | RelevanceData):
        raise DataError(
            f"cannot split a {type(data).__name__}; give JudgedLists, MatchingData or a "
            "TextCollection."
        )
    if method not in METHODS:
        raise DataError(f"there is no split {method!r}; it must be one of {', '.join(METHODS)}.")
    if isinstance(data, JudgedLists) and method != "by-query":
        raise DataError(
            f"judged lists cannot be split {method}: the rows of a query belong together. Split "
            "by-query."
        )
    if when is not None and method != "by-time":
        raise DataError(f"when={when!r} is for the split by-time; leave it out for {method}.")
    if folds is not None and method != "by-query":
        raise DataError(f"folds={folds!r} is for the split by-query; leave it out for {method}.")


def _hold_out_queries(
    data: Splittable, share: float, seed: int, check: bool
) -> tuple[Splittable, Splittable]:
    """Hold out a share of the queries, at least one, and not all."""
    if data.n_queries < 2:
        raise DataError("a split by-query needs at least two queries, and there is one.")
    count = min(max(round(share * data.n_queries), 1), data.n_queries - 1)
    shuffled = _shuffled_queries(data, seed)
    train, test = data.select(np.sort(shuffled[count:])), data.select(np.sort(shuffled[:count]))
    if check:
        _warn_of_leakage(leakage(train, test), "the split by query", queries_may_return=False)
    return train, test


def _hold_out_entries(data: Related, share: float, seed: int) -> tuple[Related, Related]:
    """Hold out a random share of the relevance entries."""
    if data.relevance is None:
        raise DataError("data labelled by class have no entries to leave out; split by-query.")
    entries = data.relevance.nnz
    if entries < 2:
        raise DataError("a random split needs at least two entries of relevance.")
    count = min(max(round(share * entries), 1), entries - 1)
    held_out = np.zeros(entries, np.bool_)
    held_out[np.argsort(random_bits_of(seed, entries), kind="stable")[:count]] = True
    return data.keep_entries(~held_out), data.keep_entries(held_out)


def query_kfold(
    data: Splittable, k: int, seed: int = 0, *, check: bool = True
) -> list[tuple[Splittable, Splittable]]:
    """Split by query into `k` folds; each is the test data once, and no query is divided.

    Parameters
    ----------
    data : JudgedLists, MatchingData or TextCollection
    k : int
        From 2 to the number of queries. Sizes of folds differ by 1 at most.
    seed : int
        Seed of the shuffle.
    check : bool
        Whether to warn of `leakage` between the parts.

    Returns
    -------
    list of (train, test)
    """
    if not 2 <= k <= data.n_queries:
        raise DataError(
            f"k={k} folds need at least as many queries, and there are {data.n_queries}; take "
            f"from 2 to {data.n_queries}."
        )
    shuffled = _shuffled_queries(data, seed)
    pairs = []
    for fold in range(k):
        test = np.sort(shuffled[fold::k])
        train = np.setdiff1d(np.arange(data.n_queries), test)
        pairs.append((data.select(train), data.select(test)))
    if check:
        for number, (train_part, test_part) in enumerate(pairs):
            _warn_of_leakage(
                leakage(train_part, test_part), f"fold {number}", queries_may_return=False
            )
    return pairs


def _shuffled_queries(data: JudgedLists | RelevanceData, seed: int) -> NDArray[np.int64]:
    """Return the positions of the queries in random order.

    A random number belongs to the rank of an id, so that the order of the rows does not matter.
    """
    by_id = np.argsort(data.query_ids, kind="stable")
    shuffled: NDArray[np.int64] = by_id[
        np.argsort(random_bits_of(seed, data.n_queries), kind="stable")
    ]
    return shuffled


def split_by_time(
    data: Related, when: float | None = None, *, share: float | None = None, check: bool = True
) -> tuple[Related, Related]:
    """Split at a time: earlier entries are for training, the others for test.

    Both parts keep all queries and documents; entries of equal time stay together.

    Parameters
    ----------
    data : MatchingData or TextCollection
        With times.
    when : float
        The first time of the test data, in the unit of `data.times`.
    share : float
        Instead of `when`: the approximate share of the entries, the latest ones, for test.
    check : bool
        Whether to warn of `leakage` between the parts.
    """
    if data.times is None:
        raise DataError("the data have no times; pass times, or split by-query.")
    if (when is None) == (share is None):
        raise DataError("pass either when (a time) or share (a fraction).")
    if when is None:
        if share is None or not 0 < share < 1:
            raise DataError(f"share={share} must be above 0 and below 1.")
        position = round(data.times.size * (1 - share))
        when = float(np.sort(data.times)[min(position, data.times.size - 1)])
    later = data.times >= when
    if later.all() or not later.any():
        raise DataError(
            f"all entries are on one side of {when}; times run from {data.times.min()} to "
            f"{data.times.max()}."
        )
    train, test = data.keep_entries(~later), data.keep_entries(later)
    if check:
        _warn_of_leakage(leakage(train, test), "the split by time", queries_may_return=True)
    return train, test


def leave_one_out(data: Related, seed: int = 0, *, check: bool = True) -> tuple[Related, Related]:
    """Hold out one relevant document of each query: the last by time, else a random one.

    Both parts keep all queries and documents. A query with a single positive keeps it.

    Parameters
    ----------
    data : MatchingData or TextCollection
        With a relevance matrix.
    seed : int
        Seed of the choice, also among the last ones if several have the same time.
    check : bool
        Whether to warn of `leakage` between the parts.
    """
    if data.relevance is None:
        raise DataError("data labelled by class have no entries to leave out; split by-query.")
    relevance = data.relevance
    rows = np.repeat(np.arange(data.n_queries), np.diff(relevance.indptr))
    bits = random_bits_of(seed, relevance.nnz)
    moments = np.zeros(relevance.nnz) if data.times is None else data.times
    above = np.flatnonzero(relevance.data > 0)
    ordered = above[np.lexsort((bits[above], moments[above], rows[above]))]
    counts = np.bincount(rows[above], minlength=data.n_queries)
    lasts = ordered[np.cumsum(counts)[counts > 1] - 1]
    if not lasts.size:
        raise DataError("no query has two relevant documents, so that none can be left out.")
    held_out = np.zeros(relevance.nnz, np.bool_)
    held_out[lasts] = True
    train, test = data.keep_entries(~held_out), data.keep_entries(held_out)
    if check:
        _warn_of_leakage(leakage(train, test), "leave-one-out", queries_may_return=True)
    return train, test


@dataclasses.dataclass(frozen=True)
class Leakage:
    """Content that training and test data share.

    Attributes
    ----------
    pairs : list of (query id, document id)
        Judged in both.
    queries : list of query ids
        With entries in both; expected if data are split by time or leave-one-out.
    rows : int
        Rows of the test data (documents of `JudgedLists`, queries of other data) whose non-zero
        features or text equal those of a row of the training data with another id.
    """

    pairs: list[tuple[Any, Any]]
    queries: list[Any]
    rows: int

    def __bool__(self) -> bool:
        return bool(self.pairs or self.queries or self.rows)

    def __str__(self) -> str:
        parts = []
        if self.pairs:
            parts.append(f"{len(self.pairs)} pairs of query and document (as {self.pairs[0]})")
        if self.queries:
            parts.append(f"{len(self.queries)} queries (as {self.queries[0]!r})")
        if self.rows:
            parts.append(f"{self.rows} rows of features or texts")
        return " and ".join(parts) or "nothing"


def leakage(train: JudgedLists | RelevanceData, test: JudgedLists | RelevanceData) -> Leakage:
    """Report what training and test data share.

    Examples
    --------
    >>> train = MatchingData(None, None, [[1, 1]], query_ids=["u"])
    >>> print(leakage(train, MatchingData(None, None, [[0, 1]], query_ids=["u"])))
    1 pairs of query and document (as ('u', 1)) and 1 queries (as 'u')
    """
    if isinstance(train, JudgedLists) != isinstance(test, JudgedLists):
        raise DataError("train and test are of different types; compare two of the same type.")
    known = set(train.query_ids[_active(train)].tolist())
    queries = [query for query in test.query_ids[_active(test)].tolist() if query in known]
    return Leakage(_shared_pairs(train, test), queries, _shared_rows(train, test))


def _shared_pairs(
    train: JudgedLists | RelevanceData, test: JudgedLists | RelevanceData
) -> list[tuple[Any, Any]]:
    """Return the pairs of query id and document id that are judged in both."""
    one, other = _pairs(train), _pairs(test)
    if one is None or other is None:
        return []
    row = {query: at for at, query in enumerate(one[0].tolist())}
    column = {document: at for at, document in enumerate(one[1].tolist())}
    # Pairs are numbered by their positions in the training data; ids that are not there are -1.
    query_at = np.array([row.get(query, -1) for query in other[0].tolist()])[other[2]]
    document_at = np.array([column.get(name, -1) for name in other[1].tolist()])[other[3]]
    known = np.flatnonzero((query_at >= 0) & (document_at >= 0))
    keys = query_at[known] * len(column) + document_at[known]
    shared = known[np.isin(keys, one[2] * len(column) + one[3])] if known.size else known
    queries, documents = other[0][other[2][shared]], other[1][other[3][shared]]
    return list(zip(queries.tolist(), documents.tolist(), strict=True))


def _pairs(data: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return ids of queries and documents, and the position of both for each judgement."""
    if isinstance(data, JudgedLists):
        # Without ids documents are numbered within their query, and equal numbers mean nothing.
        if not data.has_doc_ids:
            return None
        names, codes = np.unique(data.doc_ids, return_inverse=True)
        return data.query_ids, names, data.row_groups, codes
    if data.relevance is None:
        return None
    rows = np.repeat(np.arange(data.n_queries), np.diff(data.relevance.indptr))
    return data.query_ids, data.document_ids, rows, data.relevance.indices.astype(np.int64)


def _active(data: JudgedLists | RelevanceData) -> NDArray[np.int64]:
    """Return the positions of the queries with entries."""
    if isinstance(data, JudgedLists) or data.relevance is None:
        return np.arange(data.n_queries)
    return np.flatnonzero(np.diff(data.relevance.indptr))


def _shared_rows(train: JudgedLists | RelevanceData, test: JudgedLists | RelevanceData) -> int:
    if isinstance(train, JudgedLists) and isinstance(test, JudgedLists):
        known = set(_hashes(train.features).values())
        return sum(key in known for key in _hashes(test.features).values())
    # A query in both is reported as a query; here another query has the same content.
    owners: dict[Any, set[Any]] = {}
    for query, content in _contents(train):
        owners.setdefault(content, set()).add(query)
    return sum(bool(owners.get(content, set()) - {query}) for query, content in _contents(test))


def _contents(data: Any) -> list[tuple[Any, Any]]:
    """Return the id and the text or features of each query with entries, if there are any."""
    active = _active(data)
    ids = data.query_ids[active].tolist()
    if isinstance(data, TextCollection):
        return [(one, data.query_texts[at]) for one, at in zip(ids, active, strict=True)]
    if not isinstance(data, MatchingData) or data.queries is None:
        return []
    return [(ids[row], content) for row, content in _hashes(data.queries[active]).items()]


def _hashes(features: Any) -> dict[int, bytes]:
    """Return the bytes of each row that is not all zero."""
    if sparse.issparse(features):
        features = features.copy()
        features.eliminate_zeros()
        some = np.diff(features.indptr) > 0
    else:
        some = features.any(axis=1)
    rows = zip(row_bytes(features), some.tolist(), strict=True)
    return {row: key for row, (key, is_used) in enumerate(rows) if is_used}


def _warn_of_leakage(shared: Leakage, where: str, *, queries_may_return: bool) -> None:
    if queries_may_return:
        # All queries are in both parts by design, and so are those with the same content.
        shared = dataclasses.replace(shared, queries=[], rows=0)
    if shared:
        warnings.warn(
            f"{where}: training and test data share {shared}; remove the duplicates first, or pass "
            "check=False if they are intended.",
            DataWarning,
            stacklevel=4,
        )


def random_bits_of(seed: int, count: int) -> NDArray[np.uint64]:
    """Return random numbers that depend on the seed alone, to shuffle by their order."""
    out = np.empty(count, dtype=np.uint64)
    random_bits(seed % 2**64, 0, out)
    return out
