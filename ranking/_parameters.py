"""Parameters of `Ranker`: those of a recipe, and names that other libraries use for them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ranking.contracts.recipe import Recipe, Search
from ranking.data.inputs import OptionalSpec
from ranking.errors import PartError
from ranking.registry.manager import get_registry
from ranking.registry.names import (
    DIMENSIONS_NAMES,
    EPOCHS_NAMES,
    LEARNING_RATE_NAMES,
    STRENGTH_NAMES,
)
from ranking.registry.spec import parse_spec

FOREIGN_NAMES: Mapping[str, str] = {
    "seed": "random_state=",
    "random_seed": "random_state=",
    "observers": "callbacks=",
    "n_jobs": "threads=",
    "num_threads": "threads=",
    "n_threads": "threads=",
    "nthread": "threads=",
    "objective": "loss=",
    "penalty": "regularizer=",
    "optimizer": "solver=",
    **dict.fromkeys(LEARNING_RATE_NAMES, 'solver="sgd:learning_rate=..."'),
    "learning_rate": 'solver="sgd:learning_rate=..."',
    "learning_schedule": 'solver="sgd:schedule=..."',
    "epochs": 'solver="sgd:epochs=..."',
    **dict.fromkeys(EPOCHS_NAMES, 'solver="sgd:epochs=..."'),
    "max_iter": 'solver="coordinate:max_epochs=..."',
    **dict.fromkeys(DIMENSIONS_NAMES, 'model="factored:dimensions=..."'),
    "dimensions": 'model="factored:dimensions=..."',
    "max_sampled": 'loss="warp:max_trials=..."',
    **dict.fromkeys(STRENGTH_NAMES, 'regularizer="l2:strength=..."'),
    "verbose": 'callbacks=["progress"]',
}
"""Old and foreign names of parameters, and what to write instead."""


def recipe_parameters(name: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a ranker that trains a recipe, with some replaced."""
    recipe: Recipe = get_registry().create("recipe", name)
    params: dict[str, Any] = dict(recipe.parts)
    if "features" in params:
        params["features"] = OptionalSpec(params["features"])
    params["parameter_search"] = _search(recipe.search, overrides)
    return {**params, **overrides}


def _search(search: Search | None, overrides: Mapping[str, Any]) -> Search | None:
    """Return the search of a recipe, unless an override settles the parameter or has none."""
    if search is None or not _searchable(search, overrides):
        return None
    if search.outer is not None and search.outer.part in overrides:
        return dataclasses.replace(search, outer=None)
    return search


def _searchable(search: Search, overrides: Mapping[str, Any]) -> bool:
    if search.part not in overrides:
        return True
    part = overrides[search.part]
    if not isinstance(part, str):
        return False
    name, params = parse_spec(part)
    if search.parameter in params:
        return False
    try:
        created = get_registry().create(search.part, name)
    except PartError:
        return False
    return search.parameter in created.get_params()
