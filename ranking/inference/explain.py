"""Reading a bilinear model: which words like which, and what made a score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ranking.data.validation import Ids
from ranking.errors import DataError
from ranking.models.bilinear import Bilinear


class Related(NamedTuple):
    """A document feature and the weight that a query feature gives it."""

    feature: Any
    weight: float


class Contribution(NamedTuple):
    """A pair of features of a query and a document, and what it adds to their score."""

    query_feature: Any
    document_feature: Any
    weight: float
    query_value: float
    document_value: float
    contribution: float


def related(model: Bilinear, feature: Any, k: int = 5) -> list[Related]:
    """Return the k document features with the largest absolute weights for a query feature."""
    row = _place(model.query_feature_ids, feature)
    weights = model.weights
    part = slice(*weights.indptr[row : row + 2])
    columns, values = weights.indices[part], weights.data[part]
    # Of equal weights, the first column comes first.
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    ids = model.document_feature_ids[columns[order]].tolist()
    return [Related(name, float(value)) for name, value in zip(ids, values[order], strict=True)]


def contributions(model: Bilinear, query: Any, document: Any) -> list[Contribution]:
    """Return what each pair of features adds to q' W d, the largest absolute first.

    Parameters
    ----------
    query, document : csr_array of shape (1, features)
        With the columns of the model.
    """
    found = []
    weights = model.weights
    there = dict(zip(document.indices.tolist(), document.data.tolist(), strict=True))
    for row, q in zip(query.indices.tolist(), query.data.tolist(), strict=True):
        part = slice(*weights.indptr[row : row + 2])
        for column, w in zip(
            weights.indices[part].tolist(), weights.data[part].tolist(), strict=True
        ):
            if column in there:
                found.append(
                    Contribution(
                        model.query_feature_ids[row].item(),
                        model.document_feature_ids[column].item(),
                        w,
                        q,
                        there[column],
                        q * w * there[column],
                    )
                )
    return sorted(found, key=lambda one: -abs(one.contribution))


def _place(ids: Ids, feature: Any) -> int:
    """Return the row of a feature; one that is called by a number may be given as text."""
    wanted = str(feature)
    places = np.flatnonzero(ids.astype(np.str_) == wanted)
    if not places.size:
        close = [one for one in ids.astype(np.str_).tolist() if one.startswith(wanted[:3])][:5]
        hint = f"; there are {', '.join(close)}" if close else ""
        raise DataError(f"the model has no query feature {wanted!r}{hint}.")
    return int(places[0])
