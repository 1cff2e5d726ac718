"""Which recipes fit some data, and which of their parameters to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ranking.contracts.model import Model
from ranking.contracts.part import Part
from ranking.contracts.recipe import Choice, Recipe, Search
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError
from ranking.io.schema import PARTS
from ranking.kernels.reference.random import random_uniform
from ranking.registry.manager import get_registry
from ranking.registry.spec import parse_spec

DRAWN: Mapping[str, float] = {
    "aggressiveness": 10.0,
    "density": 3.0,
    "dimensions": 2.0,
    "learning_rate": 10.0,
    "limit": 2.0,
    "num_leaves": 4.0,
    "strength": 10.0,
    "temperature": 3.0,
}
"""Parameters that are drawn at random if a recipe has no search, and the largest factor by which a
draw differs from the recipe's value."""

WHOLE = ("dimensions", "num_leaves")


def kind_of(data: Any) -> str:
    """Return "judged", "texts", "interactions" (ids only) or "features" (queries have some)."""
    if isinstance(data, JudgedLists):
        return "judged"
    if isinstance(data, TextCollection):
        return "texts"
    if isinstance(data, MatchingData):
        return "interactions" if data.queries is data.documents is None else "features"
    raise DataError(
        f"cannot train on a {type(data).__name__}; give JudgedLists, MatchingData or a "
        "TextCollection."
    )


def fitting_recipes(data: Any, names: Iterable[str] | None = None) -> dict[str, Recipe]:
    """Return the recipes that are made for data of this kind, by name.

    A training may still refuse the data, such as an embedding with more dimensions than there are
    items.

    Parameters
    ----------
    data : JudgedLists, MatchingData or TextCollection
    names : iterable of str, optional
        Only these, which need not be made for the data; by default all that are installed,
        each once if it has several names.
    """
    registry = get_registry()
    if names is not None:
        return {name: registry.create("recipe", name) for name in names}
    kind = kind_of(data)
    recipes: dict[str, Recipe] = {}
    for name in registry.names("recipe"):
        recipe = registry.create("recipe", name)
        if kind in kinds_of(recipe) and recipe not in recipes.values():
            recipes[name] = recipe
    return recipes


def kinds_of(recipe: Recipe) -> Sequence[str]:
    """Return the kinds of data that a recipe is made for, by its parts unless it says so.

    Linear models and trees are for judged rows. A recipe with text features is for texts. Users
    and items without features share nothing but embeddings, or the items of histories.
    """
    if recipe.data:
        return recipe.data
    model: type[Model] = get_registry().find("model", parse_spec(recipe.parts["model"]).name).load()
    if model.takes == "judged":
        return ("judged",)
    texts = ("texts",) if "features" in recipe.parts else ("features",)
    return {
        "matrix": texts,
        "factors": (*texts, "interactions"),
        "items": ("interactions",),
    }.get(model.form, ())


def trials(
    search: Search | None, parts: Mapping[str, Part], seed: int = 0
) -> Iterator[tuple[Choice, ...]]:
    """Yield what to set in each training of a search, after that of the defaults.

    The trials of a recipe's search come in random order, so that any first few of them spread over
    the whole; without a search, parameters are drawn around their values, for ever.

    Parameters
    ----------
    search : Search or None
        That of the recipe.
    parts : mapping
        The parts of the recipe by kind, with "auto" resolved.
    seed : int
    """
    if search is not None:
        stated = search.trials()
        for at in np.argsort(_uniform(seed, 0, len(stated)), kind="stable").tolist():
            yield stated[at]
        return
    drawn = _drawn_parameters(parts)
    for number in range(10**9 if drawn else 0):
        shares = _uniform(seed, number * len(drawn), len(drawn)).tolist()
        yield tuple(_draw(*one, share) for one, share in zip(drawn, shares, strict=True))


def _drawn_parameters(parts: Mapping[str, Part]) -> list[tuple[str, str, float | int]]:
    """Return kind, name and value of the parameters that are drawn."""
    parameters = []
    for kind in PARTS:
        part = parts[kind]
        values = {name: getattr(part, name) for name in part.parameter_names()}
        if values.get("density"):
            values.pop("strength", None)  # the density decides it
        for name, value in values.items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            whole = name in WHOLE and value == 1  # what has one dimension needs no other number
            if name in DRAWN and number and value > 0 and not whole and name not in part.idle():
                parameters.append((kind, name, value))
    return parameters


def _draw(kind: str, name: str, value: float | int, share: float) -> Choice:
    """Return a value between value / factor and value x factor, evenly in the logarithm."""
    drawn = value * DRAWN[name] ** (2.0 * share - 1.0)
    if name in WHOLE:
        return Choice(kind, name, max(round(drawn), 2))
    return Choice(kind, name, float(f"{min(drawn, 1.0) if name == 'density' else drawn:.4g}"))


def _uniform(seed: int, first: int, count: int) -> np.ndarray[Any, Any]:
    values = np.empty(count)
    random_uniform(seed % 2**64, first, values)
    return values
