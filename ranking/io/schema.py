"""The schema of what is read back: descriptions of model files, and the facts of checkpoints.

A value that does not fit is a `ModelFileError` that says where it is and what was expected. Tensors
are checked by the model, callback or solver that they belong to; those that hold positions in the
training data are checked here, because only the description knows its sizes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ranking._utils.tensors import Tensors
from ranking._utils.validation import MAX_SEED
from ranking.errors import ModelFileError

SCHEMA_VERSION = 2
"""Version of the description in a model file."""

CHECKPOINT_VERSION = 1

PARTS = ("model", "loss", "regularizer", "solver")

LARGEST_SIZE = 2**62


class Rule(NamedTuple):
    """What a value must be: a test, and its description."""

    fits: Callable[[Any], bool]
    expected: str


def _is_whole(value: Any, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= high


def _is_number(value: Any) -> bool:
    # An int may be too large for a float, and is compared exactly; NaN is not within the bounds.
    real = isinstance(value, int | float) and not isinstance(value, bool)
    return real and abs(value) <= sys.float_info.max


def _is_position(value: Any) -> bool:
    return value == -1 or _is_whole(value, LARGEST_SIZE)


TEXT = Rule(lambda value: isinstance(value, str), "a text")
SIZE = Rule(lambda value: _is_whole(value, LARGEST_SIZE), "a whole number from 0")
SEED = Rule(lambda value: _is_whole(value, MAX_SEED), "a whole number from 0 to 2**64 - 1")
TABLE = Rule(lambda value: isinstance(value, dict), "a table")
TEXTS = Rule(
    lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    "a list of texts",
)
TABLES = Rule(
    lambda value: isinstance(value, list) and all(isinstance(one, dict) for one in value),
    "a list of tables",
)
NUMBERS = Rule(
    lambda value: (
        isinstance(value, list)
        and all(isinstance(row, dict) and all(map(_is_number, row.values())) for row in value)
    ),
    "a list of tables of finite numbers",
)

NUMBER = Rule(_is_number, "a finite number")

PART = {"spec": TEXT, "distribution": TEXT, "version": TEXT}
PLUGIN = {"version": TEXT, "parts": TEXTS}
DESCRIPTION: Mapping[str, Any] = {
    "ranking": TEXT,
    "parts": dict.fromkeys(PARTS, PART),
    "kernel": {"name": TEXT, "version": TEXT},
    "training": {"features": SIZE, "queries": SIZE, "seed": SEED, "stopped": TEXT},
}
"""What a description must have; deeper tables are mappings."""

OPTIONAL: Mapping[str, Rule] = {
    "text": TEXT,
    "scale": TEXT,
    "per query": TABLES,
    "density search": NUMBERS,
}
"""What a description may have; other names belong to solvers, and are not used."""

CHECKPOINT: Mapping[str, Any] = {
    "run": {"stopped": TEXT, "ending": TEXT, "callbacks": TABLE, "epochs before": SIZE},
    "outer": TABLE,
}


def check_description(path: Path, description: dict[str, Any]) -> None:
    """Raise `ModelFileError` unless the description of a model file fits the schema."""
    version = description.get("schema_version")
    if not _is_whole(version, SCHEMA_VERSION) or version != SCHEMA_VERSION:
        newer = _is_whole(version, LARGEST_SIZE) and version > SCHEMA_VERSION  # type: ignore[operator]
        remedy = "update ranking" if newer else "train the model again"
        raise ModelFileError(
            f"{path} has schema_version {str(version)[:40]}, and this version of ranking reads "
            f"{SCHEMA_VERSION}; {remedy}."
        )
    check_table(path, description, DESCRIPTION)
    for name, rule in OPTIONAL.items():
        if description.get(name) is not None:
            _check(path, name, description[name], rule)
    for name, value in description["training"].items():
        if name not in ("seed", "stopped"):
            _check(path, f"training.{name}", value, SIZE)
    plugins = description.get("plugins", {})
    _check(path, "plugins", plugins, TABLE)
    for distribution, plugin in plugins.items():
        _check(path, f"plugins.{distribution}", plugin, TABLE)
        check_table(path, plugin, PLUGIN, f"plugins.{distribution}.")


def check_checkpoint(path: Path, facts: dict[str, Any]) -> None:
    """Raise `ModelFileError` unless the facts of a checkpoint fit the schema."""
    version = facts.get("checkpoint")
    if not _is_whole(version, CHECKPOINT_VERSION) or version != CHECKPOINT_VERSION:
        raise ModelFileError(
            f"{path} is not a checkpoint of this version; train again from the start."
        )
    check_table(path, facts, CHECKPOINT)
    for name, state in facts["run"]["callbacks"].items():
        _check(path, f"run.callbacks.{name}", state, TABLE)


def check_search(path: Path | str, facts: Any) -> None:
    """Raise `ModelFileError` unless the progress of a search in a checkpoint fits the schema."""
    _check(path, "outer.search", facts, TABLE)
    check_table(path, facts, {"trials": TABLES, "best": Rule(_is_position, "a whole number")})
    count = len(facts["trials"])
    if not (0 <= facts["best"] < count or (count == 0 and facts["best"] == -1)):
        raise ModelFileError(
            f"{path} is damaged: the best trial is number {facts['best']} of {count}."
        )
    for number, trial in enumerate(facts["trials"]):
        where = f"outer.search.trials.{number}."
        check_table(path, trial, {"density": NUMBER, "stopped": TEXT}, where)
        for name, value in trial.items():
            if name != "stopped":
                _check(path, f"{where}{name}", value, NUMBER)


def check_positions(path: Path, tensors: Tensors, training: Mapping[str, Any]) -> None:
    """Check the lists of a cascade: one row per query, positions of documents, -1 for none."""
    for name, tensor in tensors.items():
        if name.rpartition("/")[2] != "lists":
            continue
        queries, documents = training["queries"], training.get("documents", 0)
        inside = tensor.dtype == np.int64 and tensor.ndim == 2 and tensor.shape[0] == queries
        if not inside or (tensor.size and not -1 <= tensor.min() <= tensor.max() < documents):
            raise ModelFileError(
                f"{path} is damaged: tensor {name!r} must be int64 with one row for each of "
                f"{queries} queries, and positions from -1 to {documents - 1}."
            )


def check_table(
    path: Path | str, table: Mapping[str, Any], rules: Mapping[str, Any], at: str = ""
) -> None:
    """Raise `ModelFileError` for a value of a table that is missing or does not fit its rule."""
    for name, rule in rules.items():
        where = f"{at}{name}"
        if name not in table:
            raise ModelFileError(f"{path} is damaged: its description lacks {where}.")
        if isinstance(rule, Rule):
            _check(path, where, table[name], rule)
        else:
            _check(path, where, table[name], TABLE)
            check_table(path, table[name], rule, f"{where}.")


def _check(path: Path | str, where: str, value: Any, rule: Rule) -> None:
    if not rule.fits(value):
        text = str(value)
        text = text if len(text) <= 40 else text[:40] + "..."
        raise ModelFileError(f"{path} is damaged: {where} is {text!r}, expected {rule.expected}.")
