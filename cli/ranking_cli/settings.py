"""Where each setting of a training comes from: flags, then the TOML file, then the recipe."""

from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import click

from ranking.contracts.recipe import Axis, Recipe, Search
from ranking.errors import PartError
from ranking.registry import get_registry, parse_spec

PARTS = ("features", "model", "loss", "regularizer", "solver")
FALLBACKS = {"regularizer": "none"}
"""Parts that are not \"auto\" if nobody names them."""

CHOICES = ("reader", "kernel", "engine", "threads", "seed", "metrics")
RANGES = {"threads": (1, 1024), "seed": (0, 2**64 - 1)}
DEFAULTS: dict[str, Any] = {
    "reader": "auto",
    "kernel": "auto",
    "engine": "local",
    "threads": 1,
    "seed": 0,
    "metrics": "map,pair-error",
}


class Setting(NamedTuple):
    """A value and whence it comes."""

    value: Any
    whence: str


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings of a training, and the search of its recipe, if that applies."""

    values: dict[str, Setting]
    search: Search | None

    def __getitem__(self, name: str) -> Any:
        """Return the value of a setting."""
        return self.values[name].value

    def given(self, name: str) -> bool:
        """Say whether the user chose a setting, by a flag or in the file."""
        return self.values[name].whence not in ("default", "recipe")

    def features_for(self, texts: bool) -> str | None:
        """Return how texts are described; a recipe's word on it is for texts only."""
        value, whence = self.values["features"]
        return None if value == "auto" or (whence == "recipe" and not texts) else str(value)

    def rows(self) -> list[dict[str, str]]:
        """Return one row a setting, for --dry-run."""
        rows = [
            {"setting": name, "value": _shown(value), "from": whence}
            for name, (value, whence) in self.values.items()
        ]
        if self.search is not None:
            axes: list[Axis | Search] = [self.search]
            if self.search.outer is not None:
                axes.insert(0, self.search.outer)
            for axis in axes:
                tried = ", ".join(f"{value:g}" for value in axis.values)
                what = f"{axis.part}:{axis.parameter} of {tried} by {self.search.metric}"
                rows.append({"setting": "search", "value": what, "from": "recipe"})
        return rows


def read_config(path: Path | None) -> dict[str, Any]:
    """Read the TOML file; its keys are the long options' words."""
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
        fits, wanted = _fits(name, value)
        if not fits:
            raise click.UsageError(f"{path} has {name} = {value!r}; it must be {wanted}.")
    return config


def _fits(name: str, value: Any) -> tuple[bool, str]:
    """Say whether a value of the file is what the flag of that name would take."""
    if name in RANGES:
        low, high = RANGES[name]
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and low <= value <= high, f"a whole number from {low} to {high}"
    if name == "valid" and isinstance(value, list):
        return all(isinstance(path, str) for path in value), "a path or a list of paths"
    return isinstance(value, str), "a text in quotes"


def settle(flags: dict[str, Any], config: dict[str, Any], config_name: str) -> Settings:
    """Decide every setting; `flags` holds None for what was not given."""
    given = {name: Setting(value, f"file {config_name}") for name, value in config.items()}
    given |= {name: Setting(value, "flag") for name, value in flags.items() if value is not None}

    recipe_name = given.pop("recipe", Setting(None, "default"))
    recipe = Recipe(parts={})
    if recipe_name.value is not None:
        recipe = get_registry().create("recipe", recipe_name.value)
    elif "loss" not in given:
        names = ", ".join(get_registry().names("recipe"))
        raise click.UsageError(f"say --recipe NAME ({names}) or --loss SPEC.")

    values = {"recipe": recipe_name}
    for part in PARTS:
        default = Setting(FALLBACKS.get(part, "auto"), "default")
        if part in recipe.parts:
            default = Setting(recipe.parts[part], "recipe")
        values[part] = given.get(part, default)
    for name in CHOICES:
        values[name] = given.get(name, Setting(DEFAULTS[name], "default"))
    values["valid"] = given.get("valid", Setting((), "default"))
    if isinstance(values["valid"].value, str):
        values["valid"] = values["valid"]._replace(value=(values["valid"].value,))
    search = recipe.search
    if search is None or not values["valid"].value or not _searchable(search, values):
        return Settings(values, None)
    if search.outer is not None and values[search.outer.part].whence != "recipe":
        search = dataclasses.replace(search, outer=None)
    return Settings(values, search)


def _searchable(search: Search, values: dict[str, Setting]) -> bool:
    """Say whether the searched parameter exists and was left open by the user."""
    value, whence = values[search.part]
    name, params = parse_spec(value)
    if whence != "recipe" and search.parameter in params:
        return False
    try:
        made = get_registry().create(search.part, name)
    except PartError:
        return False
    return search.parameter in made.get_params()


def _shown(value: Any) -> str:
    """Return a setting as a user would write it."""
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
