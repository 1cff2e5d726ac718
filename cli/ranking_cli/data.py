"""`ranking data`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from ranking.data.describe import describe, doubts
from ranking.data.matching import Matching
from ranking.data.readers.read import recognise
from ranking.data.writers import FORMATS, write
from ranking.errors import DataWarning
from ranking_cli.options import existing, kernel_option, reader_option, threads_option
from ranking_cli.tables import format_option, render


@click.command()
@click.argument("path", type=existing)
@click.option("--convert", type=click.Choice(FORMATS), help="Write the same data in this format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where --convert writes; compressed if it ends in .gz.",
)
@format_option
@reader_option
@kernel_option
@threads_option
def data(
    path: Path,
    convert: str | None,
    output: Path | None,
    form: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Show what PATH holds, or convert it.

    Format, counts, grades, sparsity, ids and what deserves a warning are shown. With --convert the
    data are written instead, where the formats hold the same kind of data:
    letor from letor, qrels and run from TREC or BEIR files, tsv and parquet from interactions.

    \b
    ranking data train.txt.gz
    ranking data ratings.dat --convert parquet -o ratings.parquet
    """
    if (convert is None) != (output is None):
        raise click.UsageError("--convert and -o go together: the format and where to write it.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        recognised = recognise(path, reader, kernel=kernel, threads=threads)
        found = recognised.reader.read(path)
    told = [str(one.message) for one in caught if issubclass(one.category, DataWarning)]
    if convert is not None and output is not None:
        write(found, convert, output)
        for message in told:
            click.echo(message, err=True)
        if isinstance(found, Matching) and (
            found.queries is not None or found.documents is not None
        ):
            click.echo(f"features are not written: {output} has the interactions.", err=True)
        click.echo(f"{output} written.", err=True)
        return
    rows: list[dict[str, Any]] = [{"what": "format", "value": recognised.name}]
    rows += [{"what": what, "value": value} for what, value in describe(found).items()]
    rows += [{"what": "warning", "value": message} for message in [*told, *doubts(found)]]
    click.echo(render(rows, form), nl=False)
