"""Evaluate scores, TREC runs and models: the one evaluator of the package."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

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
    return {
        m.spelled(): values[m.spelled()]
        if isinstance(m, RankedMetric)
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
    measures = _ranked_measures(metrics, "runs")
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
    for column in values.values():
        column[run.missing] = np.nan
    return values


def evaluate_model(
    model: Model,
    metrics: Sequence[Metric],
    data: JudgedLists | MatchingData,
    kernel: Kernel,
    threads: int = 1,
    exclusions: Pairs | None = None,
) -> Values:
    """Evaluate a model on judged lists, or on queries that each rank all documents.

    With `MatchingData`, a query ranks all documents except itself and its `exclusions`; a document
    without a judgement is not relevant.

    Returns
    -------
    dict
        As `evaluate` does.
    """
    refuse_unscorable(model, data)
    if isinstance(data, JudgedLists):
        return evaluate(metrics, data, model.scores(data, kernel, threads), kernel, threads)
    measures = _ranked_measures(metrics, "queries and documents")
    matching = cast(MatchingModel, model)
    best = evaluate_top_k(matching, measures, data, kernel, threads, exclusions)
    return best or _evaluate_all(matching, measures, data, kernel, threads, exclusions)


def _evaluate_all(
    model: MatchingModel,
    measures: dict[str, Measure],
    data: MatchingData,
    kernel: Kernel,
    threads: int,
    exclusions: Pairs | None,
) -> Values:
    """Compute measures from the scores of all documents, block of queries by block."""
    scorer = model.scorer(data, kernel, threads)
    # NumPy compares code points, and UTF-8 keeps their order: the order of strcmp.
    id_ranks = np.argsort(np.argsort(data.document_ids.astype(np.str_), kind="stable"))
    blocks: list[Values] = []
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
        blocks.append(compute_metrics(measures, lists, kernel, threads))
    return {name: np.concatenate([block[name] for block in blocks]) for name in measures}


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
