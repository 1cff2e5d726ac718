"""Explain a bilinear model: the weights of a feature, and the contributions to a score."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ranking.contracts.model import Model
from ranking.data.inputs import Documents, with_document_ids
from ranking.data.matching_data import MatchingData
from ranking.data.text.features import TextFeatures
from ranking.data.text.tokenise import words
from ranking.data.validation import Ids, take_columns
from ranking.errors import CombinationError, DataError
from ranking.models.bilinear import Bilinear
from ranking.models.item_item import ItemItem


class Related(NamedTuple):
    """A document feature and its weight for a query feature."""

    feature: Any
    weight: float


class Contribution(NamedTuple):
    """A pair of features of a query and a document, and its contribution to their score."""

    query_feature: Any
    document_feature: Any
    weight: float
    query_value: float
    document_value: float
    contribution: float


def related_features(
    model: Model, feature: Any, k: int, text: TextFeatures | None
) -> list[Related]:
    """Return what `related` does for any model and term, or say why it cannot."""
    if isinstance(model, ItemItem):
        return [Related(one.item, one.weight) for one in model.related(feature, k)]
    bilinear = _bilinear(model)
    if text is None or feature in text.query_feature_names:
        return related(bilinear, feature, k)
    if text.hashing:
        raise DataError(
            f"this model hashes words, so it has no word {feature!r}, only columns such as #0; "
            "train one without hashing to read it."
        )
    return related(bilinear, " ".join(words(str(feature))) or feature, k)


def explain_pair(
    model: Model, text: TextFeatures, documents: Documents | None, query: str, document: str
) -> list[Contribution]:
    """Return the contributions of the words of two texts, or of a text and a document's id."""
    bilinear = _bilinear(model)
    left = text.transform_queries([query])
    positions = (
        np.zeros(0, np.int64)
        if documents is None
        else np.flatnonzero(documents.ids.astype(np.str_) == document)
    )
    if documents is not None and positions.size:
        right = with_document_ids(text, documents.rows, documents.ids)[0][[int(positions[0])]]
    else:
        right = text.transform([document])
    for row, words_of in ((left, query), (right, document)):
        if not row.nnz:
            raise DataError(
                f"none of the words in {words_of!r} are in the vocabulary; use words of the "
                "training texts."
            )
    return contributions(bilinear, left, right)


def explain_features(
    model: Bilinear, data: MatchingData, row: int, column: int
) -> list[Contribution]:
    """Return the contributions of the features of a query and a document of the data."""
    query = take_columns(data.query_rows, data.query_feature_ids, model.query_feature_ids)
    document = take_columns(
        data.document_rows, data.document_feature_ids, model.document_feature_ids
    )
    return contributions(model, query[[row]], document[[column]])


def _bilinear(model: Model) -> Bilinear:
    if not isinstance(model, Bilinear):
        raise CombinationError(
            f"only bilinear and diagonal models can be explained, and this one is {model.name}; "
            "train model bilinear."
        )
    return model


def related(model: Bilinear, feature: Any, k: int = 5) -> list[Related]:
    """Return the k document features with the largest absolute weights for a query feature."""
    row = _position(model.query_feature_ids, feature)
    weights = model.weights
    part = slice(*weights.indptr[row : row + 2])
    columns, values = weights.indices[part], weights.data[part]
    # Of equal weights, the first column comes first.
    order = np.argsort(-np.abs(values), kind="stable")[:k]
    ids = model.document_feature_ids[columns[order]].tolist()
    return [Related(name, float(value)) for name, value in zip(ids, values[order], strict=True)]


def contributions(model: Bilinear, query: Any, document: Any) -> list[Contribution]:
    """Return the contribution of each pair of features to q' W d, the largest absolute first.

    Parameters
    ----------
    query, document : csr_array of shape (1, features)
        With the columns of the model.
    """
    pairs = []
    weights = model.weights
    values = dict(zip(document.indices.tolist(), document.data.tolist(), strict=True))
    for row, q in zip(query.indices.tolist(), query.data.tolist(), strict=True):
        part = slice(*weights.indptr[row : row + 2])
        for column, w in zip(
            weights.indices[part].tolist(), weights.data[part].tolist(), strict=True
        ):
            if column in values:
                pairs.append(
                    Contribution(
                        model.query_feature_ids[row].item(),
                        model.document_feature_ids[column].item(),
                        w,
                        q,
                        values[column],
                        q * w * values[column],
                    )
                )
    return sorted(pairs, key=lambda one: -abs(one.contribution))


def _position(ids: Ids, feature: Any) -> int:
    """Return the row of a feature; a number may be given as text."""
    name = str(feature)
    positions = np.flatnonzero(ids.astype(np.str_) == name)
    if not positions.size:
        close = [one for one in ids.astype(np.str_).tolist() if one.startswith(name[:3])][:5]
        hint = f"; there are {', '.join(close)}" if close else ""
        raise DataError(f"the model has no query feature {name!r}{hint}.")
    return int(positions[0])
