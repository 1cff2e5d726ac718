"""List what is installed, and which parts work together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

from ranking.errors import PluginWarning
from ranking.registry.compatibility import Grid
from ranking.registry.manager import Problem, Registry, Source, installed_sources
from ranking.registry.security import PluginSecurity


class PluginList(NamedTuple):
    """Installed plugins.

    Attributes
    ----------
    rows : list of dict
        One row per part: ``kind``, ``name``, ``origin``, ``version`` and ``help``. A plugin that
        was not imported is one row of kind ``plugin``.
    problems : list of Problem
        What was left out, and why.
    """

    rows: list[dict[str, str]]
    problems: list[Problem]


class Combination(NamedTuple):
    """Four parts, whether they work together, and otherwise why not and what would."""

    model: str
    loss: str
    regularizer: str
    solver: str
    works: bool
    reason: str
    instead: str


def list_plugins(*, load: bool = False) -> PluginList:
    """List the installed models, losses, solvers and other parts.

    Parameters
    ----------
    load : bool
        Whether to import third-party plugins, to list their parts. By default each of their entry
        points is one row, from the metadata of its distribution, and none of their code is run.
    """
    sources = installed_sources()
    registry = Registry(sources if load else [source for source in sources if source.ours])
    rows = [
        {
            "kind": entry.kind,
            "name": entry.name,
            "origin": entry.distribution,
            "version": entry.version,
            "help": entry.help,
        }
        for entry in registry.entries()
    ]
    problems = list(registry.problems)
    if not load:
        others = [source for source in sources if not source.ours]
        refused = {source: _refusal(source) for source in others}
        rows += [_row(source) for source, reason in refused.items() if not reason]
        problems += [
            Problem(f"{source.distribution} {source.version}", source.name, reason)
            for source, reason in refused.items()
            if reason
        ]
    return PluginList(rows, problems)


def list_combinations() -> Iterator[Combination]:
    """Yield every combination of model, loss, regularizer and solver that is installed."""
    grid = Grid(Registry())
    for problem in grid.problems:
        warnings.warn(problem, PluginWarning, stacklevel=2)
    for cell in grid.cells():
        answer = cell.compatibility()
        instead = "" if answer.works else grid.remedy(cell)
        yield Combination(**cell.names(), works=answer.works, reason=answer.reason, instead=instead)


def _refusal(source: Source) -> str:
    return PluginSecurity().blocked_reason(source.distribution, source.name, source.module)


def _row(source: Source) -> dict[str, Any]:
    return {
        "kind": "plugin",
        "name": source.name,
        "origin": source.distribution,
        "version": source.version,
        "help": f"{source.module}, not imported: --load lists its parts",
    }
