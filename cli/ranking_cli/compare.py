"""`ranking compare`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click

from ranking import compare as compare_systems
from ranking import find_reader, parse_metrics
from ranking.errors import DataError
from ranking_cli.compare_report import report
from ranking_cli.evaluate import measure_model, measure_run
from ranking_cli.files import output_of
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
    target = None if output is None else output_of(output, files, resources.reader)
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
    words = list(parse_metrics(metrics))
    evaluations = {
        str(path): measure_run(path, data[0], words, resources)
        if runs[0]
        else measure_model(path, data, words, resources)
        for path in systems
    }
    comparisons = compare_systems(evaluations, kernel=resources.kernel)
    click.echo(render([_row(one) for one in comparisons], form), nl=False)
    if target is not None:
        target.write_text(report(comparisons, ", ".join(map(str, data))))
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
    return _is_model(path) or _is_run(path)


def _is_model(path: Path) -> bool:
    """Say whether a file begins as safetensors do: a length of 8 bytes, then JSON."""
    with path.open("rb") if path.is_file() else io.BytesIO() as stream:
        return stream.read(9)[8:] == b"{"


def _is_run(path: Path) -> bool:
    try:
        return find_reader(path).name == "run"
    except DataError:
        return False


def _row(one: Any) -> dict[str, Any]:
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
