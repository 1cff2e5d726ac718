"""`ranking bound`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import click

from ranking import JudgedLists
from ranking.contracts import LinearLoss
from ranking.registry import get_registry
from ranking_cli.options import Resources, existing, reader_option
from ranking_cli.tables import format_option, render
from ranking_plugins.bound import bound as bound_of


@click.command()
@click.argument("model", type=existing)
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "--delta",
    type=click.FloatRange(0, 0.5, min_open=True, max_open=True),
    default=0.05,
    show_default=True,
    help="The bound may fail with twice this probability.",
)
@format_option
@reader_option
def bound(model: Path, data: tuple[Path, ...], delta: float, form: str, reader: str) -> None:
    """Bound the generalization error of an alignment model.

    The bound is on the difference between the alignment of MODEL on its training DATA and on unseen
    queries: theorems 4 (orthonormal) and 5 (l1l2-row, max-norm) of Wu, Lu and Li (2013), with all
    quantities in them. It holds for all maps that the regularizer allows, so it is wide.

    \b
    ranking bound rmls.safetensors clicks.tsv
    """
    resources = Resources(reader, kernel="auto", threads=1)
    ranker = resources.load(model)
    described = ranker.to_model_data(resources.read(data))
    factored: Any = ranker.model_
    if isinstance(described, JudgedLists) or factored.form != "factors":
        raise click.ClickException("bounds are for factored models of queries and documents.")
    registry = get_registry()
    loss = registry.create("loss", ranker.loss)
    if "linear" not in loss.interfaces:
        raise click.ClickException(
            f"bounds are for loss alignment, and this model was trained with {loss.name}."
        )
    regularizer = registry.create("regularizer", ranker.regularizer)
    result = bound_of(factored, cast(LinearLoss, loss), regularizer, described, delta)
    click.echo(render(result.rows(), form), nl=False)
