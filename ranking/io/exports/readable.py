"""JSON of a whole model, for programs that score by themselves."""

from __future__ import annotations

import json
from typing import Any

from ranking.errors import CombinationError
from ranking.io.exports.content import Exportable, embeddings, linear_function
from ranking.models.bilinear import Bilinear
from ranking.models.linear import Linear

LARGEST_ENTRIES = 20_000_000
"""Numbers that fit into a JSON text which other programs can still read."""


def readable_json(source: Exportable, names: list[str] | None) -> str:
    """Return the parameters of a model as JSON: linear, bilinear or embeddings."""
    if isinstance(source.model, Linear):
        content = _linear(source, names)
    elif isinstance(source.model, Bilinear):
        content = _pairs(source.model)
    else:
        content = _embeddings(source)
    return json.dumps(content, ensure_ascii=False)


def _linear(source: Exportable, names: list[str] | None) -> dict[str, Any]:
    function = linear_function(source, names)
    parts = (function.names, *(one.tolist() for one in function[1:4]))
    return {
        "model": "linear",
        "score": "sum of weight * (value - center) / width",
        "value": "sign(x) * log(1 + abs(x))" if function.logarithm else "x",
        "features": [
            {"name": name, "weight": weight, "center": center, "width": width}
            for name, weight, center, width in zip(*parts, strict=True)
        ],
    }


def _pairs(model: Bilinear) -> dict[str, Any]:
    entries = model.weights.tocoo()
    _refuse_size(entries.nnz)
    queries, documents = model.query_feature_ids.tolist(), model.document_feature_ids.tolist()
    parts = (entries.coords[0].tolist(), entries.coords[1].tolist(), entries.data.tolist())
    return {
        "model": "bilinear",
        "score": "sum of weight * query value * document value",
        "weights": [
            [queries[row], documents[column], weight]
            for row, column, weight in zip(*parts, strict=True)
        ],
    }


def _embeddings(source: Exportable) -> dict[str, Any]:
    content = embeddings(source)
    _refuse_size(content.queries.size + content.documents.size)
    return {
        "model": "embeddings",
        "score": "dot product",
        **{
            side: [{"id": one, "embedding": row} for one, row in zip(ids, rows, strict=True)]
            for side, ids, rows in (
                ("queries", content.query_ids.tolist(), content.queries.tolist()),
                ("documents", content.document_ids.tolist(), content.documents.tolist()),
            )
        },
    }


def _refuse_size(count: int) -> None:
    if count > LARGEST_ENTRIES:
        raise CombinationError(
            f"the model has {count} numbers, and JSON is written for up to {LARGEST_ENTRIES}; "
            "export it to parquet or npy."
        )
