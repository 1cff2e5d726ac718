"""`ranking path`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from ranking import Ranker
from ranking._utils.files import write_bytes
from ranking.data.judged_lists import JudgedLists
from ranking.data.readers.read import read_trainable
from ranking.metrics.parse import parse_metric, split_metrics
from ranking.registry import parse_spec
from ranking.training.wrappers.path import RegularizationPath, cross_validated_path
from ranking_cli.options import existing, kernel_option, threads_option
from ranking_cli.pages import line_chart, page, table
from ranking_cli.settings import settle
from ranking_cli.tables import format_option, render
from ranking_plugins.callbacks import Curve

STRENGTHS = ",".join(f"{10 ** (-quarter / 4):.4g}" for quarter in range(13))
"""From 1 down to 0.001 by quarter decades."""

Rows = list[dict[str, Any]]


@click.command()
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option("--valid", multiple=True, type=existing, help="Validation data, to measure on.")
@click.option("--folds", type=click.IntRange(2), help="Cross-validation by query instead.")
@click.option("--recipe", metavar="NAME", help="Parts that belong together, such as domination.")
@click.option("--loss", metavar="SPEC", help="What is minimised.")
@click.option(
    "--regularizer",
    "regularizers",
    metavar="SPEC",
    multiple=True,
    help="May be given several times.",
)
@click.option("--solver", metavar="SPEC", help="How it is minimised.")
@click.option(
    "--strengths", metavar="LIST", default=STRENGTHS, help="By default 1 to 0.001, 13 values."
)
@click.option(
    "--metrics", metavar="LIST", default="map,ndcg@10", show_default=True, help="The first decides."
)
@click.option("--reader", metavar="NAME", default="auto", help="Format of the data.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="One HTML file with plots; the numbers are printed as well.",
)
@format_option
@kernel_option
@threads_option
def path(
    data: tuple[Path, ...],
    valid: tuple[Path, ...],
    folds: int | None,
    regularizers: tuple[str, ...],
    strengths: str,
    metrics: str,
    reader: str,
    seed: int,
    output: Path | None,
    form: str,
    kernel: str,
    threads: int,
    **parts: Any,
) -> None:
    """Train along the strengths of a regularizer, each from the one before.

    A row is a strength: loss, density, epochs, and what was measured on the validation data; with
    --folds, the means over the folds and their standard errors (se).

    \b
    ranking path train.txt --valid valid.txt --recipe domination -o path.html
    ranking path train.txt --folds 5 --loss domination --regularizer l1 --regularizer l2
    """
    if bool(valid) == (folds is not None):
        raise click.UsageError("say where to measure: --valid DATA or --folds N, one of them.")
    given = read_trainable(data, reader, kernel=kernel, threads=threads)
    held_out = read_trainable(valid, reader, kernel=kernel, threads=threads) if valid else None
    if not isinstance(given, JudgedLists) or not (
        held_out is None or isinstance(held_out, JudgedLists)
    ):
        raise click.UsageError("a path is for judged rows; these are queries and documents.")
    names = split_metrics(metrics)
    values = _strengths(strengths)
    settings = settle({**parts, "regularizer": None}, {}, "")
    rows: dict[str, Rows] = {}
    courses: dict[str, Rows] = {}
    for spec in regularizers or (parse_spec(settings["regularizer"]).name,):
        ranker = Ranker(
            settings["model"],
            settings["loss"],
            spec,
            settings["solver"],
            kernel=kernel,
            threads=threads,
            random_state=seed,
        )
        if folds is not None:
            course = RegularizationPath(ranker.plan(), values, names)
            rows[spec] = cross_validated_path(course, given, folds, seed, jobs=threads)
            continue
        assert isinstance(held_out, JudgedLists)
        ranker.set_params(callbacks=[Curve(metrics="+".join(names))])
        points = RegularizationPath(ranker.plan(), values, names).fit(given, held_out).report
        rows[spec] = [point.row() for point in points]
        courses[spec] = points[_best(rows[spec], names[0])].history
    lines = [
        {"regularizer": spec, **row, "": "best" if at == _best(mine, names[0]) else ""}
        for spec, mine in rows.items()
        for at, row in enumerate(mine)
    ]
    click.echo(render(lines, form), nl=False)
    if output is not None:
        write_bytes(output, _page(rows, courses, names[0]).encode())
        click.echo(f"wrote {output}", err=True)


def _strengths(text: str) -> list[float]:
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0.0 < value < math.inf for value in values):
        raise click.UsageError(f"--strengths is {text!r}; give numbers above 0, as in 1,0.1,0.01.")
    return sorted(values, reverse=True)


def _best(rows: Rows, metric: str) -> int:
    """Return the first of the best strengths."""
    sign = 1.0 if parse_metric(metric).higher_is_better else -1.0
    return max(range(len(rows)), key=lambda at: (sign * rows[at][metric], -at))


def _page(rows: dict[str, Rows], courses: dict[str, Rows], metric: str) -> str:
    first = next(iter(rows.values()))[0]
    body = ""
    for spec, mine in rows.items():
        cells = [[f"{value:.4g}" for value in row.values()] for row in mine]
        best = mine[_best(mine, metric)]
        body += f"<h2>{spec}</h2>\n<p>The best by {metric} is strength {best['strength']:g}.</p>\n"
        body += table(list(first), cells)
    body += "<h2>Along the strengths</h2>\n"
    for column in first:
        if column != "strength" and not column.endswith(" se"):
            lines = {
                spec: [(math.log10(row["strength"]), row[column]) for row in mine]
                for spec, mine in rows.items()
            }
            body += line_chart(column, "log10 of the strength", lines)
    if courses:
        body += f"<h2>The course of the training that is best by {metric}</h2>\n"
    for column in dict.fromkeys(key for mine in courses.values() for row in mine for key in row):
        if column != "epoch":
            lines = {
                spec: [(row["epoch"], row.get(column, math.nan)) for row in mine]
                for spec, mine in courses.items()
            }
            body += line_chart(column, "epoch", lines)
    return page("Regularization path", body)
