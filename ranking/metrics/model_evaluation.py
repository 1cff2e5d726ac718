"""Metrics of a model: for judged rows, or for queries against all documents, block by block."""

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
from ranking.data.validation import Ids
from ranking.errors import DataError
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluate import Lists, Values, evaluate, measured, ranked_measures

if TYPE_CHECKING:
    from ranking.data.relevance import RelevanceData

BLOCK = 1 << 21
"""Scores that are held at a time."""


def measure(
    model: Model,
    metrics: Sequence[Metric],
    data: JudgedLists | MatchingData,
    kernel: Kernel,
    threads: int = 1,
    barred: Pairs | None = None,
) -> Values:
    """Measure a model.

    Of `MatchingData`, every query ranks all documents but itself, and but those that are `barred` for
    it; what nobody judged is not relevant.

    Returns
    -------
    dict
        The values of each metric by its spelled-out name, one a query in the order of
        ``data.query_ids``; NaN marks a skipped query.
    """
    refuse_unscorable(model, data)
    if isinstance(data, JudgedLists):
        return evaluate(metrics, data, model.scores(data, kernel, threads), kernel, threads)
    measures = ranked_measures(metrics, "queries against documents")
    scorer = cast(MatchingModel, model).scorer(data, kernel, threads)
    # NumPy compares code points, and UTF-8 keeps their order: the order of strcmp.
    id_ranks = np.argsort(np.argsort(data.document_ids.astype(np.str_), kind="stable"))
    parts: list[Values] = []
    for chosen in query_blocks(data):
        scores = scorer(chosen)
        kept = np.ones(scores.shape, np.bool_)
        if data.own_document is not None:
            kept[np.arange(chosen.size), data.own_document[chosen]] = False
        if barred is not None:
            pointers, documents = barred
            for row, query in enumerate(chosen.tolist()):
                kept[row, documents[pointers[query] : pointers[query + 1]]] = False
        place = np.broadcast_to(id_ranks, scores.shape)[kept]
        lists = Lists(
            query_ids=data.query_ids[chosen],
            group_ptr=np.concatenate(([0], np.cumsum(kept.sum(axis=1)))),
            grades=grades(data, chosen)[kept],
            scores=scores[kept],
            unfound_ptr=np.zeros(chosen.size + 1, np.int64),
            unfound_grades=np.empty(0),
            id_ranks=place.__getitem__,
        )
        parts.append(measured(measures, lists, kernel, threads))
    return {name: np.concatenate([part[name] for part in parts]) for name in measures}


def query_blocks(data: RelevanceData) -> list[NDArray[np.int64]]:
    """Cut the queries into blocks whose scores are few enough to be held."""
    size = max(BLOCK // data.n_documents, 1)
    return np.array_split(np.arange(data.n_queries), -(-data.n_queries // size))


def grades(data: RelevanceData, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the grades of all documents for some queries, a row a query."""
    if data.labels is not None:
        same = data.labels[0][chosen][:, None] == data.labels[1][None, :]
        same_class: NDArray[np.float64] = same.astype(np.float64)
        return same_class
    full: NDArray[np.float64] = data.relevance[chosen].toarray().astype(np.float64)
    return full


def refuse_other_data(
    model: Model, data: JudgedLists | MatchingData, what: str = "the data"
) -> None:
    """Refuse data of the kind that a model does not take."""
    kind = "judged" if isinstance(data, JudgedLists) else "matching"
    if model.takes != kind:
        wanted = {
            "judged": "rows of features judged for a query (LETOR)",
            "matching": "queries and documents with features or texts",
        }
        raise DataError(
            f"model {model.name!r} scores {wanted[model.takes]}, and {what} are {wanted[kind]}; "
            "give it its kind of data, or take another model."
        )


def refuse_unscorable(model: Model, data: JudgedLists | MatchingData) -> None:
    """Refuse data of another kind, or whose features are all unknown: every score would be 0."""
    refuse_other_data(model, data)
    for side in ("query", "document"):
        known, given = (getattr(one, f"{side}_feature_ids", None) for one in (model, data))
        if known is not None and given is not None and known.size and not _share(known, given):
            raise DataError(
                f"the data and model {model.name!r} share no {side} feature: here they are called "
                f"like {given[0]!s}, there like {known[0]!s}; give data with the features that the "
                "model was trained on."
            )


def _share(known: Ids, given: Ids) -> bool:
    """Say whether there is an id in both; a number and a text are never the same."""
    if np.array_equal(known, given):
        return True
    return known.dtype.kind == given.dtype.kind and bool(np.isin(given, known).any())
