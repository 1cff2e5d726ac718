"""The OpenAPI description of the server, and a page for people."""

from __future__ import annotations

from typing import Any

ID = {"oneOf": [{"type": "string"}, {"type": "integer"}]}
K = {"type": "integer", "minimum": 1, "maximum": 10000, "default": 10}
MODEL = {"type": "string", "description": "The name of the model; not needed if there is one."}

DOCUMENTS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["id", "features"],
        "properties": {"id": ID, "features": {"type": ["object", "array"]}},
    },
}

REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "rank": (
        "Rank documents by their features, or the documents of a collection for a text.",
        {
            "query": {"type": "string"},
            "documents": DOCUMENTS,
        },
    ),
    "recommend": (
        "The best items for a user of the training data, or for a history of items.",
        {
            "user": ID,
            "history": {"type": "array", "items": ID},
            "exclude_seen": {"type": "boolean", "default": True},
        },
    ),
    "similar": ("The items that are most similar to an item.", {"item": ID}),
    "explain": (
        "The weights of a term, or the contributions to the score of two texts, of two ids, or of "
        "one of the documents with features.",
        {"term": {"type": "string"}, "query": ID, "document": ID, "documents": DOCUMENTS},
    ),
}


def openapi() -> dict[str, Any]:
    """Return the OpenAPI description."""
    paths: dict[str, Any] = {
        f"/{name}": {
            "post": {
                "summary": summary,
                "requestBody": {
                    "required": True,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "properties": {"model": MODEL, "k": K, **properties},
                            }
                        }
                    },
                },
                "responses": {
                    status: {"description": text}
                    for status, text in (
                        ("200", "Ids and scores, best first."),
                        ("400", "The error says what to change."),
                        ("401", "The token is missing or wrong."),
                        ("413", "The body is too long."),
                        ("503", "No answer in time."),
                    )
                },
            }
        }
        for name, (summary, properties) in REQUESTS.items()
    }
    for name, summary in (("health", "The models."), ("metrics", "Counts for Prometheus.")):
        paths[f"/{name}"] = {
            "get": {"summary": summary, "responses": {"200": {"description": "."}}}
        }
    return {"openapi": "3.1.0", "info": {"title": "ranking", "version": "1"}, "paths": paths}


PAGE = (
    "<!doctype html><html lang=en><meta charset=utf-8><title>ranking</title>"
    "<style>body{font:16px/1.5 system-ui;max-width:40em;margin:2em auto;padding:0 1em}"
    "code{background:#8882;padding:.1em .3em}:root{color-scheme:light dark}</style>"
    "<h1>ranking serve</h1><ul>"
    + "".join(
        f"<li><code>POST /{name}</code> {summary} Fields: "
        + ", ".join(f"<code>{one}</code>" for one in ("model", "k", *properties))
        for name, (summary, properties) in REQUESTS.items()
    )
    + "<li><code>GET /health</code> The models.<li><code>GET /metrics</code> For Prometheus."
    "<li><a href=/openapi.json>openapi.json</a></ul></html>"
)
