"""Linear models for Elasticsearch LTR, OpenSearch LTR and Solr LTR."""

from __future__ import annotations

import json
from typing import Any

from ranking.io.exports.content import LinearFunction

SOLR = "org.apache.solr.ltr"


def elasticsearch_ltr(function: LinearFunction, name: str) -> str:
    """Return the body of ``POST _ltr/_featureset/SET/_createmodel`` as JSON.

    OpenSearch LTR, a fork, takes the same. The plugin sums in float32, in the order of the feature
    set; a feature without a weight counts 0.
    """
    function.refuse_logarithm("Elasticsearch LTR")
    model: dict[str, Any] = {"type": "model/linear"}
    if function.is_scaled:
        model["feature_normalizers"] = {
            feature: {"standard": {"mean": center, "standard_deviation": width}}
            for feature, center, width in zip(
                function.names, function.center.tolist(), function.width.tolist(), strict=True
            )
        }
    # The plugin wants a text that holds flat JSON.
    weights = dict(zip(function.names, function.weights.tolist(), strict=True))
    model["definition"] = json.dumps(weights, ensure_ascii=False)
    return json.dumps({"model": {"name": name, "model": model}}, indent=2, ensure_ascii=False)


def solr_ltr(function: LinearFunction, name: str) -> str:
    """Return the JSON for ``PUT schema/model-store``."""
    function.refuse_logarithm("Solr LTR")
    features: list[dict[str, Any]] = []
    parts = (function.names, function.center.tolist(), function.width.tolist())
    for feature, center, width in zip(*parts, strict=True):
        entry: dict[str, Any] = {"name": feature}
        if function.is_scaled:
            entry["norm"] = {
                "class": f"{SOLR}.norm.StandardNormalizer",
                "params": {"avg": repr(center), "std": repr(width)},
            }
        features.append(entry)
    weights = dict(zip(function.names, function.weights.tolist(), strict=True))
    model = {
        "class": f"{SOLR}.model.LinearModel",
        "name": name,
        "features": features,
        "params": {"weights": weights},
    }
    return json.dumps(model, indent=2, ensure_ascii=False)
