"""`ranking plugins`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import click

from ranking.errors import PartError
from ranking.registry import Problem, Registry
from ranking.registry.manager import Source, installed_sources
from ranking.registry.trust import Trust
from ranking_cli.tables import format_option, render

AXES = ("model", "loss", "regularizer", "solver")


@click.command()
@click.option("--matrix", is_flag=True, help="What combines with what, and for a no the reason.")
@click.option("--load", is_flag=True, help="Import other people's plugins, to list their parts.")
@format_option
def plugins(matrix: bool, load: bool, form: str) -> None:
    """List what is installed: kind, name, origin, version, help.

    Nothing of other distributions is imported, so that you can look before their code runs: each of
    their entry points is one row. --load imports them and lists their parts, and so does --matrix.

    Plugins are switched off by environment variables: RANKING_PLUGINS=off all of other
    distributions, RANKING_ALLOWED_PLUGINS all but those that it lists, RANKING_DISABLED_PLUGINS
    those that it lists; lists are of distributions or distribution:plugin, with commas.

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
    if not everything:
        unopened, refused = _strangers(sources)
        rows += unopened
        problems += refused
    click.echo(render(rows, form), nl=False)
    for problem in problems:
        click.echo(str(problem), err=True)


def _strangers(sources: list[Source]) -> tuple[list[dict[str, Any]], list[Problem]]:
    """Return a row per entry point of other distributions, from metadata, and who is refused."""
    rows, refused, trust = [], [], Trust()
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
