"""Answer requests: from a JSON body to ranked ids and scores."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeGuard

import numpy as np

from ranking import JudgedLists, Ranker

MOST = 10_000
"""The largest k, and the largest number of documents of one request."""

NUMBERS = frozenset({int, float})
"""Types of numbers in JSON; that of truth values is another."""

Body = Mapping[str, Any]


class RequestError(Exception):
    """A request that cannot be answered; the message says what to change."""


def rank(ranker: Ranker, body: Body) -> dict[str, Any]:
    """Rank documents by their features, or the documents of a collection for a text."""
    if "query" in body:
        query = _text(body, "query")
        results = ranker.search([query], _count(body))
        return {"results": _pairs(results[query])}
    documents = _listed(body)
    data = _judged(ranker, documents)
    results = ranker.rank(data, _count(body, default=len(documents)))
    names = [document["id"] for document in documents]
    return {"results": _pairs((names[int(at)], score) for at, score in next(iter(results))[1])}


def _listed(body: Body) -> list[Any]:
    """Return the documents of a request."""
    documents = body.get("documents")
    if not isinstance(documents, list) or not 0 < len(documents) <= MOST:
        raise RequestError(
            f"give query (a text), or documents: a list of 1 to {MOST} objects of id and features."
        )
    return documents


def _explain_row(ranker: Ranker, body: Body) -> list[Any]:
    """Return what made the score of one of the documents with features."""
    documents, document = _listed(body), _id(body, "document")
    data = _judged(ranker, documents)
    places = [at for at, one in enumerate(documents) if one["id"] == document]
    if not places:
        raise RequestError(f"document is {document!r}, which is none of the documents.")
    return ranker.explain(data.query_ids[0].item(), str(places[0]), data)


def _judged(ranker: Ranker, documents: list[Any]) -> JudgedLists:
    """Return documents with features as judged rows of one query, named by their positions."""
    ids = getattr(ranker.model_, "feature_ids", None)
    if ids is None:
        raise RequestError(
            "this model takes no features of documents; give query, or call /recommend."
        )
    names = getattr(ranker, "feature_names_in_", None)
    column = {str(name): at for at, name in enumerate(ids.tolist() if names is None else names)}
    rows = np.zeros((len(documents), len(column)))
    for at, document in enumerate(documents):
        if not isinstance(document, dict) or not _is_id(document.get("id")):
            raise RequestError(
                f"documents[{at}] must be an object with id (a text or a whole number) and "
                "features."
            )
        _fill(rows[at], document.get("features"), column, f"documents[{at}].features")
    zeros = np.zeros(len(documents))
    positions = np.arange(len(documents))
    return JudgedLists(rows, zeros, zeros.astype(np.int64), doc_ids=positions, feature_ids=ids)


def _fill(row: Any, features: Any, column: Mapping[str, int], where: str) -> None:
    """Write features into a row: a list of all, or an object by name; missing ones are 0."""
    if isinstance(features, list) and len(features) == row.size:
        at: Any = slice(None)
        values = features
    elif isinstance(features, dict):
        unknown = [name for name in features if name not in column]
        if unknown:
            raise RequestError(f"{where} has the unknown feature {unknown[0]!r}.")
        at, values = [column[name] for name in features], list(features.values())
    else:
        raise RequestError(f"{where} must be a list of {row.size} numbers, or an object by name.")
    if not NUMBERS.issuperset(map(type, values)):
        wrong = next(value for value in values if type(value) not in NUMBERS)
        raise RequestError(f"{where} has {wrong!r}; features are numbers.")
    try:
        row[at] = values
    except OverflowError:  # a whole number
        row[at] = np.inf
    if not np.isfinite(row).all():
        raise RequestError(f"{where} has a number beyond those of double precision.")


def recommend(ranker: Ranker, body: Body) -> dict[str, Any]:
    """Return the best items for a user of the training data, or for a history of items."""
    if "history" in body:
        return _fold_in(ranker, body)
    user = _id(body, "user")
    exclude = body.get("exclude_seen", True)
    if not isinstance(exclude, bool):
        raise RequestError("exclude_seen must be true or false.")
    results = ranker.recommend([user], _count(body), exclude_seen=exclude)
    return {"results": _pairs(results[user])}


def _fold_in(ranker: Ranker, body: Body) -> dict[str, Any]:
    """Return the best items for a user who is not in the training data, by what they have."""
    history = body["history"]
    known = isinstance(history, list) and 0 < len(history) <= MOST
    if not known or not all(type(item) in (str, int) for item in history):
        raise RequestError(f"history must be a list of 1 to {MOST} ids of items.")
    if "user" in body:
        raise RequestError("give user or history, not both.")
    return {"results": _pairs(ranker.recommend_for(history, _count(body)))}


def similar(ranker: Ranker, body: Body) -> dict[str, Any]:
    """Return the items that are most similar to an item."""
    item = _id(body, "item")
    return {"results": _pairs(ranker.similar_items([item], _count(body))[item])}


def explain(ranker: Ranker, body: Body) -> dict[str, Any]:
    """Return the weights of a term, or the contributions to the score of a pair of texts."""
    if "term" in body:
        related = ranker.related_features(_text(body, "term"), _count(body, default=5))
        return {"related": [{"term": str(one), "weight": float(weight)} for one, weight in related]}
    if "documents" in body:
        entries = _explain_row(ranker, body)
    elif "query" in body and "document" in body:
        read = _id if ranker.text_ is None else _text
        entries = ranker.explain(read(body, "query"), read(body, "document"))
    else:
        raise RequestError("give term, query and document, or documents and document.")
    return {
        "score": float(sum(entry.contribution for entry in entries)),
        "contributions": [
            {
                "query": str(entry.query_feature),
                "document": str(entry.document_feature),
                "contribution": float(entry.contribution),
            }
            for entry in entries[: _count(body, default=20)]
        ],
    }


def _id(body: Body, name: str) -> str | int:
    value = body.get(name)
    if not _is_id(value):
        raise RequestError(f"give {name}: an id of the training data, a text or a whole number.")
    return value


def _is_id(value: Any) -> TypeGuard[str | int]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _text(body: Body, name: str) -> str:
    if not isinstance(body[name], str):
        raise RequestError(f"{name} must be a text.")
    return str(body[name])


def _count(body: Body, default: int = 10) -> int:
    k = body.get("k", default)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= MOST:
        raise RequestError(f"k is {k!r}; it must be a whole number from 1 to {MOST}.")
    return k


def _pairs(best: Iterable[tuple[Any, float]]) -> list[dict[str, Any]]:
    best = list(best)
    if not all(math.isfinite(score) for _, score in best):
        raise RequestError("a score is not finite; the features are too large for this model.")
    return [{"id": one, "score": score} for one, score in best]


ANSWERS = {"rank": rank, "recommend": recommend, "similar": similar, "explain": explain}
"""What each path answers."""
