"""Evaluate scores, TREC runs and models: the one evaluator of the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.metric import Metric
from ranking.contracts.model import MatchingModel, Model
from ranking.data.exclusions import Pairs
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.trec import JudgedRun
from ranking.data.validation import Ids
from ranking.errors import DataError, PartError, RankingError
from ranking.kernels.kernel import Kernel
from ranking.kernels.select import get_kernel
from ranking.metrics.ordered import (
    Catalogue,
    OrderedLists,
    OrderedMetric,
    compute_ordered,
    ordered_lists,
)
from ranking.metrics.ranked import Floats, Measure, RankedMetric
from ranking.metrics.ranked_lists import ScoredLists, Values, compute_metrics
from ranking.metrics.top_k_lists import evaluate_top_k
from ranking.registry.guard import ours, refuse
from ranking.registry.origin import described

if TYPE_CHECKING:
    from ranking.data.relevance import RelevanceData

__all__ = ["Values", "evaluate", "evaluate_model", "evaluate_run", "mean"]

BLOCK = 1 << 21
"""Scores that are held in memory at a time."""


def evaluate(
    metrics: Sequence[Metric],
    data: JudgedLists,
    scores: Floats,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
) -> Values:
    """Evaluate scores of judged lists.

    Parameters
    ----------
    metrics : sequence of Metric
    data : JudgedLists
    scores : array
        One per stored row of `data`.
    kernel : str or Kernel
    threads : int

    Returns
    -------
    dict
        The values of each metric by its full name, one per query in the order of
        ``data.query_ids``; NaN for a query that is left out.
    """
    ranked = {m.spelled(): m.measure() for m in metrics if isinstance(m, RankedMetric)}
    lists = ScoredLists(
        query_ids=data.query_ids,
        group_ptr=data.group_ptr,
        grades=data.grades,
        scores=_check_scores(data, scores),
        missing_ptr=np.zeros(data.n_queries + 1, np.int64),
        missing_grades=np.empty(0),
        id_ranks=lambda rows: data.doc_ranks[rows],
    )
    values = compute_metrics(ranked, lists, get_kernel(kernel), threads) if ranked else {}
    ordered = [m for m in metrics if isinstance(m, OrderedMetric)]
    if ordered:
        values |= compute_ordered(ordered, ordered_lists(lists))
    return {
        m.spelled(): values[m.spelled()]
        if isinstance(m, RankedMetric | OrderedMetric)
        else _per_query(m, data, scores)
        for m in metrics
    }


def evaluate_run(
    metrics: Sequence[Metric],
    run: JudgedRun,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
) -> Values:
    """Evaluate a run against relevance judgements, as trec_eval does.

    Documents without a judgement are not relevant (grade 0) and keep their rank. Judged documents
    that the run lacks count in the ideal gain and in the number of relevant documents; metrics of
    pairs and the mean rank look at the documents of the list only. A query that the run lacks is
    NaN.

    Parameters and result are those of `evaluate`; the order is that of ``run.query_ids``.
    """
    ordered = [m for m in metrics if isinstance(m, OrderedMetric)]
    measures = _ranked_measures([m for m in metrics if m not in ordered], "runs")
    lists = ScoredLists(
        query_ids=run.query_ids,
        group_ptr=run.group_ptr,
        grades=np.nan_to_num(run.grades, nan=0.0),
        scores=run.scores,
        missing_ptr=run.unretrieved_ptr,
        missing_grades=run.unretrieved_grades,
        # NumPy compares code points, and UTF-8 keeps their order: the order of strcmp.
        id_ranks=lambda rows: np.unique(
            run.document_ids[rows].astype(np.str_), return_inverse=True
        )[1].astype(np.int64),
    )
    values = compute_metrics(measures, lists, get_kernel(kernel), threads)
    if ordered:
        values |= compute_ordered(ordered, ordered_lists(lists, ~np.isnan(run.grades)))
    for column in values.values():
        column[run.missing] = np.nan
    return {m.spelled(): values[m.spelled()] for m in metrics}


def evaluate_model(
    model: Model,
    metrics: Sequence[Metric],
    data: JudgedLists | MatchingData,
    kernel: Kernel,
    threads: int = 1,
    exclusions: Pairs | None = None,
    catalogue: Catalogue | None = None,
) -> Values:
    """Evaluate a model on judged lists, or on queries that each rank all documents.

    With `MatchingData`, a query ranks all documents except itself and its `exclusions`; a document
    without a judgement is not relevant. A `catalogue` is for metrics of what is recommended.

    Returns
    -------
    dict
        As `evaluate` does.
    """
    refuse_unscorable(model, data)
    if isinstance(data, JudgedLists):
        return evaluate(metrics, data, model.scores(data, kernel, threads), kernel, threads)
    matching = cast(MatchingModel, model)
    in_python = [m for m in metrics if not isinstance(m, RankedMetric)]
    measures = {m.spelled(): m.measure() for m in metrics if isinstance(m, RankedMetric)}
    run = (kernel, threads)
    values: Values = {}
    if measures:
        best = evaluate_top_k(matching, measures, data, kernel, threads, exclusions)
        values |= best or _evaluate_all(matching, measures, data, run, exclusions)
    if in_python:
        values |= _evaluate_in_python(matching, in_python, data, run, exclusions, catalogue)
    return {m.spelled(): values[m.spelled()] for m in metrics}


def _evaluate_all(
    model: MatchingModel,
    measures: dict[str, Measure],
    data: MatchingData,
    run: tuple[Kernel, int],
    exclusions: Pairs | None,
) -> Values:
    """Compute measures from the scores of all documents, block of queries by block."""
    blocks = [
        compute_metrics(measures, lists, *run)
        for lists, _ in _scored_blocks(model, data, run, exclusions)
    ]
    return {name: np.concatenate([block[name] for block in blocks]) for name in measures}


def _scored_blocks(
    model: MatchingModel, data: MatchingData, run: tuple[Kernel, int], exclusions: Pairs | None
) -> Iterator[tuple[ScoredLists, NDArray[np.int64]]]:
    """Yield blocks of queries with the scores of all documents, and the document of each row."""
    scorer = model.scorer(data, *run)
    # NumPy compares code points, and UTF-8 keeps their order: the order of strcmp.
    id_ranks = np.argsort(np.argsort(data.document_ids.astype(np.str_), kind="stable"))
    positions = np.arange(data.n_documents)
    for queries in query_blocks(data):
        scores = scorer(queries)
        candidates = _candidates(data, queries, exclusions)
        ranks = np.broadcast_to(id_ranks, scores.shape)[candidates]
        lists = ScoredLists(
            query_ids=data.query_ids[queries],
            group_ptr=np.concatenate(([0], np.cumsum(candidates.sum(axis=1)))),
            grades=grades(data, queries)[candidates],
            scores=scores[candidates],
            missing_ptr=np.zeros(queries.size + 1, np.int64),
            missing_grades=np.empty(0),
            id_ranks=ranks.__getitem__,
        )
        yield lists, np.broadcast_to(positions, scores.shape)[candidates]


def _evaluate_in_python(
    model: MatchingModel,
    metrics: Sequence[Metric],
    data: MatchingData,
    run: tuple[Kernel, int],
    exclusions: Pairs | None,
    catalogue: Catalogue | None,
) -> Values:
    """Compute metrics that Python defines, of queries that rank all documents.

    A metric of a plugin gets the documents of a block of queries as judged lists without features.
    """
    ordered = [m for m in metrics if isinstance(m, OrderedMetric)]
    others = [m for m in metrics if not isinstance(m, OrderedMetric)]
    parts: list[OrderedLists] = []
    values: dict[str, list[Floats]] = {m.spelled(): [] for m in others}
    depth = _depth(ordered)
    for lists, documents in _scored_blocks(model, data, run, exclusions):
        if ordered:
            parts.append(_first(ordered_lists(lists, None, documents, catalogue), depth))
        for metric in others:
            rows = _as_judged(lists, data, documents)
            values[metric.spelled()].append(_per_query(metric, rows, lists.scores))
    computed = compute_ordered(ordered, _join(parts)) if ordered else {}
    return computed | {name: np.concatenate(blocks) for name, blocks in values.items()}


def _depth(metrics: Sequence[OrderedMetric]) -> int:
    """Return the largest cut-off, or 0 if a metric looks at all ranks."""
    cutoffs = [getattr(metric, "k", None) for metric in metrics]
    return 0 if None in cutoffs else max((k for k in cutoffs if k is not None), default=0)


def _first(lists: OrderedLists, depth: int) -> OrderedLists:
    """Return the first ranks of lists; what follows joins the missing documents."""
    if not depth:
        return lists
    within = lists.ranks() <= depth
    later = ~within & (lists.grades != 0)
    return dataclasses.replace(
        lists,
        pointers=_pointers(lists.lists()[within], lists.size),
        grades=lists.grades[within],
        judged=lists.judged[within],
        documents=lists.documents[within],
        missing_pointers=_pointers(lists.lists()[later], lists.size),
        missing_grades=lists.grades[later],
    )


def _pointers(owners: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(np.bincount(owners, minlength=size))))


def _join(parts: Sequence[OrderedLists]) -> OrderedLists:
    """Join blocks of lists."""
    fields = ("grades", "judged", "documents", "missing_grades")
    joined = {name: np.concatenate([getattr(one, name) for one in parts]) for name in fields}
    for name in ("pointers", "missing_pointers"):
        sizes = np.concatenate([np.diff(getattr(one, name)) for one in parts])
        joined[name] = np.concatenate(([0], np.cumsum(sizes)))
    return OrderedLists(**joined, catalogue=parts[0].catalogue)


def _as_judged(lists: ScoredLists, data: MatchingData, documents: NDArray[np.int64]) -> JudgedLists:
    """Return a block of queries and all documents as judged lists without features."""
    queries = np.repeat(lists.query_ids, np.diff(lists.group_ptr))
    empty = sparse.csr_array((documents.size, 1))
    return JudgedLists(empty, lists.grades, queries, doc_ids=data.document_ids[documents])


def mean(values: Floats) -> float:
    """Return the mean over the queries that are not left out (NaN)."""
    counted = values[~np.isnan(values)]
    return float(counted.mean()) if counted.size else float("nan")


def _candidates(
    data: MatchingData, queries: NDArray[np.int64], exclusions: Pairs | None
) -> NDArray[np.bool_]:
    """Return which documents some queries rank, one row per query."""
    candidates = np.ones((queries.size, data.n_documents), np.bool_)
    if data.own_document is not None:
        candidates[np.arange(queries.size), data.own_document[queries]] = False
    if exclusions is not None:
        pointers, documents = exclusions
        for row, query in enumerate(queries.tolist()):
            candidates[row, documents[pointers[query] : pointers[query + 1]]] = False
    return candidates


def _per_query(metric: Metric, data: JudgedLists, scores: Floats) -> Floats:
    """Return the values of a metric in Python; check what a third-party metric returns."""
    try:
        values = metric.per_query(data, scores)
    except RankingError:
        raise
    except Exception as error:
        if ours(metric):
            raise
        refuse(described("metric", metric), "per_query", f"raised {type(error).__name__}: {error}")
    if not isinstance(values, np.ndarray) or values.shape != (data.n_queries,):
        shape = getattr(values, "shape", type(values).__name__)
        refuse(
            described("metric", metric),
            "per_query",
            f"answered {shape} where a number for each of {data.n_queries} queries was wanted",
        )
    return np.asarray(values, dtype=np.float64)


def _ranked_measures(metrics: Sequence[Metric], what: str) -> dict[str, Measure]:
    """Return what the kernel computes; refuse metrics that are not metrics of ranked lists."""
    for metric in metrics:
        if not isinstance(metric, RankedMetric):
            raise PartError(
                f"metric {metric.name!r} measures judged data, not {what}; leave it out."
            )
    return {m.spelled(): m.measure() for m in metrics if isinstance(m, RankedMetric)}


def _check_scores(data: JudgedLists, scores: Floats) -> Floats:
    values = np.asarray(scores)
    if values.shape != (data.n_rows,):
        raise DataError(f"scores: expected shape ({data.n_rows},), got {values.shape}.")
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise DataError(
            f"scores: row {row} (query {data.query_ids[data.row_groups[row]]}) is NaN and cannot "
            "be ranked; check the model that returned it."
        )
    return values


def query_blocks(data: RelevanceData) -> list[NDArray[np.int64]]:
    """Split the queries into blocks whose scores fit in memory."""
    size = max(BLOCK // data.n_documents, 1)
    return np.array_split(np.arange(data.n_queries), -(-data.n_queries // size))


def grades(data: RelevanceData, queries: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the grades of all documents for some queries, one row per query."""
    if data.labels is not None:
        same = data.labels[0][queries][:, None] == data.labels[1][None, :]
        same_class: NDArray[np.float64] = same.astype(np.float64)
        return same_class
    full: NDArray[np.float64] = data.relevance[queries].toarray().astype(np.float64)
    return full


def refuse_other_data(
    model: Model, data: JudgedLists | MatchingData, what: str = "the data"
) -> None:
    """Refuse data of a kind that a model does not take."""
    kind = "judged" if isinstance(data, JudgedLists) else "matching"
    if model.takes != kind:
        descriptions = {
            "judged": "rows of features judged for a query (LETOR)",
            "matching": "queries and documents with features or texts",
        }
        raise DataError(
            f"model {model.name!r} scores {descriptions[model.takes]}, and {what} are "
            f"{descriptions[kind]}; give it its kind of data, or take another model."
        )


def refuse_unscorable(model: Model, data: JudgedLists | MatchingData) -> None:
    """Refuse data of another kind, or whose features are all unknown: every score would be 0."""
    refuse_other_data(model, data)
    for side in ("query", "document"):
        known, new = (getattr(one, f"{side}_feature_ids", None) for one in (model, data))
        if known is not None and new is not None and known.size and not _share_ids(known, new):
            raise DataError(
                f"the data and model {model.name!r} share no {side} feature: here they are called "
                f"like {new[0]!s}, there like {known[0]!s}; give data with the features that the "
                "model was trained on."
            )


def _share_ids(known: Ids, new: Ids) -> bool:
    """Return whether an id is in both; a number and a text are never the same."""
    if np.array_equal(known, new):
        return True
    return known.dtype.kind == new.dtype.kind and bool(np.isin(new, known).any())
