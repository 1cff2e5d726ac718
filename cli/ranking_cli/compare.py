"""`ranking compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from ranking._utils.files import write_bytes
from ranking.data.readers.opening import open_bytes
from ranking.data.readers.read import HEAD
from ranking.data.readers.trec import RunReader
from ranking.io.tensors import looks_like_tensors
from ranking.metrics.comparison import Comparison
from ranking.metrics.comparison import compare as compare_systems
from ranking.metrics.evaluation import Values
from ranking.metrics.parse import parse_metrics
from ranking_cli.compare_report import report
from ranking_cli.evaluate import measure_model, measure_run
from ranking_cli.options import Resources, existing, metrics_option, resources_options
from ranking_cli.tables import format_option, render


@click.command()
@click.argument("files", nargs=-1, required=True, type=existing, metavar="A B [C]... DATA...|QRELS")
@metrics_option
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write a report, one HTML file.",
)
@format_option
@resources_options
def compare(
    files: tuple[Path, ...], metrics: str, output: Path | None, form: str, resources: Resources
) -> None:
    """Compare models on DATA, or TREC runs against judgements.

    Prints for each pair of systems and each metric: the means, the difference B - A with a 95 %
    bootstrap interval, p-values of a paired randomisation test and of the paired t-test, both also
    corrected by Holm's method for the number of comparisons, and on how many queries B wins, ties
    and loses. Several DATA files count as one.

    \b
    ranking compare base.safetensors new.safetensors test.txt --metrics ndcg@10,map
    ranking compare base.run new.run judged.qrels -o report.html
    """
    systems, data = _split_files(files)
    if len(set(systems)) < len(systems):
        raise click.UsageError("a system is given twice; give each once.")
    runs = [_is_run(path) for path in systems]
    if len(set(runs)) > 1:
        raise click.UsageError("give models only, with DATA, or runs only, with QRELS.")
    if runs[0] and len(data) > 1:
        raise click.UsageError(
            f"runs are measured against one file of judgements, not {len(data)}; join them first."
        )
    unique = list({metric.spelled(): metric for metric in parse_metrics(metrics)}.values())
    results = {
        str(path): measure_run(path, data[0], unique, resources)
        if runs[0]
        else measure_model(path, data, unique, resources)
        for path in systems
    }
    queries, values = _align(results)
    comparisons = compare_systems(unique, queries, values, resources.kernel)
    click.echo(render([_row(one) for one in comparisons], form), nl=False)
    if output is not None:
        write_bytes(output, report(comparisons, ", ".join(map(str, data))).encode())
        click.echo(f"wrote {output}", err=True)


def _split_files(files: tuple[Path, ...]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    """Return the systems and the data: two systems, any more that look so, and the rest."""
    if len(files) < 3:
        raise click.UsageError("give two systems or more, then the data or judgements.")
    count = 2
    while count < len(files) - 1 and _is_system(files[count]):
        count += 1
    return files[:count], files[count:]


def _is_system(path: Path) -> bool:
    with open_bytes(path) as stream:
        return looks_like_tensors(stream.read(9)) or _is_run(path)


def _is_run(path: Path) -> bool:
    with open_bytes(path) as stream:
        return RunReader.recognises(path, stream.read(HEAD))


def _align(
    results: dict[str, tuple[list[str], Values]],
) -> tuple[list[str], dict[str, Values]]:
    """Align all systems to the same queries; a query that a system lacks is NaN."""
    queries = list(dict.fromkeys(query for own, _ in results.values() for query in own))
    positions = {query: position for position, query in enumerate(queries)}
    values: dict[str, Values] = {}
    for system, (own, columns) in results.items():
        rows = [positions[query] for query in own]
        values[system] = {
            name: _scatter(column, rows, len(queries)) for name, column in columns.items()
        }
    return queries, values


def _scatter(column: NDArray[np.float64], rows: list[int], size: int) -> NDArray[np.float64]:
    """Return the values at their rows, and NaN elsewhere."""
    values = np.full(size, np.nan)
    values[rows] = column
    return values


def _row(one: Comparison) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "A": one.a,
        "B": one.b,
        "mean A": one.mean_a,
        "mean B": one.mean_b,
        "B - A": one.difference,
        "low": one.interval.low,
        "high": one.interval.high,
        "p": one.p_randomisation,
        "p Holm": one.p_randomisation_holm,
        "p t-test": one.p_t,
        "p t-test Holm": one.p_t_holm,
        "wins": one.wins,
        "ties": one.ties,
        "losses": one.losses,
    }
