"""`ranking rank`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from ranking import Ranker, read
from ranking.data.judged import Judged
from ranking.files import write_bytes
from ranking_cli.options import existing, kernel_option, reader_option, threads_option

ENDINGS = {".txt": "trec", ".run": "trec", ".jsonl": "jsonl", ".csv": "csv"}


class Ranked(NamedTuple):
    """One line of a ranking."""

    query: str
    document: str
    rank: int
    score: float


@click.command()
@click.argument("model", type=existing)
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option("-k", type=click.IntRange(1), help="Documents per query; by default all.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="By default the terminal.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["trec", "jsonl", "csv"]),
    help="By default from the ending of -o (.txt, .run, .jsonl, .csv), else trec.",
)
@click.option("--tag", default="ranking", show_default=True, help="The run's name in a TREC file.")
@reader_option
@kernel_option
@threads_option
def rank(
    model: Path,
    data: tuple[Path, ...],
    k: int | None,
    output: Path | None,
    form: str | None,
    tag: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Rank the documents of each query in DATA by MODEL.

    Best first; equal scores by document id. Ranks count from 1, scores have full precision. A TREC
    line is: query Q0 document rank score tag.

    \b
    ranking rank model.safetensors test.txt -k 10 -o top10.run
    """
    if form is None:
        form = ENDINGS.get(output.suffix, "trec") if output else "trec"
    judged = read(data, reader, kernel=kernel, threads=threads)
    scores = Ranker.load(model, kernel=kernel, threads=threads).score_rows(judged)
    text = io.StringIO()
    if form == "csv":
        text.write("query,document,rank,score\n")
    for line in _ranked(judged, scores, k):
        text.write(_line(line, form, tag))
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_bytes(output, text.getvalue().encode())


def _ranked(judged: Judged, scores: NDArray[np.float64], k: int | None) -> Iterator[Ranked]:
    for position, query in enumerate(judged.query_ids):
        start, stop = judged.group_ptr[position : position + 2]
        documents = judged.doc_ids[start:stop]
        order = np.lexsort((documents, -scores[start:stop]))[:k]
        for at, row in enumerate(order, start=1):
            yield Ranked(str(query), str(documents[row]), at, float(scores[start + row]))


def _line(line: Ranked, form: str, tag: str) -> str:
    if form == "jsonl":
        return json.dumps(line._asdict()) + "\n"
    if form == "csv":
        return f"{_quoted(line.query)},{_quoted(line.document)},{line.rank},{line.score!r}\n"
    return f"{line.query} Q0 {line.document} {line.rank} {line.score!r} {tag}\n"


def _quoted(text: str) -> str:
    """Quote a CSV field that needs it."""
    if any(character in text for character in ',"\n\r'):
        return '"' + text.replace('"', '""') + '"'
    return text
