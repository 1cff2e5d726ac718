"""Describe one part: its parameters, with their defaults, constraints and meanings."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

from ranking.contracts.hooks import KINDS
from ranking.contracts.parameters import constraints
from ranking.contracts.recipe import Axis, Recipe, Search
from ranking.errors import PartError
from ranking.registry import names
from ranking.registry.manager import Entry, Registry, installed_sources

HIDDEN = ("kernel", "threads")
"""Parameters that a part gets from the training or the call, not from its spec."""

SECTION = r"^(?:Parameters|Attributes)\n-+\n(.*?)(?=\n\n\w[^\n]*\n-+\n|\Z)"
FIELD = r"^(\w[\w, ]*)[^\n]*\n((?:[ ]+[^\n]*(?:\n|\Z))*)"
"""A section of a numpydoc docstring, and the names and text of a parameter in it."""


class Parameter(NamedTuple):
    """A parameter of a part: its default as a spec has it, what it may be, and what it means."""

    name: str
    default: str
    allowed: str
    meaning: str


class PartDescription(NamedTuple):
    """A part and its parameters; the parameters of a recipe are its parts."""

    kind: str
    name: str
    origin: str
    version: str
    help: str
    parameters: list[Parameter]


def describe_part(name: str, *, load: bool = False) -> list[PartDescription]:
    """Describe the parts of a name, one per kind that has it.

    Parameters
    ----------
    name : str
        Such as ``"sgd"``; ``"auc"`` is a loss, a metric and a recipe.
    load : bool
        Whether to look among third-party plugins too, which imports them.

    Examples
    --------
    >>> [found.parameters[0].allowed for found in describe_part("max-norm")]
    ['a finite number > 0']
    """
    sources = installed_sources()
    registry = Registry(sources if load else [source for source in sources if source.ours])
    entries = [entry for entry in registry.entries() if entry.name == name]
    if not entries:
        raise PartError(_unknown(name, registry, load))
    return [_describe(entry) for entry in entries]


def _unknown(name: str, registry: Registry, load: bool) -> str:
    meant = [names.suggest_part(kind, name, registry.names(kind)) for kind in KINDS]
    near = list(dict.fromkeys(word for word in meant if word))
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    more = "" if load else " Parts of third-party plugins are found with --load (load=True)."
    return f"there is no part {name!r}; `ranking plugins` lists all.{hint}{more}"


def _describe(entry: Entry) -> PartDescription:
    factory = entry.load()
    if entry.kind == "recipe":
        recipe: Recipe = factory()
        parameters = [Parameter(part, spec, "", "") for part, spec in recipe.parts.items()]
        if recipe.search is not None:
            parameters.append(Parameter("search", *_search(recipe)))
    else:
        parameters = _parameters(factory)
    origin = (entry.distribution, entry.version, entry.help)
    return PartDescription(entry.kind, entry.name, *origin, parameters)


def _search(recipe: Recipe) -> tuple[str, str, str]:
    """Return what a recipe searches, the values, and the metric that decides."""
    search = recipe.search
    assert search is not None
    axes: list[Search | Axis] = [search] if search.outer is None else [search.outer, search]
    searched = " and ".join(f"{axis.part}:{axis.parameter}" for axis in axes)
    values = "; ".join(", ".join(f"{value:g}" for value in axis.values) for axis in axes)
    return searched, values, f"With validation data, the best by {search.metric}."


def _parameters(factory: Any) -> list[Parameter]:
    is_part = hasattr(factory, "__dataclass_fields__")
    rules = constraints(factory) if is_part else {}
    meanings = _meanings(factory)
    return [
        Parameter(
            each.name,
            _default(each.default),
            rules[each.name].describe() if each.name in rules else "",
            meanings.get(each.name, ""),
        )
        for each in inspect.signature(factory).parameters.values()
        if each.name not in HIDDEN
    ]


def _default(value: Any) -> str:
    """Return a default as a spec has it."""
    if value is inspect.Parameter.empty:
        return "required"
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _meanings(factory: Any) -> dict[str, str]:
    """Return the first sentence about each parameter in the docstrings of a class and its bases."""
    meanings: dict[str, str] = {}
    for owner in reversed(getattr(factory, "__mro__", (factory,))):
        doc = inspect.cleandoc(owner.__doc__ or "")
        for section in re.findall(SECTION, doc, re.M | re.S):
            for words, text in re.findall(FIELD, section, re.M):
                meaning = re.split(r"(?<=\.)\s", " ".join(text.split()), maxsplit=1)[0]
                meanings |= {word.strip(): meaning for word in words.split(",")}
    return meanings
