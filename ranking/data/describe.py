"""Describe data in a few numbers, and find what may make them useless."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.judged_lists import JudgedLists
from ranking.data.kinds import Data
from ranking.data.matching_data import MatchingData
from ranking.data.relevance import RelevanceData
from ranking.data.scale import find_scales
from ranking.data.text_collection import TextCollection
from ranking.data.trec import Judgements
from ranking.data.validation import row_bytes

N_IDS = 3
"""Number of ids to show."""
MAX_GRADES = 12
"""Number of distinct grades above which a range is shown instead of a histogram."""


def describe_data(data: Data) -> dict[str, Any]:
    """Return a summary of the data: counts, grades, sparsity, the first ids, and warnings.

    ``"warnings"`` is a list of what may make them useless for training or evaluation, one sentence
    each.

    Examples
    --------
    >>> summary = describe_data(JudgedLists([[1.0], [2.0]], [1, 1], ["q", "q"]))
    >>> summary["grades"], summary["warnings"]
    ('1: 2', ['1 of 1 queries have one grade only'])
    """
    return {**_describe(data), "warnings": _find_problems(data)}


def _describe(data: Data) -> dict[str, Any]:
    if isinstance(data, JudgedLists):
        return {
            "kind": "judged lists",
            "rows": data.n_rows,
            "queries": data.n_queries,
            "features": data.n_features,
            "rows per query": _spread(np.diff(data.group_ptr)),
            "grades": _histogram(data.grades),
            "non-zero": _share(data.features),
            "largest values": _scales(data),
            "query ids": _first(data.query_ids),
            "document ids": _first(data.doc_ids),
        }
    if isinstance(data, RelevanceData):
        return _describe_relevance(data)
    judged = isinstance(data, Judgements)
    numbers = data.grades if isinstance(data, Judgements) else data.scores
    return {
        "kind": "judgements" if judged else "ranking",
        "rows": data.n_rows,
        "queries": data.n_queries,
        "rows per query": _spread(np.diff(data.group_ptr)),
        "grades" if judged else "scores": _histogram(numbers),
        "query ids": _first(data.query_ids),
        "document ids": _first(data.document_ids),
    }


def _describe_relevance(data: RelevanceData) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "kind": "texts" if isinstance(data, TextCollection) else "matching",
        "queries": data.n_queries,
        "documents": data.n_documents,
    }
    if isinstance(data, MatchingData):
        summary["query features"] = _width(data.queries, data.n_query_features)
        summary["document features"] = _width(data.documents, data.n_document_features)
    if isinstance(data, TextCollection):
        summary["characters per query"] = _spread(np.array([len(t) for t in data.query_texts]))
        summary["characters per document"] = _spread(
            np.array([len(t) for t in data.document_texts])
        )
    if data.labels is not None and data.classes is not None:
        summary["classes"] = data.classes.size
        summary["documents per class"] = _spread(
            np.bincount(data.labels[1], minlength=data.classes.size)
        )
    else:
        summary["judged pairs"] = int(data.relevance.nnz)
        summary["judged share"] = data.relevance.nnz / (data.n_queries * data.n_documents)
        summary["grades"] = _histogram(data.relevance.data)
    summary["relevant per query"] = _spread(data.n_relevant)
    if data.times is not None and data.times.size:
        summary["times"] = f"{data.times.min():.15g} to {data.times.max():.15g}"
    summary["query ids"] = _first(data.query_ids)
    summary["document ids"] = _first(data.document_ids)
    return summary


def _find_problems(data: Data) -> list[str]:
    """Return problems of the data for training or evaluation, one sentence each."""
    problems: list[str] = []

    def report(count: int, total: int, problem: str) -> None:
        if count:
            problems.append(f"{count} of {total} {problem}")

    if isinstance(data, JudgedLists):
        low = np.minimum.reduceat(data.grades, data.group_ptr[:-1])
        high = np.maximum.reduceat(data.grades, data.group_ptr[:-1])
        report(int((low == high).sum()), data.n_queries, "queries have one grade only")
        features = data.features
        if sparse.issparse(features):
            least, most = (bound.toarray().ravel() for bound in (features.min(0), features.max(0)))
        else:
            least, most = features.min(axis=0), features.max(axis=0)
        report(int((least == most).sum()), data.n_features, "features are constant")
        problems += filter(None, [find_scales(data).problem()])
        report(
            _repeats(data), data.n_rows, "rows repeat the features of another row of their query"
        )
    elif isinstance(data, RelevanceData):
        report(
            int((data.n_relevant == 0).sum()), data.n_queries, "queries have no relevant document"
        )
        if data.relevance is not None:
            seen = np.unique(data.relevance.indices).size
            report(data.n_documents - seen, data.n_documents, "documents are judged for no query")
        if isinstance(data, TextCollection):
            empty = sum(not text.strip() for text in data.document_texts)
            report(empty, data.n_documents, "documents have no text")
    elif isinstance(data, Judgements):
        best = np.maximum.reduceat(data.grades, data.group_ptr[:-1])
        report(int((best < 1).sum()), data.n_queries, "queries have no relevant document")
    return problems


def _repeats(data: JudgedLists) -> int:
    keys = row_bytes(data.features)
    return data.n_rows - len(set(zip(data.row_groups.tolist(), keys, strict=True)))


def _histogram(values: NDArray[Any]) -> str:
    distinct, counts = np.unique(values, return_counts=True)
    if distinct.size > MAX_GRADES:
        return f"{distinct[0]:g} to {distinct[-1]:g}, median {np.median(values):g}"
    return ", ".join(f"{value:g}: {count}" for value, count in zip(distinct, counts, strict=True))


def _spread(counts: NDArray[Any]) -> str:
    return f"{counts.min()} to {counts.max()}, median {np.median(counts):g}"


def _scales(data: JudgedLists) -> str:
    scales = find_scales(data)
    return (
        f"{scales.smallest:.3g} (feature {scales.of_smallest}) to {scales.largest:.3g} "
        f"(feature {scales.of_largest})"
    )


def _share(features: Any) -> float:
    stored = features.data if sparse.issparse(features) else features
    return float(np.count_nonzero(stored) / (features.shape[0] * features.shape[1]))


def _width(features: Any, width: int) -> str:
    if features is None:
        return f"{width}, one per row"
    kind = "sparse" if sparse.issparse(features) else "dense"
    return f"{width}, {kind}, non-zero {_share(features):.3g}"


def _first(ids: NDArray[Any]) -> str:
    short_ids = [str(one) if len(str(one)) <= 30 else str(one)[:30] + "..." for one in ids[:N_IDS]]
    return ", ".join(short_ids) + (", ..." if ids.size > N_IDS else "")
