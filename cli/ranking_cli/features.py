"""`ranking features`."""

from __future__ import annotations

from pathlib import Path

import click

from ranking import Ranker
from ranking.data.judged_lists import JudgedLists
from ranking.data.readers.read import read_trainable
from ranking.data.writers import write
from ranking.inference.score_features import judged_pairs, with_scores
from ranking_cli.options import existing, kernel_option, reader_option, threads_option


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
    help="Another model, whose scores are the next column; may be given again.",
)
@click.option(
    "--append",
    type=existing,
    help="Judged rows (LETOR) that get the scores as new columns; by default the judged pairs of "
    "DATA are the rows.",
)
@reader_option
@kernel_option
@threads_option
def features(
    model: Path,
    data: tuple[Path, ...],
    output: Path,
    others: tuple[Path, ...],
    append: Path | None,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Write the scores of MODEL for pairs of DATA as features, for another ranker to learn from.

    A row is a judged pair: its grade, query and document. With --append the rows are those of a
    LETOR file, and their queries and documents (qid, and docid in the comment) are found in DATA
    by id.

    \b
    ranking features rmls.safetensors collection -o pairs.txt
    ranking features rmls.safetensors collection --append judged.txt -o more.txt
    ranking train more.txt --recipe domination -o combined.safetensors
    """
    rankers = [Ranker.load(path, kernel=kernel, threads=threads) for path in (model, *others)]
    given = read_trainable(data, reader, kernel=kernel, threads=threads)
    if isinstance(given, JudgedLists):
        raise click.UsageError("DATA must be queries and documents; judged rows go to --append.")
    if append is None:
        made = judged_pairs(rankers, given)
    else:
        rows = read_trainable([append], "auto", kernel=kernel, threads=threads)
        if not isinstance(rows, JudgedLists):
            raise click.UsageError(f"{append} has no judged rows (LETOR).")
        made = with_scores(rows, rankers, given)
    write(made, "letor", output)
    names = ", ".join(str(name) for name in made.feature_ids[-len(rankers) :])
    click.echo(f"{made.n_rows} rows, scores in feature {names}, written to {output}", err=True)
