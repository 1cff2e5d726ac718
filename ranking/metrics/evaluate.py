"""Many metrics of the same lists at once: each list is sorted once, in the kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.metric import Metric
from ranking.data.judged_lists import JudgedLists
from ranking.data.trec import JudgedRun
from ranking.data.validation import Ids
from ranking.errors import DataError, PartError, RankingError
from ranking.kernels.kernel import Kernel
from ranking.kernels.measures import RankedLists
from ranking.kernels.select import get_kernel
from ranking.metrics.ranked import Floats, Measure, RankedMetric
from ranking.registry.guard import ours, refuse
from ranking.registry.origin import described

Ints = NDArray[np.int64]
Values = dict[str, Floats]


def evaluate(
    metrics: Sequence[Metric],
    data: JudgedLists,
    scores: Floats,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
) -> Values:
    """Measure scores.

    Parameters
    ----------
    metrics : sequence of Metric
    data : JudgedLists
    scores : array
        One a stored row of `data`.
    kernel : str or Kernel
    threads : int

    Returns
    -------
    dict
        The values of each metric by its spelled-out name, one a query in the order of
        ``data.query_ids``; NaN marks a skipped query.
    """
    ranked = {m.spelled(): m.measure() for m in metrics if isinstance(m, RankedMetric)}
    lists = Lists(
        query_ids=data.query_ids,
        group_ptr=data.group_ptr,
        grades=data.grades,
        scores=_checked(data, scores),
        unfound_ptr=np.zeros(data.n_queries + 1, np.int64),
        unfound_grades=np.empty(0),
        id_ranks=lambda rows: data.doc_ranks[rows],
    )
    values = measured(ranked, lists, get_kernel(kernel), threads) if ranked else {}
    return {
        m.spelled(): values[m.spelled()] if isinstance(m, RankedMetric) else _asked(m, data, scores)
        for m in metrics
    }


def _asked(metric: Metric, data: JudgedLists, scores: Floats) -> Floats:
    """Return what a metric in Python answers; a stranger's answer is looked at."""
    try:
        values = metric.per_query(data, scores)
    except RankingError:
        raise
    except Exception as error:
        if ours(metric):
            raise
        refuse(described("metric", metric), "per_query", f"raised {type(error).__name__}: {error}")
    if not isinstance(values, np.ndarray) or values.shape != (data.n_queries,):
        found = getattr(values, "shape", type(values).__name__)
        refuse(
            described("metric", metric),
            "per_query",
            f"answered {found} where a number for each of {data.n_queries} queries was wanted",
        )
    return np.asarray(values, dtype=np.float64)


def ranked_measures(metrics: Sequence[Metric], what: str) -> dict[str, Measure]:
    """Return what metrics of ranked lists ask of the kernel; others are refused."""
    for metric in metrics:
        if not isinstance(metric, RankedMetric):
            raise PartError(
                f"metric {metric.name!r} measures judged data, not {what}; leave it out."
            )
    return {m.spelled(): m.measure() for m in metrics if isinstance(m, RankedMetric)}


def evaluate_run(
    metrics: Sequence[Metric],
    run: JudgedRun,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
) -> Values:
    """Measure a run against judgements, as trec_eval does.

    Documents that nobody judged are not relevant (grade 0) and keep their rank. Judged documents
    that the run lacks count in the ideal gain and in the number of relevant documents; metrics of
    pairs and the mean rank are about the documents of the list only. A query that the run lacks
    is NaN.

    Parameters and what is returned are those of `evaluate`; the order is that of ``run.query_ids``.
    """
    measures = ranked_measures(metrics, "runs")
    lists = Lists(
        query_ids=run.query_ids,
        group_ptr=run.group_ptr,
        grades=np.nan_to_num(run.grades, nan=0.0),
        scores=run.scores,
        unfound_ptr=run.unretrieved_ptr,
        unfound_grades=run.unretrieved_grades,
        # NumPy compares code points, and UTF-8 keeps their order: the order of strcmp.
        id_ranks=lambda rows: np.unique(
            run.document_ids[rows].astype(np.str_), return_inverse=True
        )[1].astype(np.int64),
    )
    values = measured(measures, lists, get_kernel(kernel), threads)
    for column in values.values():
        column[run.missing] = np.nan
    return values


def mean(values: Floats) -> float:
    """Return the mean over the queries that are not skipped."""
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if kept.size else float("nan")


@dataclasses.dataclass(frozen=True)
class Lists:
    """Ranked lists before gains and discounts; `id_ranks` orders the document ids of rows."""

    query_ids: Ids
    group_ptr: Ints
    grades: Floats
    scores: Floats
    unfound_ptr: Ints
    unfound_grades: Floats
    id_ranks: Callable[[Ints], Ints]


def _checked(data: JudgedLists, scores: Floats) -> Floats:
    values = np.asarray(scores)
    if values.shape != (data.n_rows,):
        raise DataError(
            f"scores have shape {values.shape} and the data {data.n_rows} rows; give one a row."
        )
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise DataError(
            f"scores: row {row} (query {data.query_ids[data.row_groups[row]]}) is NaN and has no "
            "place in a ranking; look at the model that gave it."
        )
    return values


def measured(measures: dict[str, Measure], lists: Lists, kernel: Kernel, threads: int) -> Values:
    """Sort the lists as the measures need it, and compute them."""
    gains = ["exp2"] if any(m.gain == "exp2" for m in measures.values()) else []
    discounts = sorted({m.discount for m in measures.values() if m.discount})
    sizes = np.diff(lists.group_ptr) + np.diff(lists.unfound_ptr)
    arrays = RankedLists(
        group_ptr=lists.group_ptr,
        grades=lists.grades,
        order=np.empty(0, np.int64),
        tied=np.empty(0, np.uint8),
        unfound_ptr=lists.unfound_ptr,
        unfound_grades=lists.unfound_grades,
        gains=_gains(gains, lists.grades),
        unfound_gains=_gains(gains, lists.unfound_grades),
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
        out = kernel.ranked_metrics(sort, np.array(rows, dtype=np.int64), threads)
        for name, column in zip(names, out.T, strict=True):
            zero = measures[name].empty == "zero"
            values[name] = np.nan_to_num(column, nan=0.0) if zero else column.copy()
    return {name: values[name] for name in measures}


def _rank(
    lists: Lists, precision: str, by_id: bool, kernel: Kernel, threads: int
) -> tuple[Ints, NDArray[np.uint8]]:
    with np.errstate(over="ignore"):  # beyond float32 is infinite, in trec_eval too
        scores = np.ascontiguousarray(lists.scores, dtype=precision)
    order, tied = kernel.rank_lists(lists.group_ptr, scores, threads)
    if by_id and tied.any():
        # Ids are compared only where it matters: that is slow, and ties may be few.
        later = np.flatnonzero(tied.view(np.bool_))
        among = np.union1d(later - 1, later)
        rows = order[among]
        blocks = np.cumsum(tied[among] == 0)
        order[among] = rows[np.lexsort((-lists.id_ranks(rows), blocks))]
    return order, tied


def _sorts(measures: dict[str, Measure]) -> dict[tuple[str, bool], list[str]]:
    """Gather the metrics that need the same order; by precision, and whether ids break ties."""
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
    """Return the tables of gains that are not the grades themselves."""
    with np.errstate(over="ignore"):
        tables = [np.exp2(np.maximum(grades, 0.0)) - 1.0 for _ in words]
    return np.array(tables).reshape(len(words), grades.size)


def _refuse_overflow(lists: Lists, gain: str) -> None:
    """Refuse grades whose gains add up to more than float64 holds."""
    tops = (lists.grades.max(initial=0.0), lists.unfound_grades.max(initial=0.0))
    if max(tops) <= 900.0:  # then even 2**grade times the longest list does not
        return
    grades = np.concatenate((lists.grades, lists.unfound_grades))
    sizes = (np.diff(lists.group_ptr), np.diff(lists.unfound_ptr))
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
