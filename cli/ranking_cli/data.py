"""`ranking data`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from ranking import MatchingData, describe_data, find_reader, write_data
from ranking.errors import DataWarning
from ranking_cli.click_log import write_propensities
from ranking_cli.files import output_of
from ranking_cli.get_data import DATASETS, get_data
from ranking_cli.options import Resources, existing, resources_options
from ranking_cli.split_data import METHODS, Split, split_files
from ranking_cli.tables import format_option, render
from ranking_cli.terminal import echo

GET = Path("get")
FORMATS = ("letor", "qrels", "run", "tsv", "parquet")


@click.command()
@click.argument("path", type=click.Path(path_type=Path), metavar="PATH|get")
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--convert", type=click.Choice(FORMATS), help="Write the data in this format.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Output file of --convert, compressed if it ends in .gz; folder of --split and get.",
)
@click.option(
    "--split",
    "method",
    type=click.Choice(METHODS),
    help="Write train and test files into the folder of -o.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="For --split: the approximate share for test; by default 0.2.",
)
@click.option(
    "--valid", is_flag=True, help="For --split: also write validation data, split from train."
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Random seed of --split.",
)
@click.option(
    "--propensities",
    is_flag=True,
    help="Estimate the position bias of a log of clicks; -o has the clicks with propensities.",
)
@format_option
@resources_options
def data(path: Path, form: str, resources: Resources, **options: Any) -> None:
    """Inspect, convert or split PATH, or write a demo data set.

    Shows format, counts, grades, sparsity, ids and warnings. With --convert the data are written
    instead, where the formats hold the same kind of data: letor from letor, qrels and run from TREC
    or BEIR files, tsv and parquet from interactions.

    --split writes train and test into a folder, in the format of PATH, and texts with judgements
    as a BEIR folder: by-query (no query is divided), by-time (the latest interactions are for
    test), leave-one-out (the last interaction of each user, or a random one) or random.

    --propensities takes a log with a header and one row per document that was shown: query,
    document, position and click (0 or 1). It estimates how likely each position is examined.

    `get NAME` writes a synthetic data set, without a download: demo, search results as train.txt,
    valid.txt and test.txt, into the folder of -o, by default NAME.

    \b
    ranking data get demo -o demo
    ranking data train.txt.gz
    ranking data ratings.dat --convert parquet -o ratings.parquet
    ranking data ratings.csv --split leave-one-out --valid -o split
    ranking data log.csv --propensities -o clicks.csv
    """
    name, convert, output = (options[key] for key in ("name", "convert", "output"))
    if name is not None or (path == GET and not path.exists()):
        _get(path, name, convert, output)
        return
    path = existing.convert(path, None, click.get_current_context())
    if options["propensities"]:
        if convert is not None or options["method"] is not None:
            raise click.UsageError("--propensities is without --convert and --split.")
        if output is not None:
            output_of(output, [path], resources.reader)
        write_propensities(path, output, form)
        return
    if options["method"] is not None:
        if convert is not None or output is None:
            raise click.UsageError("--split needs -o, a folder, and is without --convert.")
        split_files(path, resources, output, Split.of(options))
        return
    if options["share"] is not None or options["valid"]:
        raise click.UsageError("--share and --valid are for --split; name a method.")
    if (convert is None) != (output is None):
        raise click.UsageError("--convert and -o go together: the format and where to write it.")
    if output is not None and output.is_dir():
        raise click.UsageError(f"{output} is a folder; name the file that --convert writes.")
    if output is not None:
        output_of(output, [path], resources.reader)
    _show_or_convert(path, resources, convert, output, form)


def _show_or_convert(
    path: Path, resources: Resources, convert: str | None, output: Path | None, form: str
) -> None:
    """Read the data, and write them in another format or print what they are."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        reader = find_reader(
            path, resources.reader, kernel=resources.kernel, threads=resources.threads
        )
        content = reader.read(path)
    for one in caught:
        if not issubclass(one.category, DataWarning):
            echo(f"Warning: {one.message}", err=True)
    messages = [str(one.message) for one in caught if issubclass(one.category, DataWarning)]
    if convert is not None and output is not None:
        _convert(content, convert, output, messages)
        return
    rows: list[dict[str, Any]] = [{"what": "format", "value": reader.name}]
    summary = describe_data(content)
    messages += summary.pop("warnings")
    rows += [{"what": what, "value": value} for what, value in summary.items()]
    rows += [{"what": "warning", "value": text} for text in messages]
    click.echo(render(rows, form), nl=False)


def _convert(content: Any, form: str, output: Path, messages: list[str]) -> None:
    """Write data in another format, and say what was left out."""
    write_data(content, form, output)
    for message in messages:
        echo(message, err=True)
    if isinstance(content, MatchingData) and (
        content.queries is not None or content.documents is not None
    ):
        click.echo(f"features are not written: {output} has the interactions.", err=True)
    click.echo(f"{output} written.", err=True)


def _get(path: Path, name: str | None, convert: str | None, output: Path | None) -> None:
    if path != GET:
        raise click.UsageError(f"give one PATH, or `get NAME`; {name} is not expected.")
    if name is None:
        raise click.UsageError(f"say which data set: {', '.join(DATASETS)}.")
    if convert is not None:
        raise click.UsageError("--convert is for a PATH; get the data first.")
    for file in get_data(name, output or Path(name)):
        click.echo(f"{file} written.", err=True)
