"""What the explorer shows, as JSON values: queries, lists, grades, reasons, slices and a map."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking import Evaluation, JudgedLists, MatchingData, Ranker, RankingError, TextCollection

MOST_POINTS = 1500
"""Documents on the map."""

REASONS = 4
SCORE_DIGITS = 5


@dataclasses.dataclass(frozen=True)
class Shown:
    """How much the page shows.

    Attributes
    ----------
    metric : str
    k : int
        The length of the lists.
    queries : int
        The most queries; those on which models differ most come first.
    titles : dict
        Titles of documents by id, as text.
    """

    metric: str
    k: int
    queries: int
    titles: dict[str, str]


def explorer_content(rankers: dict[str, Ranker], data: Any, shown: Shown) -> dict[str, Any]:
    """Return the content of the page.

    Parameters
    ----------
    rankers : dict of Ranker
        One or two, by name.
    data : JudgedLists, MatchingData or TextCollection
    shown : Shown
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluations = [
            one.evaluate(data, metrics=[shown.metric], exclude=_training(one, data))
            for one in rankers.values()
        ]
        selected = _choose(evaluations, shown)
        part = data.select(selected)
        lists = [_lists(one, part, shown.k) for one in rankers.values()]
        names = _documents(lists)
        slices = _slices(next(iter(rankers.values())), data)
        content: dict[str, Any] = {
            "models": list(rankers),
            "metric": shown.metric,
            "means": [round(one.mean(shown.metric), 4) for one in evaluations],
            "total": len(evaluations[0]),
            "maxGrade": _largest_grade(data),
            "slices": _slice_means(slices, evaluations, shown.metric),
            "documents": _titles(names, data, shown),
            "queries": [],
            "map": _map(rankers, data, names),
        }
        grades = _grades(part)
        reasons: set[str] = set()
        for at, query in enumerate(part.query_ids.tolist()):
            row = int(selected[at])
            content["queries"].append(
                {
                    "id": str(query),
                    "title": _query_title(data, row),
                    "values": [_number(one[shown.metric][row]) for one in evaluations],
                    "slices": [name for name, mask in slices.items() if mask[row]],
                    "grades": {str(k): v for k, v in grades[at].items()},
                    "lists": [
                        _list(ranker, part, query, ranked[at])
                        for ranker, ranked in zip(rankers.values(), lists, strict=True)
                    ],
                }
            )
            for ranked in content["queries"][-1]["lists"]:
                reasons.update(name for one in ranked for name, _ in one["why"])
        content["documents"] |= {n: shown.titles[n] for n in reasons if n in shown.titles}
    return content


def _choose(evaluations: Sequence[Evaluation], shown: Shown) -> NDArray[np.int64]:
    """Return the queries to show: those with values, of which the models differ most."""
    values = [one[shown.metric] for one in evaluations]
    difference = np.abs(values[-1] - values[0]) if len(values) > 1 else 1.0 - values[0]
    counted = np.flatnonzero(~np.isnan(difference))
    order = counted[np.argsort(-difference[counted], kind="stable")]
    return np.sort(order[: shown.queries])


def _lists(ranker: Ranker, part: Any, k: int) -> list[list[tuple[Any, float]]]:
    results = ranker.rank(part, k, exclude=_training(ranker, part))
    return [list(results[query]) for query in part.query_ids.tolist()]


def _training(ranker: Ranker, data: Any) -> MatchingData | None:
    """Return what users have in the training data, which is not recommended again."""
    seen = ranker.seen_
    if isinstance(data, JudgedLists) or seen is None or seen.positives is None:
        return None
    positives = seen.positives.astype(np.float64)
    return seen.data(np.arange(seen.user_ids.size))._replace(relevance=positives)


def _documents(lists: Iterable[Any]) -> list[str]:
    """Return the ids of all documents of the lists, each once."""
    ids = {str(document): None for results in lists for one in results for document, _ in one}
    return list(ids)


def _list(ranker: Ranker, part: Any, query: Any, ranked: Any) -> list[dict[str, Any]]:
    return [
        {
            "d": str(document),
            "s": float(f"{score:.{SCORE_DIGITS}g}"),
            "why": _reasons(ranker, part, query, document),
        }
        for document, score in ranked
    ]


def _reasons(ranker: Ranker, part: Any, query: Any, document: Any) -> list[list[Any]]:
    """Return the largest contributions to a score; none if the model cannot tell."""
    try:
        if isinstance(part, TextCollection):
            words = part.query_texts[part.query_ids.tolist().index(query)]
            entries = ranker.explain(words, str(document))
        elif isinstance(part, MatchingData) and ranker.seen_ is not None and ranker.seen_.by_id:
            entries = ranker.explain(query, document)
        else:
            entries = ranker.explain(query, document, part)
    except RankingError:
        return []
    judged = isinstance(part, JudgedLists)
    by_pair = [
        (
            str(one.document_feature)
            if judged
            else str(one.query_feature)
            if str(one.document_feature) == str(document)
            else f"{one.query_feature} × {one.document_feature}",
            one.contribution,
        )
        for one in entries[:REASONS]
    ]
    return [[name, float(f"{value:.3g}")] for name, value in by_pair]


def _grades(part: Any) -> list[dict[Any, float]]:
    """Return the grades of the judged documents of each query."""
    grades_of_lists = []
    for row in range(part.n_queries):
        if isinstance(part, JudgedLists):
            rows = slice(*part.group_ptr[row : row + 2].tolist())
            grades_of_lists.append(
                dict(zip(part.doc_ids[rows].tolist(), part.grades[rows].tolist(), strict=True))
            )
        elif part.relevance is None:
            grades_of_lists.append(
                {part.document_ids[at].item(): 1.0 for at in part.relevant(row)[:500]}
            )
        else:
            at = slice(*part.relevance.indptr[row : row + 2].tolist())
            ids = part.document_ids[part.relevance.indices[at]].tolist()
            grades_of_lists.append(
                dict(zip(ids, part.relevance.data[at].astype(float).tolist(), strict=True))
            )
    return grades_of_lists


def _largest_grade(data: Any) -> int:
    if isinstance(data, JudgedLists):
        largest = float(data.grades.max(initial=1.0))
    elif data.relevance is None:
        largest = 1.0
    else:
        largest = float(data.relevance.data.max(initial=1.0))
    return int(min(max(np.ceil(largest), 1), 9))


def _slices(ranker: Ranker, data: Any) -> dict[str, NDArray[np.bool_]]:
    """Return which queries are rare, new or long.

    Of users: few, no or many items in the training data. Of texts: few judged documents, or many
    words. Of judged lists: few relevant documents, or many documents.
    """
    seen = ranker.seen_
    if isinstance(data, MatchingData) and seen is not None and seen.positives is not None:
        counts = dict(
            zip(seen.user_ids.tolist(), np.diff(seen.positives.indptr).tolist(), strict=True)
        )
        sizes = np.array([counts.get(one, 0) for one in data.query_ids.tolist()])
        known = sizes[sizes > 0]
        low, high = np.quantile(known, [0.25, 0.75]) if known.size else (0.0, 0.0)
        return {"new": sizes == 0, "rare": (sizes > 0) & (sizes <= low), "long": sizes > high}
    if isinstance(data, JudgedLists):
        lengths = np.diff(data.group_ptr)
        relevant = np.add.reduceat((data.grades > 0).astype(float), data.group_ptr[:-1])
    else:
        relevant = data.n_relevant
        texts = data.query_texts if isinstance(data, TextCollection) else [""] * data.n_queries
        lengths = np.array([len(text.split()) for text in texts])
    few, long = np.quantile(relevant, 0.25), np.quantile(lengths, 0.75)
    return {"rare": np.asarray(relevant <= few), "long": np.asarray(lengths > long)}


def _slice_means(
    slices: dict[str, NDArray[np.bool_]], evaluations: Sequence[Evaluation], metric: str
) -> list[dict[str, Any]]:
    rows = []
    for name, mask in {"all": np.ones(len(evaluations[0]), np.bool_), **slices}.items():
        values = [one[metric][mask] for one in evaluations]
        counted = [column[~np.isnan(column)] for column in values]
        means = [_number(column.mean()) if column.size else None for column in counted]
        rows.append({"name": name, "n": int(mask.sum()), "means": means})
    return rows


def _titles(names: Sequence[str], data: Any, shown: Shown) -> dict[str, str]:
    titles = dict(shown.titles)
    if isinstance(data, TextCollection):
        texts = zip(data.document_ids.astype(str).tolist(), data.document_texts, strict=True)
        titles |= {name: " ".join(text.split())[:160] for name, text in texts}
    return {name: titles.get(name, "") for name in names}


def _query_title(data: Any, row: int) -> str:
    return data.query_texts[row][:200] if isinstance(data, TextCollection) else ""


def _map(rankers: dict[str, Ranker], data: Any, names: Sequence[str]) -> list[list[Any]]:
    """Return the two main directions of the documents' embeddings, or of their features."""
    wanted = set(names)
    if isinstance(data, JudgedLists):
        ids, vectors = data.doc_ids.astype(str), data.features
        vectors = vectors.toarray() if hasattr(vectors, "toarray") else vectors
    else:
        for ranker in rankers.values():
            try:
                ids, vectors = ranker.document_embeddings(data)
                break
            except RankingError:
                continue
        else:
            return []
        ids = ids.astype(str)
    first = [at for at, name in enumerate(ids.tolist()) if name in wanted]
    others = np.setdiff1d(np.arange(ids.size), first)
    places = np.array([*first, *others[: max(MOST_POINTS - len(first), 0)]][:MOST_POINTS])
    points = np.asarray(vectors, dtype=np.float64)[places]
    points = points - points.mean(axis=0)
    scale = points.std(axis=0)
    points = points / np.where(scale > 0, scale, 1.0)
    left, values, _ = np.linalg.svd(points, full_matrices=False)
    flat = np.zeros((places.size, 2))
    flat[:, : min(2, values.size)] = (left * values)[:, :2]
    largest = np.abs(flat).max(initial=1e-12)
    return [
        [str(ids[at]), round(float(x), 3), round(float(y), 3)]
        for at, (x, y) in zip(places.tolist(), flat / largest, strict=True)
    ]


def _number(value: float) -> float | None:
    return None if np.isnan(value) else round(float(value), 4)
