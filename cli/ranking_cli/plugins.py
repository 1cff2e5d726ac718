"""`ranking plugins`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from ranking.registry import Problem, Registry
from ranking.registry.compatibility import Grid
from ranking.registry.manager import Source, installed_sources
from ranking.registry.security import PluginSecurity
from ranking_cli.tables import format_option, render

AXES = ("model", "loss", "regularizer")


@click.command()
@click.option("--matrix", is_flag=True, help="What combines with what; for a no, why.")
@click.option("--load", is_flag=True, help="Import other people's plugins, to list their parts.")
@format_option
def plugins(matrix: bool, load: bool, form: str) -> None:
    """List what is installed: kind, name, origin, version, help.

    Nothing of other distributions is imported, so that you can look before their code runs: each of
    their entry points is one row. --load imports them and lists their parts, and so does --matrix.

    Plugins are switched off by environment variables: RANKING_PLUGINS=off all of other
    distributions, RANKING_ALLOWED_PLUGINS all but those that it lists, RANKING_DISABLED_PLUGINS
    those that it lists; lists are of distributions or distribution:plugin, with commas.

    --matrix prints a table with a column a solver, and below it the reasons by their numbers; as
    jsonl or tsv, a row a combination, with the reason and what to change for the nearest that
    works.

    \b
    ranking plugins
    ranking plugins --load
    ranking plugins --matrix --format jsonl
    """
    sources = installed_sources()
    everything = load or matrix
    registry = Registry(sources if everything else [source for source in sources if source.ours])
    problems = list(registry.problems)
    rows: list[dict[str, Any]]
    reasons: list[str] = []
    if matrix:
        grid = Grid(registry)
        rows = list(_cells(grid))
        if form in ("table", "markdown"):
            rows, reasons = _pivot(rows)
        for message in grid.problems:
            click.echo(message, err=True)
    else:
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
    if not everything:
        unopened, refused = _strangers(sources)
        rows += unopened
        problems += refused
    click.echo(render(rows, form), nl=False)
    if reasons:
        click.echo()
    for number, reason in enumerate(reasons, start=1):
        click.echo(f"({number}) {reason}")
    for problem in problems:
        click.echo(str(problem), err=True)


def _strangers(sources: list[Source]) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return a row per entry point of other distributions, from metadata, and who is refused."""
    rows, refused, trust = [], [], PluginSecurity()
    for source in sources:
        if source.ours:
            continue
        refusal = trust.blocked_reason(source.distribution, source.name, source.module)
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


def _cells(grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield one row a cell: whether it works, or why not and what to change."""
    for cell in grid.cells():
        compatibility = cell.compatibility()
        yield {
            **cell.names(),
            "works": compatibility.works,
            "reason": compatibility.reason,
            "instead": "" if compatibility.works else grid.remedy(cell),
        }


def _pivot(cells: Iterable[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    """Return a row a model, loss and regularizer with a column a solver, and the reasons.

    A no is the number of its reason. A row in which no solver says yes has what would work.
    """
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
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
