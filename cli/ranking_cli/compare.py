"""`ranking compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from ranking.data.readers.opening import open_bytes
from ranking.data.readers.read import HEAD
from ranking.data.readers.trec import RunReader
from ranking.io.tensors import looks_like_tensors, write_bytes
from ranking.metrics.comparison import Comparison
from ranking.metrics.comparison import compare as compare_systems
from ranking.metrics.evaluate import Values
from ranking.metrics.parse import parse_metrics
from ranking_cli.compare_report import report
from ranking_cli.evaluate import measure_model, measure_run
from ranking_cli.options import (
    existing,
    kernel_option,
    metrics_option,
    reader_option,
    threads_option,
)
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
@reader_option
@kernel_option
@threads_option
def compare(
    files: tuple[Path, ...],
    metrics: str,
    output: Path | None,
    form: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Compare models on DATA, or TREC runs against judgements.

    Every pair of systems, by every metric: the means, the difference B - A with a 95 % bootstrap
    interval, p-values of a paired randomisation test and of the paired t-test, both also corrected
    by Holm's method for the number of comparisons, and on how many queries B wins, ties and loses.
    Several DATA files count as one.

    \b
    ranking compare base.safetensors new.safetensors test.txt --metrics ndcg@10,map
    ranking compare base.run new.run judged.qrels -o report.html
    """
    systems, data = _divided(files)
    if len(set(systems)) < len(systems):
        raise click.UsageError("a system is given twice; name each once.")
    runs = [_is_run(path) for path in systems]
    if len(set(runs)) > 1:
        raise click.UsageError("give models only, with DATA, or runs only, with QRELS.")
    if runs[0] and len(data) > 1:
        raise click.UsageError(
            f"runs are measured against one file of judgements, not {len(data)}; join them first."
        )
    chosen = list({metric.spelled(): metric for metric in parse_metrics(metrics)}.values())
    measured = {
        str(path): measure_run(path, data[0], chosen, kernel, threads)
        if runs[0]
        else measure_model(path, data, chosen, reader, kernel, threads)
        for path in systems
    }
    queries, values = _aligned(measured)
    comparisons = compare_systems(chosen, queries, values, kernel)
    click.echo(render([_row(one) for one in comparisons], form), nl=False)
    if output is not None:
        write_bytes(output, report(comparisons, ", ".join(map(str, data))).encode())
        click.echo(f"wrote {output}", err=True)


def _divided(files: tuple[Path, ...]) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
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


def _aligned(
    measured: dict[str, tuple[list[str], Values]],
) -> tuple[list[str], dict[str, Values]]:
    """Bring all systems to the same queries; what a system lacks is NaN."""
    queries = list(dict.fromkeys(query for some, _ in measured.values() for query in some))
    place = {query: at for at, query in enumerate(queries)}
    values: dict[str, Values] = {}
    for system, (some, columns) in measured.items():
        at = [place[query] for query in some]
        values[system] = {
            name: _spread(column, at, len(queries)) for name, column in columns.items()
        }
    return queries, values


def _spread(column: NDArray[np.float64], at: list[int], size: int) -> NDArray[np.float64]:
    spread = np.full(size, np.nan)
    spread[at] = column
    return spread


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
