"""Rank profiles and feeds for Vespa."""

from __future__ import annotations

import json
import re

from ranking.errors import DataError
from ranking.io.exports.content import Embeddings, LinearFunction

Files = dict[str, bytes]

FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def linear_profile(function: LinearFunction, name: str) -> Files:
    """Return a rank profile whose first phase is the linear function of attributes."""
    terms = []
    for feature, weight, center, width in zip(
        function.names, *(one.tolist() for one in function[1:4]), strict=True
    ):
        if not FIELD.fullmatch(feature):
            raise DataError(
                f"{feature!r} cannot be the name of a field in Vespa (letters, digits and _); give "
                "names with --names, one line per feature."
            )
        if weight:
            value = _value(f"attribute({feature})", function.logarithm)
            terms.append(f"{weight!r} * ({value} - {center!r}) / {width!r}")
    total = "\n            + ".join(terms) or "0"
    profile = (
        f"rank-profile {_profile_name(name)} {{\n"
        "    first-phase {\n"
        f"        expression {{\n            {total}\n        }}\n"
        "    }\n"
        "}\n"
    )
    return {f"{name}.profile": profile.encode()}


def _value(attribute: str, logarithm: bool) -> str:
    if not logarithm:
        return attribute
    return f"if ({attribute} < 0, 0 - log(1 - {attribute}), log(1 + {attribute}))"


def embedding_profile(content: Embeddings, name: str) -> Files:
    """Return a field, a rank profile, a feed of documents, and the tensors of queries."""
    kind = f"tensor<float>(x[{content.documents.shape[1]}])"
    schema = (
        f"field embedding type {kind} {{\n"
        "    indexing: attribute | summary\n"
        "    attribute { distance-metric: dotproduct }\n"
        "}\n\n"
        f"rank-profile {_profile_name(name)} {{\n"
        f"    inputs {{\n        query(embedding) {kind}\n    }}\n"
        "    first-phase {\n"
        "        expression: sum(query(embedding) * attribute(embedding))\n"
        "    }\n"
        "}\n"
    )
    documents = (
        {"update": f"id:{name}:{name}::{one}", "fields": {"embedding": {"assign": row}}}
        for one, row in zip(
            content.document_ids.tolist(),
            ({"values": row} for row in content.documents.tolist()),
            strict=True,
        )
    )
    queries = (
        {"id": one, "input.query(embedding)": {"values": row}}
        for one, row in zip(content.query_ids.tolist(), content.queries.tolist(), strict=True)
    )
    return {
        f"{name}.profile": schema.encode(),
        "documents.jsonl": _lines(documents),
        "queries.jsonl": _lines(queries),
    }


def _lines(rows: object) -> bytes:
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()  # type: ignore[attr-defined]


def _profile_name(name: str) -> str:
    if not FIELD.fullmatch(name):
        raise DataError(
            f"{name!r} cannot be the name of a rank profile in Vespa (letters, digits and _); give "
            "another with --name."
        )
    return name
