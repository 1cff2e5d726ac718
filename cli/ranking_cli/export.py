"""`ranking export`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ranking.io import EXPORT_FORMATS
from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing, resources_options


@click.command()
@click.argument("model", type=existing)
@click.option(
    "--to", required=True, type=click.Choice(list(EXPORT_FORMATS)), help="The format to write."
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="The output file, or a folder for formats of several files.",
)
@click.option(
    "--data",
    multiple=True,
    type=existing,
    help="Queries and documents whose embeddings are written; by default those of the training.",
)
@click.option("--name", default="ranking", help="The name of the model in the target.")
@click.option(
    "--names", type=existing, help="A file with one name per feature of a linear model, in order."
)
@click.option("--overwrite", is_flag=True, help="Replace files of a folder that is not empty.")
@resources_options
def export(model: Path, to: str, output: Path, resources: Resources, **options: Any) -> None:
    """Export MODEL to a format of another program, including its scaling.

    What a format cannot express is refused with the reason.

    \b
    ranking export linear.safetensors --to elasticsearch-ltr --name products -o products.json
    ranking export films.safetensors --to parquet -o films
    """
    data, names = options["data"], options["names"]
    inputs = [one for one in (model, *data, names) if one is not None]
    if output.is_dir():
        _refuse_inputs_in(output, inputs)
    else:
        output_of(output, inputs)
    files = resources.load(model).export(
        output,
        to,
        data=resources.read(list(data)) if data else None,
        name=options["name"],
        feature_names=None if names is None else _lines(names),
        overwrite=options["overwrite"],
    )
    for file in files:
        click.echo(f"{file} written ({file.stat().st_size} bytes)", err=True)


def _refuse_inputs_in(folder: Path, inputs: list[Path]) -> None:
    """Refuse a folder that holds an input, which a file of the export could replace."""
    for one in inputs:
        if one.resolve().parent == folder.resolve():
            raise click.UsageError(
                f"the input {one} is in the folder {folder}, whose files may be replaced; name "
                "another output."
            )


def _lines(path: Path) -> list[str]:
    if not path.is_file():  # reading a FIFO would wait for a writer
        raise click.UsageError(f"{path} is not a regular file; name a file of names.")
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{path} is not UTF-8: {error}.") from error
