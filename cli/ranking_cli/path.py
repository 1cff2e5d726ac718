"""`ranking path`."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import click

from ranking import JudgedLists, Ranker, RegularizationPath, parse_metric, parse_metrics
from ranking.io import encode_id
from ranking.registry import parse_spec
from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing, resources_options
from ranking_cli.pages import line_chart, page, table
from ranking_cli.settings import check_shared_reader, resolve_settings
from ranking_cli.tables import format_option, render
from ranking_cli.validation import refuse_equal
from ranking_plugins.callbacks import Curve

STRENGTHS = ",".join(f"{10 ** (-quarter / 4):.4g}" for quarter in range(13))
"""From 1 down to 0.001 by quarter decades."""

Rows = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Request:
    """What `ranking path` is called with, beside the data."""

    parts: dict[str, str | None]
    regularizers: tuple[str, ...]
    strengths: str
    metrics: str
    valid: tuple[Path, ...]
    valid_reader: str | None
    folds: int | None
    seed: int


@click.command()
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option("--valid", multiple=True, type=existing, help="Validation data for the metrics.")
@click.option(
    "--folds", type=click.IntRange(2), help="Cross-validation in N folds of whole queries instead."
)
@click.option("--recipe", metavar="NAME", help="A named combination of parts, such as domination.")
@click.option("--loss", metavar="SPEC", help="The loss, which must have a coordinate interface.")
@click.option(
    "--regularizer",
    "regularizers",
    metavar="SPEC",
    multiple=True,
    help="A regularizer with a strength; repeatable, to compare several.",
)
@click.option(
    "--solver",
    metavar="SPEC",
    help="The solver; by default the first that supports the other parts.",
)
@click.option(
    "--strengths",
    metavar="LIST",
    default=STRENGTHS,
    help="Strengths; by default 13 values from 1 to 0.001.",
)
@click.option(
    "--metrics",
    metavar="LIST",
    default="map,ndcg@10",
    show_default=True,
    help="Metrics on the held-out data; the first one chooses the best strength.",
)
@click.option("--valid-reader", metavar="SPEC", help="Format of --valid; by default as --reader.")
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), default=0, show_default=True)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="One HTML file with plots; the numbers are printed as well.",
)
@format_option
@resources_options
def path(
    data: tuple[Path, ...], output: Path | None, form: str, resources: Resources, **options: Any
) -> None:
    """Train a model for each strength of a regularizer, starting from the previous one.

    One row per strength: loss, density, epochs, and the metrics on the validation data; with
    --folds, the means over the folds and their standard errors (se).

    \b
    ranking path train.txt --valid valid.txt --recipe domination -o path.html
    ranking path train.txt --folds 5 --loss domination --regularizer l1 --regularizer l2
    """
    parts = {name: options.pop(name) for name in ("recipe", "loss", "solver")}
    request = Request(parts=parts, **options)
    if bool(request.valid) == (request.folds is not None):
        raise click.UsageError("say where to measure: --valid DATA or --folds N, one of them.")
    target = None
    if output is not None:
        specs = (resources.reader, request.valid_reader)
        target = output_of(output, [*data, *request.valid], *specs)
    judged, held_out = _read(resources, data, request)
    metric = next(iter(parse_metrics(request.metrics)))
    results, histories = _train(request, resources, judged, held_out)
    rows = [
        {"regularizer": spec, **row, "": "best" if at == _best(points, metric) else ""}
        for spec, points in results.items()
        for at, row in enumerate(points)
    ]
    click.echo(render(rows, form), nl=False)
    if target is not None:
        target.write_text(_page(results, histories, metric))
        click.echo(f"wrote {output}", err=True)


def _read(
    resources: Resources, data: tuple[Path, ...], request: Request
) -> tuple[JudgedLists, JudgedLists | None]:
    """Read the training data, and the validation data if there are any."""
    judged, held_out = resources.read(data), None
    if request.valid:
        if request.valid_reader is None:
            check_shared_reader(resources.reader)
        held_out = resources.read(request.valid, request.valid_reader)
    if not isinstance(judged, JudgedLists) or not (
        held_out is None or isinstance(held_out, JudgedLists)
    ):
        raise click.UsageError("a path is for judged rows; these are queries and documents.")
    refuse_equal(judged, held_out)
    return judged, held_out


def _train(
    request: Request, resources: Resources, data: JudgedLists, valid: JudgedLists | None
) -> tuple[dict[str, Rows], dict[str, Rows]]:
    """Return one row per strength, and the history of the best, for each regularizer."""
    settings = resolve_settings({**request.parts, "regularizer": None}, {}, "")
    metrics = list(parse_metrics(request.metrics))
    strengths = _strengths(request.strengths)
    results: dict[str, Rows] = {}
    histories: dict[str, Rows] = {}
    for spec in request.regularizers or (parse_spec(settings["regularizer"]).name,):
        ranker = Ranker(
            settings["model"],
            settings["loss"],
            spec,
            settings["solver"],
            kernel=resources.kernel,
            threads=resources.threads,
            random_state=request.seed,
        )
        if request.folds is not None:
            path = RegularizationPath(ranker.plan(), strengths, metrics)
            results[spec] = path.cross_validate(
                data, request.folds, request.seed, jobs=resources.threads
            )
            continue
        ranker.set_params(callbacks=[Curve(metrics="+".join(metrics))])
        points = RegularizationPath(ranker.plan(), strengths, metrics).fit(data, valid).report
        results[spec] = [point.row() for point in points]
        histories[spec] = points[_best(results[spec], metrics[0])].history
    return results, histories


def _strengths(text: str) -> list[float]:
    try:
        values = [float(word) for word in text.split(",")]
    except ValueError:
        values = []
    if not values or not all(0.0 < value < math.inf for value in values):
        raise click.UsageError(f"--strengths is {text!r}; give numbers above 0, as in 1,0.1,0.01.")
    return sorted(values, reverse=True)


def _best(rows: Rows, metric: str) -> int:
    """Return the row with the best metric, the first among equals."""
    sign = 1.0 if parse_metric(metric).higher_is_better else -1.0
    return max(range(len(rows)), key=lambda at: (sign * rows[at][metric], -at))


def _page(rows: dict[str, Rows], histories: dict[str, Rows], metric: str) -> str:
    first = next(iter(rows.values()))[0]
    body = ""
    for spec, points in rows.items():
        cells = [[f"{value:.4g}" for value in row.values()] for row in points]
        best = points[_best(points, metric)]
        body += f"<h2>{encode_id(spec, 'html')}</h2>\n"
        body += f"<p>The best by {metric} is strength {best['strength']:g}.</p>\n"
        body += table(list(first), cells)
    body += "<h2>Along the strengths</h2>\n"
    for column in first:
        if column != "strength" and not column.endswith(" se"):
            lines = {
                spec: [(math.log10(row["strength"]), row[column]) for row in points]
                for spec, points in rows.items()
            }
            body += line_chart(column, "log10 of the strength", lines)
    if histories:
        body += f"<h2>Learning curve of the best strength by {metric}</h2>\n"
    for column in dict.fromkeys(
        key for points in histories.values() for row in points for key in row
    ):
        if column != "epoch":
            lines = {
                spec: [(row["epoch"], row.get(column, math.nan)) for row in points]
                for spec, points in histories.items()
            }
            body += line_chart(column, "epoch", lines)
    return page("Regularization path", body)
