"""`ranking report`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from ranking import Ranker
from ranking_cli.files import output_of
from ranking_cli.options import existing
from ranking_cli.pages import line_chart, page, table
from ranking_cli.tables import READABLE, definitions, format_option, render, short_names

FIRST = ("epoch", "steps", "objective", "loss", "density")
"""Columns that come before the metrics."""


@click.command()
@click.argument("models", nargs=-1, required=True, type=existing, metavar="MODEL...")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write an HTML file with plots instead of printing the numbers.",
)
@format_option
def report(models: tuple[Path, ...], output: Path | None, form: str) -> None:
    """Show the training history of models: their parts, their data and their learning curves.

    There is one row per epoch: the objective, the density, and the metrics on the validation data
    if there were any.

    \b
    ranking report model.safetensors
    ranking report sparse.safetensors dense.safetensors -o report.html
    """
    target = None if output is None else output_of(output, models)
    rankers = {str(path): Ranker.load(path) for path in models}
    if target is not None:
        target.write_text(_page(rankers))
        click.echo(f"wrote {output}", err=True)
        return
    histories = [(name, row) for name, ranker in rankers.items() for row in ranker.history_]
    columns = dict.fromkeys(key for key in FIRST if any(key in row for _, row in histories))
    columns |= dict.fromkeys(key for _, row in histories for key in row)
    metrics = {key: key for key in columns if "(" in key}
    short = short_names(metrics) if form in READABLE else {}
    rows: list[dict[str, Any]] = [
        {
            "model": name,
            **{short.get(key, key): _value(key, row.get(key, math.nan)) for key in columns},
        }
        for name, row in histories
    ]
    click.echo(render(rows, form) + definitions(short, form), nl=False)


def _page(rankers: dict[str, Ranker]) -> str:
    facts = [[name, *_facts(ranker)] for name, ranker in rankers.items()]
    body = table(["model", "parts", "data", "epochs", "density"], facts)
    columns = dict.fromkeys(
        key
        for ranker in rankers.values()
        for row in ranker.history_
        for key in row
        if key not in ("epoch", "steps")
    )
    has_steps = any("steps" in row for ranker in rankers.values() for row in ranker.history_)
    across = "steps" if has_steps else "epoch"
    for column in columns:
        body += line_chart(
            column,
            across,
            {
                name: [
                    (float(row.get(across) or row["epoch"]), float(row.get(column, math.nan)))
                    for row in ranker.history_
                ]
                for name, ranker in rankers.items()
            },
        )
    return page("Training of " + ", ".join(rankers), body)


def _facts(ranker: Ranker) -> list[str]:
    description = ranker.description_
    parts = " x ".join(part["spec"] for part in description["parts"].values())
    data = ", ".join(
        f"{count} {name}"
        for name, count in description["training"].items()
        if name not in ("seed", "stopped")
    )
    return [parts, data, str(ranker.n_iter_), f"{ranker.model_.density:.2%}"]


def _value(key: str, value: float) -> float | int:
    """Return a number of steps as a whole number."""
    return int(value) if key == "steps" and math.isfinite(value) else value
