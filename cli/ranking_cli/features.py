"""`ranking features`."""

from __future__ import annotations

from pathlib import Path

import click

from ranking import JudgedLists, scores_as_features, write_data
from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing, resources_options


@click.command()
@click.argument("model", type=existing)
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A LETOR (SVMlight) file; compressed if it ends in .gz.",
)
@click.option(
    "--model",
    "others",
    multiple=True,
    type=existing,
    help="Another model, whose scores are the next column; repeatable.",
)
@click.option(
    "--append",
    type=existing,
    help="Judged rows (LETOR) that get the scores as new columns; by default the judged pairs of "
    "DATA are the rows.",
)
@resources_options
def features(
    model: Path,
    data: tuple[Path, ...],
    output: Path,
    others: tuple[Path, ...],
    append: Path | None,
    resources: Resources,
) -> None:
    """Write the scores of MODEL as features, on which another ranker is trained.

    There is one row per judged pair: its grade, query and document. With --append the rows are
    those of a LETOR file, whose queries and documents (qid, and docid in the comment) are looked up
    in DATA by id.

    \b
    ranking features rmls.safetensors collection -o pairs.txt
    ranking features rmls.safetensors collection --append judged.txt -o more.txt
    ranking train more.txt --recipe domination -o combined.safetensors
    """
    output_of(output, [model, *data, *others, append], resources.reader)
    rankers = [resources.load(path) for path in (model, *others)]
    pairs = resources.read(data)
    if isinstance(pairs, JudgedLists):
        raise click.UsageError("DATA must be queries and documents; judged rows go to --append.")
    judged = None if append is None else resources.read([append], "auto")
    if judged is not None and not isinstance(judged, JudgedLists):
        raise click.UsageError(f"{append} has no judged rows (LETOR).")
    rows = scores_as_features(rankers, pairs, judged)
    write_data(rows, "letor", output)
    names = ", ".join(str(name) for name in rows.feature_ids[-len(rankers) :])
    click.echo(f"{rows.n_rows} rows, scores in feature {names}, written to {output}", err=True)
