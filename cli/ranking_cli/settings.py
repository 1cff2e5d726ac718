"""The settings of a training and their sources: flags, then the TOML file, then the recipe."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import click

from ranking.contracts import Axis, Recipe, Search
from ranking.errors import PartError
from ranking.registry import get_registry, parse_spec

PARTS = ("features", "model", "loss", "regularizer", "solver")
PART_DEFAULTS = {"regularizer": "none"}
"""Defaults of parts that are not \"auto\"."""

CHOICES = ("reader", "valid-reader", "scale", "kernel", "engine", "threads", "seed", "metrics")
RANGES = {"threads": (1, 1024), "seed": (0, 2**64 - 1)}
DEFAULTS: dict[str, Any] = {
    "reader": "auto",
    "valid-reader": "auto",
    "scale": None,
    "kernel": "auto",
    "engine": "local",
    "threads": 1,
    "seed": 0,
    "metrics": "map,pair-error",
}


class Setting(NamedTuple):
    """A value and its source: flag, file, recipe or default."""

    value: Any
    source: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a training, and the search of its recipe, if that applies."""

    values: dict[str, Setting]
    search: Search | None

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting."""
        return self.values[name].value

    def is_explicit(self, name: str) -> bool:
        """Say whether the user set it, by a flag or in the file."""
        return self.values[name].source not in ("default", "recipe")

    def features_for(self, texts: bool) -> str | None:
        """Return the spec of the text features; a recipe's spec applies to texts only."""
        value, source = self.values["features"]
        return None if value == "auto" or (source == "recipe" and not texts) else str(value)

    def rows(self) -> list[dict[str, str]]:
        """Return one row per setting, for --dry-run."""
        rows = [
            {"setting": name, "value": _text(value), "from": source}
            for name, (value, source) in self.values.items()
        ]
        if self.search is not None:
            axes: list[Axis | Search] = [self.search]
            if self.search.outer is not None:
                axes.insert(0, self.search.outer)
            for axis in axes:
                values = ", ".join(f"{value:g}" for value in axis.values)
                text = f"{axis.part}:{axis.parameter} of {values} by {self.search.metric}"
                rows.append({"setting": "search", "value": text, "from": "recipe"})
        return rows


def read_config(path: Path | None) -> dict[str, Any]:
    """Read the TOML file; its keys are the names of the long options."""
    if path is None:
        return {}
    try:
        config = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path} is not TOML: {error}.") from error
    known = {*PARTS, *CHOICES, "recipe", "valid"}
    unknown = sorted(set(config) - known)
    if unknown:
        raise click.UsageError(
            f"{path} has unknown settings {', '.join(unknown)}; "
            f"known are {', '.join(sorted(known))}."
        )
    for name, value in config.items():
        valid, expected = _check(name, value)
        if not valid:
            raise click.UsageError(f"{path} has {name} = {value!r}; it must be {expected}.")
    return config


def _check(name: str, value: Any) -> tuple[bool, str]:
    """Say whether a value of the file is one that the flag would take, and what it takes."""
    if name in RANGES:
        low, high = RANGES[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and low <= value <= high, f"a whole number from {low} to {high}"
    if name == "valid" and isinstance(value, list):
        return all(isinstance(path, str) for path in value), "a path or a list of paths"
    return isinstance(value, str), "a text in quotes"


def resolve_settings(flags: dict[str, Any], config: dict[str, Any], config_name: str) -> Settings:
    """Resolve every setting; `flags` holds None for flags that were not used."""
    explicit = {name: Setting(value, f"file {config_name}") for name, value in config.items()}
    explicit |= {
        name.replace("_", "-"): Setting(value, "flag")
        for name, value in flags.items()
        if value is not None
    }
    recipe_name = explicit.pop("recipe", Setting(None, "default"))
    recipe = Recipe(parts={})
    if recipe_name.value is not None:
        recipe = get_registry().create("recipe", recipe_name.value)
    elif "loss" not in explicit:
        names = ", ".join(get_registry().names("recipe"))
        raise click.UsageError(f"give --recipe NAME ({names}) or --loss SPEC.")

    values = {"recipe": recipe_name}
    for part in PARTS:
        default = Setting(PART_DEFAULTS.get(part, "auto"), "default")
        if part in recipe.parts:
            default = Setting(recipe.parts[part], "recipe")
        values[part] = explicit.get(part, default)
    for name in CHOICES:
        values[name] = explicit.get(name, Setting(DEFAULTS[name], "default"))
    valid = explicit.get("valid", Setting((), "default"))
    if isinstance(valid.value, str):
        valid = Setting((valid.value,), valid.source)
    values["valid"] = valid
    values["valid-reader"] = _valid_reader(values)
    return Settings(values, _search(recipe.search, values))


def _valid_reader(values: dict[str, Setting]) -> Setting:
    reader, explicit = values["reader"], values["valid-reader"]
    if explicit.source != "default":
        return explicit
    if values["valid"].value:
        check_shared_reader(reader.value)
    return reader


def check_shared_reader(reader: str) -> None:
    """Refuse to read --valid by the reader of DATA if that selects a split.

    Other options, such as tables of features, are shared.
    """
    spec = parse_spec(reader)
    if "split" in spec.params:
        raise click.UsageError(
            f"--reader {reader} selects the split of DATA; also name the split of --valid: "
            f"--valid-reader {spec.name}:split=NAME."
        )


def _search(search: Search | None, values: dict[str, Setting]) -> Search | None:
    """Return the search of the recipe as far as the settings leave it open."""
    if search is None or not values["valid"].value or not _is_open(search, values):
        return None
    if search.outer is not None and values[search.outer.part].source != "recipe":
        return dataclasses.replace(search, outer=None)
    return search


def _is_open(search: Search, values: dict[str, Setting]) -> bool:
    """Say whether the searched parameter exists and the user did not set it."""
    value, source = values[search.part]
    name, params = parse_spec(value)
    if source != "recipe" and search.parameter in params:
        return False
    try:
        part = get_registry().create(search.part, name)
    except PartError:
        return False
    return search.parameter in part.get_params()


def _text(value: Any) -> str:
    """Return a setting as a user would write it."""
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
