"""`ranking plugins`."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import click

from ranking import RankingError, get_kernel
from ranking.registry import describe_part, get_registry, list_combinations, list_plugins
from ranking_cli.tables import format_option, render

WIDTH = 80
"""Columns of the description of a part."""

OWN = "ranking-kit"
"""The distribution of the built-in parts."""

AXES = ("model", "loss", "regularizer")
Row = dict[str, Any]


@click.command()
@click.argument("name", required=False)
@click.option(
    "--matrix", is_flag=True, help="Show which parts can be combined, and why others cannot."
)
@click.option(
    "--kernels", is_flag=True, help="Show which kernel implements which family of functions."
)
@click.option("--load", is_flag=True, help="Import third-party plugins, to list their parts.")
@format_option
def plugins(name: str | None, matrix: bool, kernels: bool, load: bool, form: str) -> None:
    """List the installed parts and plugins, or describe one (NAME).

    The list has kind, name and help, and of third-party parts the origin and version; tsv and jsonl
    have columns for these. The description has the parameters of the part, with their defaults, the
    values that they may have, and what they mean; those of a recipe are its parts.

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
    ranking plugins sgd
    ranking plugins --load
    ranking plugins --kernels
    ranking plugins --matrix --format jsonl
    """
    if name is not None:
        if matrix or kernels:
            raise click.UsageError("give NAME, --matrix or --kernels, one of them.")
        _describe(name, load, form)
        return
    reasons: list[str] = []
    rows: list[Row]
    problems: list[Any]
    if kernels:
        rows, problems = _kernels()
    else:
        rows, problems = list_plugins(load=load or matrix)
    if matrix:
        rows = [cell._asdict() for cell in list_combinations()]
        if form in ("table", "markdown"):
            rows, reasons = _pivot(rows)
    elif form == "table" and not kernels:
        rows = [_short_row(row) for row in rows]
    click.echo(render(rows, form), nl=False)
    if reasons:
        click.echo()
    for number, reason in enumerate(reasons, start=1):
        click.echo(f"({number}) {reason}")
    for problem in problems:
        click.echo(str(problem), err=True)


def _short_row(row: Row) -> Row:
    """Return a part in three columns; of another distribution, its name stands before the help."""
    origin = "" if row["origin"] == OWN else f"{row['origin']} {row['version']}: "
    return {"kind": row["kind"], "name": row["name"], "help": f"{origin}{row['help']}".strip()}


def _describe(name: str, load: bool, form: str) -> None:
    """Print the parameters of a part, of each kind that has the name."""
    parts = describe_part(name, load=load)
    if form in ("jsonl", "tsv"):
        rows = [
            {"kind": part.kind, "part": part.name, **parameter._asdict()}
            for part in parts
            for parameter in part.parameters
        ]
        click.echo(render(rows, form), nl=False)
        return
    for number, part in enumerate(parts):
        if number:
            click.echo()
        title = f"{part.kind} {part.name}, of {part.origin} {part.version}: {part.help}"
        click.echo(textwrap.fill(title, WIDTH))
        if not part.parameters:
            click.echo("It has no parameters.")
        elif form == "markdown":
            click.echo()
            click.echo(render([each._asdict() for each in part.parameters], form), nl=False)
        else:
            for each in part.parameters:
                click.echo(f"  {each.name}={each.default}")
                for text in filter(None, (each.allowed, each.meaning)):
                    click.echo(textwrap.indent(textwrap.fill(text, WIDTH - 6), " " * 6))


def _kernels() -> tuple[list[Row], list[Any]]:
    """Return one row per family with the kernel that serves it, and unavailable kernels."""
    families: dict[str, dict[str, str]] = {}
    problems = []
    for name in get_registry().names("kernel"):
        try:
            kernel: Any = get_kernel(name)
        except RankingError as error:
            problems.append(str(error))
            continue
        for family, server in kernel.families().items():
            families.setdefault(family, {})[name] = server
    return [{"family": family, **row} for family, row in families.items()], problems


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
            row["instead"] = min(row["instead"], cell["instead"], key=_count_changes)
    for row in rows.values():
        row["instead"] = row.pop("instead")  # the last column
    return list(rows.values()), list(numbers)


def _count_changes(remedy: str) -> int:
    return remedy.count(" and ")
