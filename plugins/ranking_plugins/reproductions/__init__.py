"""Reproductions: the tables of papers, computed on public data."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

REPRODUCTIONS = {
    "categories": "ranking_plugins.reproductions.categories",
    "grid": "ranking_plugins.reproductions.grid",
    "lasr": "ranking_plugins.reproductions.lasr",
    "letor": "ranking_plugins.reproductions.letor",
    "sparse-preference": "ranking_plugins.reproductions.sparse_preference",
    "matching": "ranking_plugins.reproductions.matching",
    "text-retrieval": "ranking_plugins.reproductions.text_retrieval",
    "leaderboards": "ranking_plugins.reproductions.leaderboards",
}
"""Names and modules, each with a `title`, some `notes` and a function `rows`."""

Tell = Callable[[str], None]


@dataclasses.dataclass(frozen=True)
class Row:
    """One method on one data set; a row without metrics is published only.

    Attributes
    ----------
    metrics, paper : dict
        The values here, and those of the paper under the same names.
    seconds : float
        Of training.
    model_bytes : float
        Of the parameters.
    history : list of dict
        The learning curve.
    by_seed : list of dict
        The values of each seed, if there are several; `metrics` are their means.
    """

    dataset: str
    method: str
    metrics: dict[str, float]
    paper: dict[str, float]
    seconds: float = math.nan
    model_bytes: float = math.nan
    density: float = math.nan
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    by_seed: list[dict[str, float]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Options:
    """Options of a reproduction.

    Attributes
    ----------
    data : Path
        The folder of data sets.
    quick : bool
        Whether to run only a small part, as a test.
    tell : function
        Called with progress messages.
    finished : sequence of Row
        The rows of an interrupted run with the same options; a module with `resumes` yields them
        again instead of computing them.
    """

    data: Path
    quick: bool
    kernel: str
    threads: int
    seed: int
    tell: Tell
    finished: Sequence[Row] = ()


def load(name: str) -> Any:
    """Return the module of a reproduction."""
    return import_module(REPRODUCTIONS[name])
