"""Compute many metrics of the same ranked lists: each list is sorted once, in the kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ranking.data.validation import Ids
from ranking.errors import DataError
from ranking.kernels.kernel import Kernel
from ranking.kernels.metrics import RankedLists
from ranking.metrics.ranked import Floats, Measure

Ints = NDArray[np.int64]
Values = dict[str, Floats]
"""One array per metric, by its full name: one value per query, NaN for a query left out."""


@dataclasses.dataclass(frozen=True)
class ScoredLists:
    """Scores and grades of lists, before sorting, gains and discounts.

    Attributes
    ----------
    group_ptr : int64 array
        Where the rows of each query begin.
    missing_ptr, missing_grades : arrays
        Grades of judged documents that are not in the list, by query.
    id_ranks : function
        From rows to the order of their document ids, which breaks ties.
    """

    query_ids: Ids
    group_ptr: Ints
    grades: Floats
    scores: Floats
    missing_ptr: Ints
    missing_grades: Floats
    id_ranks: Callable[[Ints], Ints]


def compute_metrics(
    measures: dict[str, Measure], lists: ScoredLists, kernel: Kernel, threads: int
) -> Values:
    """Sort the lists in each order that the measures need, and compute the measures."""
    gains = ["exp2"] if any(m.gain == "exp2" for m in measures.values()) else []
    discounts = sorted({m.discount for m in measures.values() if m.discount})
    sizes = np.diff(lists.group_ptr) + np.diff(lists.missing_ptr)
    arrays = RankedLists(
        group_ptr=lists.group_ptr,
        grades=lists.grades,
        order=np.empty(0, np.int64),
        tied=np.empty(0, np.uint8),
        unretrieved_ptr=lists.missing_ptr,
        unretrieved_grades=lists.missing_grades,
        gains=_gains(gains, lists.grades),
        unretrieved_gains=_gains(gains, lists.missing_grades),
        discounts=_discounts(discounts, int(sizes.max(initial=0))),
    )
    for gain in {m.gain for m in measures.values() if m.gain}:
        _refuse_overflow(lists, gain)
    values: Values = {}
    for (precision, by_id), names in _sorts(measures).items():
        rows = [
            (
                m.kind,
                m.cutoff,
                gains.index(m.gain) + 1 if m.gain in gains else 0,
                discounts.index(m.discount) if m.discount else 0,
                m.ties == "average",
                m.short,
            )
            for m in (measures[name] for name in names)
        ]
        order, tied = _rank(lists, precision, by_id, kernel, threads)
        sort = dataclasses.replace(arrays, order=order, tied=tied)
        out = kernel.metrics.ranked_metrics(sort, np.array(rows, dtype=np.int64), threads)
        for name, column in zip(names, out.T, strict=True):
            zero = measures[name].empty == "zero"
            values[name] = np.nan_to_num(column, nan=0.0) if zero else column.copy()
    return {name: values[name] for name in measures}


def _rank(
    lists: ScoredLists, precision: str, by_id: bool, kernel: Kernel, threads: int
) -> tuple[Ints, NDArray[np.uint8]]:
    with np.errstate(over="ignore"):  # beyond float32 is infinite, in trec_eval too
        scores = np.ascontiguousarray(lists.scores, dtype=precision)
    unknown = np.isnan(scores)
    if unknown.any():
        query = int(np.searchsorted(lists.group_ptr, np.argmax(unknown), side="right")) - 1
        raise DataError(
            f"query {lists.query_ids[query]} has a score that is NaN and cannot be ranked; the "
            "parameters of the model are damaged or too large, so train it again."
        )
    order, tied = kernel.metrics.rank_lists(lists.group_ptr, scores, threads)
    if by_id and tied.any():
        # Ids are compared only within ties: comparing is slow, and ties may be few.
        later = np.flatnonzero(tied.view(np.bool_))
        among = np.union1d(later - 1, later)
        rows = order[among]
        blocks = np.cumsum(tied[among] == 0)
        order[among] = rows[np.lexsort((-lists.id_ranks(rows), blocks))]
    return order, tied


def _sorts(measures: dict[str, Measure]) -> dict[tuple[str, bool], list[str]]:
    """Group the metrics that need the same order: by precision, and whether ids break ties."""
    sorts: dict[tuple[str, bool], list[str]] = {}
    for name, m in measures.items():
        if m.ties:
            sorts.setdefault((m.scores, m.ties == "docid"), []).append(name)
    for name, m in measures.items():
        if not m.ties:
            by_id = (m.scores, False) not in sorts and (m.scores, True) in sorts
            sorts.setdefault((m.scores, by_id), []).append(name)
    return sorts


def _gains(words: list[str], grades: Floats) -> Floats:
    """Return the tables of gains other than the grades themselves."""
    with np.errstate(over="ignore"):
        tables = [np.exp2(np.maximum(grades, 0.0)) - 1.0 for _ in words]
    return np.array(tables).reshape(len(words), grades.size)


def _refuse_overflow(lists: ScoredLists, gain: str) -> None:
    """Refuse grades whose gains add up to more than float64 holds."""
    largest = max(lists.grades.max(initial=0.0), lists.missing_grades.max(initial=0.0))
    if largest <= 900.0:  # then even 2**grade times the longest list does not
        return
    grades = np.concatenate((lists.grades, lists.missing_grades))
    sizes = (np.diff(lists.group_ptr), np.diff(lists.missing_ptr))
    queries = np.concatenate([np.repeat(np.arange(size.size), size) for size in sizes])
    with np.errstate(over="ignore"):
        gains = grades if gain == "linear" else np.exp2(grades)
        totals = np.bincount(queries, np.maximum(gains, 0.0), lists.group_ptr.size - 1)
    if not np.isfinite(totals).all():
        query = int(np.argmin(np.isfinite(totals)))
        largest = grades[queries == query].max()
        raise DataError(
            f"query {lists.query_ids[query]} has grade {largest:g}, whose gain is beyond float64 "
            f"with gain={gain}; use gain=linear or smaller grades."
        )


def _discounts(words: list[str], longest: int) -> Floats:
    ranks = np.arange(1, longest + 1)
    tables = np.empty((len(words), longest))
    for table, word in zip(tables, words, strict=True):
        table[:] = 1.0 / np.log2(ranks + 1 if word == "log2" else np.maximum(ranks, 2))
    return tables
