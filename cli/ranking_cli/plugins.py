"""`ranking plugins`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from ranking import get_kernel
from ranking.errors import KernelUnavailableError
from ranking.registry import Problem, Registry
from ranking.registry.compatibility import Grid
from ranking.registry.manager import Entry, Source, installed_sources
from ranking.registry.security import PluginSecurity
from ranking_cli.tables import format_option, render

AXES = ("model", "loss", "regularizer")
Row = dict[str, Any]


@click.command()
@click.option("--matrix", is_flag=True, help="Which parts combine; if they do not, why.")
@click.option("--kernels", is_flag=True, help="Which kernel serves which family of functions.")
@click.option("--load", is_flag=True, help="Import third-party plugins, to list their parts.")
@format_option
def plugins(matrix: bool, kernels: bool, load: bool, form: str) -> None:
    """List the installed parts and plugins: kind, name, origin, version, help.

    Third-party plugins are not imported, so that you can look before their code runs: each of their
    entry points is one row. --load imports them and lists their parts, and so does --matrix.

    Plugins are switched off by environment variables: RANKING_PLUGINS=off all third-party plugins,
    RANKING_ALLOWED_PLUGINS all but those that it lists, RANKING_DISABLED_PLUGINS those that it
    lists; lists hold distributions or distribution:plugin, separated by commas.

    --matrix prints a table with one column per solver, and below it the reasons by their numbers;
    as jsonl or tsv, one row per combination, with the reason and what to change for the nearest
    one that works. --kernels prints one row per family and one column per kernel: the kernel that
    serves the family, which is another one where a kernel inherits.

    \b
    ranking plugins
    ranking plugins --load
    ranking plugins --kernels
    ranking plugins --matrix --format jsonl
    """
    sources = installed_sources()
    load = load or matrix
    registry = Registry(sources if load else [source for source in sources if source.ours])
    problems = [str(problem) for problem in registry.problems]
    reasons: list[str] = []
    if kernels:
        rows, more = _kernels(registry)
        problems += more
    elif matrix:
        rows, reasons, more = _matrix(registry, people=form in ("table", "markdown"))
        problems += more
    else:
        rows = [_entry(entry) for entry in registry.entries()]
        if not load:
            unopened, refused = _third_party(sources)
            rows += unopened
            problems += map(str, refused)
    click.echo(render(rows, form), nl=False)
    if reasons:
        click.echo()
    for number, reason in enumerate(reasons, start=1):
        click.echo(f"({number}) {reason}")
    for problem in problems:
        click.echo(problem, err=True)


def _entry(entry: Entry) -> Row:
    return {
        "kind": entry.kind,
        "name": entry.name,
        "origin": entry.distribution,
        "version": entry.version,
        "help": entry.help,
    }


def _kernels(registry: Registry) -> tuple[list[Row], list[str]]:
    """Return one row per family with the kernel that serves it, and unavailable kernels."""
    families: dict[str, dict[str, str]] = {}
    problems = []
    for name in registry.names("kernel"):
        try:
            kernel: Any = get_kernel(name)
        except KernelUnavailableError as error:
            problems.append(str(error))
            continue
        for family, server in kernel.families().items():
            families.setdefault(family, {})[name] = server
    return [{"family": family, **row} for family, row in families.items()], problems


def _third_party(sources: list[Source]) -> tuple[list[Row], list[Problem]]:
    """Return one row per third-party entry point, from metadata, and those that are refused."""
    rows: list[Row] = []
    refused, trust = [], PluginSecurity()
    for source in sources:
        if source.ours:
            continue
        refusal = trust.refusal(source.distribution, source.name)
        if refusal:
            refused.append(Problem(f"{source.distribution} {source.version}", source.name, refusal))
            continue
        rows.append(
            {
                "kind": "plugin",
                "name": source.name,
                "origin": source.distribution,
                "version": source.version,
                "help": f"{source.module}, not imported: --load lists its parts",
            }
        )
    return rows, refused


def _matrix(registry: Registry, people: bool) -> tuple[list[Row], list[str], list[str]]:
    """Return the rows, the reasons that they refer to by number, and problems."""
    grid = Grid(registry)
    cells = list(_cells(grid))
    rows, reasons = _pivot(cells) if people else (cells, [])
    return rows, reasons, grid.problems


def _cells(grid: Grid) -> Iterator[Row]:
    """Yield one row per combination: whether it works, or why not and what to change."""
    for cell in grid.cells():
        compatibility = cell.compatibility()
        yield {
            **cell.names(),
            "works": compatibility.works,
            "reason": compatibility.reason,
            "instead": "" if compatibility.works else grid.remedy(cell),
        }


def _pivot(cells: Iterable[Row]) -> tuple[list[Row], list[str]]:
    """Return one row per model, loss and regularizer with one column per solver, and the reasons.

    A combination that does not work shows the number of its reason; a row without any that works
    shows what to change.
    """
    rows: dict[tuple[str, ...], Row] = {}
    numbers: dict[str, int] = {}
    for cell in cells:
        key = tuple(cell[kind] for kind in AXES)
        row = rows.setdefault(key, {kind: cell[kind] for kind in AXES})
        number = "" if cell["works"] else numbers.setdefault(cell["reason"], len(numbers) + 1)
        row[cell["solver"]] = "yes" if cell["works"] else f"({number})"
        row.setdefault("instead", cell["instead"])
        if cell["works"]:
            row["instead"] = ""
        elif row["instead"]:
            row["instead"] = min(row["instead"], cell["instead"], key=_changes)
    for row in rows.values():
        row["instead"] = row.pop("instead")  # the last column
    return list(rows.values()), list(numbers)


def _changes(remedy: str) -> int:
    return remedy.count(" and ")
