"""`ranking plugins`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import click

from ranking.errors import PartError
from ranking.registry import Registry, get_registry
from ranking_cli.tables import format_option, render

AXES = ("model", "loss", "regularizer", "solver")


@click.command()
@click.option("--matrix", is_flag=True, help="What combines with what, and for a no the reason.")
@format_option
def plugins(matrix: bool, form: str) -> None:
    """List what is installed: kind, name, origin, version, help.

    Plugins are switched off with the environment variable RANKING_DISABLED_PLUGINS, a
    comma-separated list of distributions or distribution:plugin.

    \b
    ranking plugins
    ranking plugins --matrix --format jsonl
    """
    registry = get_registry()
    rows: list[dict[str, Any]]
    if matrix:
        rows = list(_cells(registry))
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
    for problem in registry.problems:
        click.echo(f"{problem.distribution}, plugin {problem.plugin}: {problem.message}", err=True)


def _cells(registry: Registry) -> Iterator[dict[str, Any]]:
    """Yield one row per combination, from the solvers' own answers."""
    loaded: dict[str, list[Any]] = {}
    for kind in AXES:
        loaded[kind] = []
        for entry in registry.entries(kind):
            try:
                loaded[kind].append((entry.name, entry.load()))
            except PartError as error:
                click.echo(str(error), err=True)
    for model, loss, regularizer, solver in itertools.product(*(loaded[kind] for kind in AXES)):
        verdict = solver[1].accepts(model[1], loss[1], regularizer[1])
        reason = verdict.reason + (f"; try {verdict.instead}" if verdict.instead else "")
        yield {
            "model": model[0],
            "loss": loss[0],
            "regularizer": regularizer[0],
            "solver": solver[0],
            "works": verdict.works,
            "reason": reason,
        }
