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
@click.option(
    "--candidates",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Add the N best documents of each query by MODEL, with grade 0 if not judged.",
)
@resources_options
def features(
    model: Path,
    data: tuple[Path, ...],
    output: Path,
    others: tuple[Path, ...],
    append: Path | None,
    candidates: int,
    resources: Resources,
) -> None:
    """Write the scores of MODEL as features, on which another ranker is trained.

    There is one row per judged pair: its grade, query and document. With --candidates the best
    documents by MODEL are rows too, so that a ranker learns to order what MODEL finds. With
    --append the rows are those of a LETOR file, whose queries and documents (qid, and docid in the
    comment) are looked up in DATA by id.

    \b
    ranking features rmls.safetensors collection -o pairs.txt
    ranking features bm25.safetensors beir --model lsi.safetensors --candidates 100 -o best.txt
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
    if append is not None and candidates:
        raise click.UsageError("--append has the rows already; leave --candidates out.")
    rows = scores_as_features(rankers, pairs, judged, candidates=candidates)
    write_data(rows, "letor", output)
    names = ", ".join(str(name) for name in rows.feature_ids[-len(rankers) :])
    click.echo(f"{rows.n_rows} rows, scores in feature {names}, written to {output}", err=True)
