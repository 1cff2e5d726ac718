"""`ranking data`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from ranking.data.describe import describe, find_problems
from ranking.data.matching_data import MatchingData
from ranking.data.readers.read import recognise
from ranking.data.synthetic import SYNTHETIC_DATA
from ranking.data.writers import FORMATS, write
from ranking.errors import DataWarning
from ranking_cli.get_data import get_data
from ranking_cli.options import existing, kernel_option, reader_option, threads_option
from ranking_cli.tables import format_option, render

GET = Path("get")


@click.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH|get")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--convert", type=click.Choice(FORMATS), help="Write the same data in this format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where --convert writes, compressed if it ends in .gz; for get, a folder.",
)
@format_option
@reader_option
@kernel_option
@threads_option
@click.pass_context
def data(
    ctx: click.Context,
    path: Path,
    name: str | None,
    convert: str | None,
    output: Path | None,
    form: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Show what PATH holds, convert it, or get a data set.

    Format, counts, grades, sparsity, ids and what deserves a warning are shown. With --convert the
    data are written instead, where the formats hold the same kind of data:
    letor from letor, qrels and run from TREC or BEIR files, tsv and parquet from interactions.

    `get NAME` writes a data set that is made here, nothing is downloaded: demo, search results as
    train.txt, valid.txt and test.txt, into the folder of -o, by default NAME.

    \b
    ranking data get demo -o demo
    ranking data train.txt.gz
    ranking data ratings.dat --convert parquet -o ratings.parquet
    """
    if name is not None or (path == GET and not path.exists()):
        _get(path, name, convert, output)
        return
    path = existing.convert(path, None, ctx)
    if (convert is None) != (output is None):
        raise click.UsageError("--convert and -o go together: the format and where to write it.")
    if output is not None and output.is_dir():
        raise click.UsageError(f"{output} is a folder; name the file that --convert writes.")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        recognised = recognise(path, reader, kernel=kernel, threads=threads)
        found = recognised.reader.read(path)
    told = [str(one.message) for one in caught if issubclass(one.category, DataWarning)]
    if convert is not None and output is not None:
        write(found, convert, output)
        for message in told:
            click.echo(message, err=True)
        if isinstance(found, MatchingData) and (
            found.queries is not None or found.documents is not None
        ):
            click.echo(f"features are not written: {output} has the interactions.", err=True)
        click.echo(f"{output} written.", err=True)
        return
    rows: list[dict[str, Any]] = [{"what": "format", "value": recognised.name}]
    rows += [{"what": what, "value": value} for what, value in describe(found).items()]
    rows += [{"what": "warning", "value": message} for message in [*told, *find_problems(found)]]
    click.echo(render(rows, form), nl=False)


def _get(path: Path, name: str | None, convert: str | None, output: Path | None) -> None:
    if path != GET:
        raise click.UsageError(f"give one PATH, or `get NAME`; {name} is too much.")
    if name is None:
        raise click.UsageError(f"say which data set: {', '.join(SYNTHETIC_DATA)}.")
    if convert is not None:
        raise click.UsageError("--convert is for a PATH; get the data first.")
    for file in get_data(name, output or Path(name)):
        click.echo(f"{file} written.", err=True)
