"""`ranking plugins`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import click

from ranking.combinations import Grid
from ranking.registry import get_registry
from ranking_cli.tables import format_option, render

AXES = ("model", "loss", "regularizer")


@click.command()
@click.option("--matrix", is_flag=True, help="What combines with what; for a no, why.")
@format_option
def plugins(matrix: bool, form: str) -> None:
    """List what is installed: kind, name, origin, version, help.

    Plugins are switched off with the environment variable RANKING_DISABLED_PLUGINS, a
    comma-separated list of distributions or distribution:plugin.

    --matrix prints a table with a column a solver, and below it the reasons by their numbers; as
    jsonl or tsv, a row a combination, with the reason and what to change for the nearest that
    works.

    \b
    ranking plugins
    ranking plugins --matrix --format jsonl
    """
    registry = get_registry()
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
    click.echo(render(rows, form), nl=False)
    if reasons:
        click.echo()
    for number, reason in enumerate(reasons, start=1):
        click.echo(f"({number}) {reason}")
    for problem in registry.problems:
        click.echo(f"{problem.distribution}, plugin {problem.plugin}: {problem.message}", err=True)


def _cells(grid: Grid) -> Iterator[dict[str, Any]]:
    """Yield one row a cell: whether it works, or why not and what to change."""
    for cell in grid.cells():
        verdict = cell.verdict()
        yield {
            **cell.names(),
            "works": verdict.works,
            "reason": verdict.reason,
            "instead": "" if verdict.works else grid.remedy(cell),
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
