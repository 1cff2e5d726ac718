"""Describe a training for its model file: resolved parts, plugins, kernel and data sizes."""

from __future__ import annotations

import functools
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ranking.data.matching_data import MatchingData
from ranking.io.schema import PARTS, SCHEMA_VERSION
from ranking.registry.origin import origin
from ranking.registry.security import OURS, canonical

if TYPE_CHECKING:
    from ranking.training.trainer import Trainer


def describe(trainer: Trainer) -> dict[str, Any]:
    """Return what a model file says about a training, as JSON values."""
    parts = {}
    for kind, spec in trainer.resolved_specs().items():
        distribution, version = origin(kind, getattr(trainer, kind))
        parts[kind] = {"spec": spec, "distribution": distribution, "version": version}
    return {
        "schema_version": SCHEMA_VERSION,
        "ranking": _version(),
        "parts": parts,
        "plugins": _plugins(trainer),
        "kernel": {"name": trainer.kernel.name, "version": trainer.kernel.version},
        "training": {**_sizes(trainer), "seed": trainer.seed, "stopped": trainer.stopped},
        **trainer.solver.notes(),
    }


def _plugins(trainer: Trainer) -> dict[str, dict[str, Any]]:
    """Return the third-party distributions that took part, with version and parts."""
    used = [(kind, getattr(trainer, kind)) for kind in PARTS]
    used += [("callback", callback) for callback in trainer.callbacks]
    plugins: dict[str, dict[str, Any]] = {}
    for kind, part in used:
        distribution, version = origin(kind, part)
        if version and canonical(distribution) not in OURS:
            plugin = plugins.setdefault(distribution, {"version": version, "parts": []})
            plugin["parts"].append(f"{kind} {part.name}")
    return plugins


@functools.cache
def _version() -> str:
    """Return the version of this package; cached, because reading it for each fit is slow."""
    return metadata.version("ranking-kit")


def _sizes(trainer: Trainer) -> dict[str, int]:
    """Return the sizes of the training data."""
    data = trainer.data
    if isinstance(data, MatchingData):
        return {
            "queries": data.n_queries,
            "documents": data.n_documents,
            "query features": data.n_query_features,
            "features": data.n_document_features,
        }
    return {"rows": data.n_rows, "queries": data.n_queries, "features": data.n_features}
