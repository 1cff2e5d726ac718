"""`ranking compare`."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator
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
from ranking_cli.tables import READABLE, definitions, format_option, render, short_names


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

    Prints the means of all systems, with the letters of the systems that each is significantly
    better than, and for each pair: the difference B - A with a 95 % bootstrap interval, p-values of
    a paired randomisation test and of the paired t-test, both corrected by Holm's method for the
    number of comparisons, and on how many queries B wins, ties and loses. Several DATA files count
    as one.

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
    if form in READABLE:
        click.echo(_tables(evaluations, comparisons, form), nl=False)
    else:
        click.echo(render([_row(one) for one in comparisons], form), nl=False)
    if target is not None:
        target.write_text(report(comparisons, ", ".join(map(str, data))))
        click.echo(f"wrote {output}", err=True)


LEVEL = 0.05
"""Holm-corrected p-values of the randomisation test below this get a letter."""


def _tables(evaluations: dict[str, Any], comparisons: Any, form: str) -> str:
    """Return systems by metrics, pairs of systems, and the definitions."""
    letters = dict(zip(evaluations, _letters(), strict=False))
    names = {label: full for one in evaluations.values() for label, full in one.names.items()}
    short = short_names(names)
    worse: dict[tuple[str, str], str] = {}
    for one in comparisons:
        if one.p_randomisation_holm < LEVEL:
            better, other = (one.b, one.a) if one.difference > 0 else (one.a, one.b)
            if not one.higher_is_better:
                better, other = other, better
            worse[better, one.metric] = worse.get((better, one.metric), "") + letters[other]
    systems = [
        {
            "": letter,
            "system": _tail(system),
            **{
                name: f"{evaluations[system].mean(full):.4f} {worse.get((system, full), ''):2}"
                for full, name in short.items()
            },
        }
        for system, letter in letters.items()
    ]
    pairs = [
        {
            "A": letters[one.a],
            "B": letters[one.b],
            "metric": short[one.metric],
            "B - A": one.difference,
            "low": one.interval.low,
            "high": one.interval.high,
            "p Holm": one.p_randomisation_holm,
            "p t Holm": one.p_t_holm,
            "w/t/l": f"{one.wins}/{one.ties}/{one.losses}",
        }
        for one in comparisons
    ]
    note = f"A letter behind a mean: better than that system, p Holm < {LEVEL}."
    mark = "% " if form == "latex" else ""
    return (
        f"{render(systems, form)}\n{mark}{note}\n\n{render(pairs, form)}{definitions(short, form)}"
    )


def _letters() -> Iterator[str]:
    """Yield a, b, ..., z, aa, ab, ..."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    for length in itertools.count(1):
        for letters in itertools.product(alphabet, repeat=length):
            yield "".join(letters)


def _tail(name: str, width: int = 32) -> str:
    """Return the end of a long path, which tells files apart."""
    return name if len(name) <= width else "..." + name[-(width - 3) :]


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
