"""Reproductions: the tables of papers, measured anew on the data at hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

REPRODUCTIONS = {
    "sparse-preference": "ranking_plugins.reproductions.sparse_preference",
    "matching": "ranking_plugins.reproductions.matching",
}
"""Names and modules, each with a `title`, some `notes` and a function `rows`."""

Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Row:
    """One method on one data set.

    Attributes
    ----------
    metrics, paper : dict
        What was measured, and what the paper has under the same names.
    seconds : float
        Of training.
    model_bytes : int
        Of the parameters.
    history : list of dict
        The learning curve.
    """

    dataset: str
    method: str
    metrics: dict[str, float]
    paper: dict[str, float]
    seconds: float
    model_bytes: int
    density: float
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Options:
    """How a reproduction is run.

    Attributes
    ----------
    data : Path
        The folder of data sets.
    quick : bool
        Whether a small part of the work is enough, to see that it runs.
    tell : function
        Told what is going on.
    """

    data: Path
    quick: bool
    kernel: str
    threads: int
    seed: int
    tell: Tell


def load(name: str) -> Any:
    """Return the module of a reproduction."""
    return import_module(REPRODUCTIONS[name])
