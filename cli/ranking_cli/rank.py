"""`ranking rank`."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from ranking import Ranker
from ranking._utils.files import write_bytes
from ranking.data.inputs import Trainable, among_known
from ranking.data.judged_lists import JudgedLists
from ranking.data.readers.read import read_trainable
from ranking_cli.options import (
    exclude_option,
    existing,
    kernel_option,
    reader_option,
    threads_option,
)
from ranking_cli.queries import described

ENDINGS = {".txt": "trec", ".run": "trec", ".jsonl": "jsonl", ".csv": "csv"}


class Ranked(NamedTuple):
    """One line of a ranking."""

    query: str
    document: str
    rank: int
    score: float


@click.command()
@click.argument("model", type=existing)
@click.argument("data", nargs=-1, required=True, metavar="DATA_OR_QUERY...")
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
@exclude_option
@click.option(
    "--candidates",
    type=existing,
    help="A file with a document id a line: only these are ranked.",
)
@click.option("--tag", default="ranking", show_default=True, help="The run's name in a TREC file.")
@reader_option
@kernel_option
@threads_option
def rank(
    model: Path,
    data: tuple[str, ...],
    k: int | None,
    output: Path | None,
    form: str | None,
    exclude: tuple[Path, ...],
    candidates: Path | None,
    tag: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Rank the documents of each query in DATA by MODEL, or search its texts for a QUERY.

    Best first; equal scores by document id. Ranks count from 1, scores have full precision. A TREC
    line is: query Q0 document rank score tag. What is no path is a query in words, for a model
    that was trained on texts: the documents it was trained on are ranked, the 10 best by default.
    Items without features are ranked with all others that the model knows.

    \b
    ranking rank model.safetensors test.txt -k 10 -o top10.run
    ranking rank words.safetensors "a team that plays hockey"
    ranking rank films.safetensors ratings.csv -k 10 --exclude ratings.csv -o offers.jsonl
    """
    if form is None:
        form = ENDINGS.get(output.suffix, "trec") if output else "trec"
    ranker = Ranker.load(model, kernel=kernel, threads=threads)
    if not any(_is_path(word) for word in data):
        if exclude or candidates:
            raise click.UsageError("--exclude and --candidates are for queries that are data.")
        lines = _searched(ranker, data, k or 10)
    else:
        given = read_trainable(_paths(data), reader, kernel=kernel, threads=threads)
        described_data = among_known(ranker.described(given), ranker.model_)
        limits: dict[str, Any] = {}
        if exclude:
            limits["exclude"] = [
                read_trainable([path], reader, kernel=kernel, threads=threads) for path in exclude
            ]
        if candidates:
            limits["candidates"] = _ids(candidates, described_data)
        lines = _ranked(ranker, described_data, k, limits)
    text = io.StringIO()
    if form == "csv":
        text.write("query,document,rank,score\n")
    for line in lines:
        text.write(_line(line, form, tag))
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_bytes(output, text.getvalue().encode())


def _is_path(word: str) -> bool:
    """Say whether there is such a file or folder; no text at all is not the current folder."""
    return bool(word.strip()) and Path(word).exists()


def _paths(data: tuple[str, ...]) -> list[Path]:
    missing = [word for word in data if not _is_path(word)]
    if missing:
        raise click.UsageError(
            f"{missing[0]} does not exist, and other words are paths; name paths, or one query."
        )
    return [Path(word) for word in data]


def _searched(ranker: Ranker, words: tuple[str, ...], k: int) -> Iterator[Ranked]:
    """Search for each text; a query is called by its own words, joined, as TREC has no spaces."""
    if ranker.documents_ is None:
        raise click.UsageError(
            f"there is no file {words[0]!r}, and this model holds no texts that could be searched "
            "for it; name data, or train a model on texts."
        )
    for word in words:
        if not described(ranker, word).nnz:
            raise click.UsageError(
                f"the model knows no word of {word!r}; if it is a path, there is no such file."
            )
    for words_of, found in zip(words, ranker.search(words, k), strict=True):
        name = "-".join(words_of.split()) or "query"
        for at, (document, score) in enumerate(found, start=1):
            yield Ranked(name, str(document), at, score)


def _ids(path: Path, data: Trainable) -> list[Any]:
    """Return the ids of a file, as the data have them."""
    if isinstance(data, JudgedLists):
        raise click.UsageError("--candidates is for queries and documents, not for judged rows.")
    try:
        words = [word.strip() for word in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--candidates {path} cannot be read: {error}.") from error
    named = {str(name): name for name in data.document_ids.tolist()}
    found = [named[word] for word in words if word in named]
    if not found:
        raise click.UsageError(
            f"--candidates {path} names no document of the data; give ids, one a line, such as "
            f"{next(iter(named))}."
        )
    return found


def _ranked(
    ranker: Ranker, data: Trainable, k: int | None, limits: dict[str, Any]
) -> Iterator[Ranked]:
    if not isinstance(data, JudgedLists):
        for found in ranker.rank(data, k, **limits):
            names = data.document_ids[found.documents].tolist()
            for at, (name, score) in enumerate(zip(names, found.scores, strict=True), start=1):
                yield Ranked(str(data.query_ids[found.query]), str(name), at, float(score))
        return
    if limits:
        raise click.UsageError("--exclude is for queries and documents, not for judged rows.")
    scores = ranker.score_rows(data)
    for position, query in enumerate(data.query_ids):
        start, stop = data.group_ptr[position : position + 2]
        documents = data.doc_ids[start:stop]
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
