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
    help="A file; a folder for formats of several files.",
)
@click.option(
    "--data",
    multiple=True,
    type=existing,
    help="Whose queries and documents get embeddings; by default users and items of the training.",
)
@click.option("--name", default="ranking", help="The name of the model in the target.")
@click.option(
    "--names", type=existing, help="A file with one name per feature of a linear model, in order."
)
@click.option("--overwrite", is_flag=True, help="Replace files of a folder that is not empty.")
@resources_options
def export(model: Path, to: str, output: Path, resources: Resources, **options: Any) -> None:
    """Write MODEL in a format of another program; scaling is folded in.

    What a format cannot express is refused with the reason.

    \b
    ranking export linear.safetensors --to elasticsearch-ltr --name products -o products.json
    ranking export films.safetensors --to parquet -o films
    """
    data, names = options["data"], options["names"]
    if not output.is_dir():
        output_of(output, [model, *data, names])
    feature_names = None
    if names is not None:
        feature_names = [line.strip() for line in names.read_text(encoding="utf-8").splitlines()]
    files = resources.load(model).export(
        output,
        to,
        data=resources.read(list(data)) if data else None,
        name=options["name"],
        feature_names=feature_names,
        overwrite=options["overwrite"],
    )
    for file in files:
        click.echo(f"{file} written ({file.stat().st_size} bytes)", err=True)
