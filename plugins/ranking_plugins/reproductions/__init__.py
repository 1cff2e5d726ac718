"""Reproductions: the tables of papers, computed on public data."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ranking.io import Output

REPRODUCTIONS = {
    "categories": "ranking_plugins.reproductions.categories",
    "corel": "ranking_plugins.reproductions.corel",
    "grid": "ranking_plugins.reproductions.grid",
    "lasr": "ranking_plugins.reproductions.lasr",
    "lasr-lists": "ranking_plugins.reproductions.lasr_lists",
    "letor": "ranking_plugins.reproductions.letor",
    "sparse-preference": "ranking_plugins.reproductions.sparse_preference",
    "matching": "ranking_plugins.reproductions.matching",
    "text-retrieval": "ranking_plugins.reproductions.text_retrieval",
    "leaderboards": "ranking_plugins.reproductions.leaderboards",
}
"""Names and modules, each with a `title`, some `notes` and a function `rows`.

A module may also have `count`, the number of rows for some options, and `charts`, plots of rows.
"""

Tell = Callable[[str], None]
Arrays = dict[str, NDArray[Any]]


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
    texts : dict
        Results that are words, such as the lists of two models.
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
    texts: dict[str, str] = dataclasses.field(default_factory=dict)


class Chart(NamedTuple):
    """Lines of one plot: points by name.

    Attributes
    ----------
    name : str
        Also of its files.
    across : str
        What the horizontal axis shows.
    scatter : bool
        Whether points are not joined.
    """

    name: str
    across: str
    lines: dict[str, list[tuple[float, float]]]
    scatter: bool = False


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
    scratch : Path or None
        A folder for partial results, with which a killed run continues.
    finished : dict of Row
        Rows of a killed run, by data set and method.
    """

    data: Path
    quick: bool
    kernel: str
    threads: int
    seed: int
    tell: Tell
    scratch: Path | None = None
    finished: dict[tuple[str, str], Row] = dataclasses.field(default_factory=dict)

    def completed(self, dataset: str) -> list[Row]:
        """Return the rows of a data set that a killed run had finished: another one came after."""
        rows = [row for (name, _), row in self.finished.items() if name == dataset]
        last = next(reversed(self.finished), (dataset, ""))
        return rows if last[0] != dataset else []

    def remember(self, key: str, compute: Callable[[], Arrays]) -> Arrays:
        """Return the arrays that a killed run stored under a key, else compute and store them."""
        if self.scratch is None:
            return compute()
        path = self.scratch / f"{re.sub('[^A-Za-z0-9.]+', '-', key)}.json"
        if path.exists():
            stored = json.loads(path.read_text())
            return {name: np.array(values) for name, values in stored.items()}
        arrays = compute()
        self.scratch.mkdir(parents=True, exist_ok=True)
        content = {name: array.tolist() for name, array in arrays.items()}
        Output(path).write_text(json.dumps(content))
        return arrays


class Progress:
    """Messages of what is done, and an estimate of the time that is left.

    Parameters
    ----------
    total : int
        The number of parts.
    """

    def __init__(self, total: int, tell: Tell) -> None:
        self.total, self.tell, self.done, self.slow = total, tell, 0, 0
        self.started = self.before = time.monotonic()
        self.skipped = 0.0

    def step(self, name: str, known: bool = False) -> None:
        """Say that a part is done; `known` parts, of a killed run, tell nothing about the rest."""
        now = time.monotonic()
        self.done += 1
        if known:
            self.skipped += now - self.before
        else:
            self.slow += 1
        self.before = now
        message = f"{self.done} of {self.total}: {name}"
        if self.slow and self.done < self.total:
            each = (now - self.started - self.skipped) / self.slow
            message += f"; about {_duration(each * (self.total - self.done))} left"
        self.tell(message)


def _duration(seconds: float) -> str:
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 5400.0 else f"{seconds / 3600.0:.1f} h"


def load(name: str) -> Any:
    """Return the module of a reproduction."""
    return import_module(REPRODUCTIONS[name])
