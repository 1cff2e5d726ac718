"""`ranking rank`."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from ranking import JudgedLists, Ranker
from ranking._utils.files import write_bytes
from ranking.data.inputs import Trainable, among_known
from ranking_cli.options import Resources, exclude_option, existing, resources_options
from ranking_cli.queries import text_features

ENDINGS = {".txt": "trec", ".run": "trec", ".jsonl": "jsonl", ".csv": "csv"}


class Ranked(NamedTuple):
    """One line of a ranking."""

    query: str
    document: str
    rank: int
    score: float


@dataclasses.dataclass(frozen=True)
class Request:
    """What `ranking rank` is called with, beside model, data and output."""

    k: int | None
    form: str | None
    exclude: tuple[Path, ...]
    candidates: Path | None
    tag: str


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
    help="A file with one document id per line: only these are ranked.",
)
@click.option("--tag", default="ranking", show_default=True, help="The run's name in a TREC file.")
@resources_options
def rank(
    model: Path,
    data: tuple[str, ...],
    output: Path | None,
    resources: Resources,
    **options: Any,
) -> None:
    """Rank the documents of each query in DATA by MODEL, or search its texts for a QUERY.

    Best first; equal scores by document id. Ranks count from 1, scores have full precision. A TREC
    line is: query Q0 document rank score tag. An argument that is not a path is a query in words,
    for a model that was trained on texts: the documents of its training data are ranked, the 10
    best by default. Items without features are ranked among all items that the model knows.

    \b
    ranking rank model.safetensors test.txt -k 10 -o top10.run
    ranking rank words.safetensors "a team that plays hockey"
    ranking rank films.safetensors ratings.csv -k 10 --exclude ratings.csv -o offers.jsonl
    """
    request = Request(**options)
    ranker = resources.load(model)
    if any(_is_path(word) for word in data):
        lines = _rank_data(ranker, _paths(data), request, resources)
    elif request.exclude or request.candidates:
        raise click.UsageError("--exclude and --candidates are for queries that are data.")
    else:
        lines = _search(ranker, data, request.k or 10)
    form = request.form or (ENDINGS.get(output.suffix, "trec") if output else "trec")
    text = io.StringIO()
    if form == "csv":
        text.write("query,document,rank,score\n")
    for line in lines:
        text.write(_line(line, form, request.tag))
    if output is None:
        click.echo(text.getvalue(), nl=False)
    else:
        write_bytes(output, text.getvalue().encode())


def _is_path(word: str) -> bool:
    """Say whether there is such a file or folder; an empty text is not the current folder."""
    return bool(word.strip()) and Path(word).exists()


def _paths(data: tuple[str, ...]) -> list[Path]:
    missing = [word for word in data if not _is_path(word)]
    if missing:
        raise click.UsageError(
            f"{missing[0]} does not exist, and other arguments are paths; give paths only, or "
            "queries in words only."
        )
    return [Path(word) for word in data]


def _search(ranker: Ranker, texts: tuple[str, ...], k: int) -> Iterator[Ranked]:
    """Search for each text; its id is its words joined by hyphens, as TREC ids have no spaces."""
    if ranker.documents_ is None:
        raise click.UsageError(
            f"there is no file {texts[0]!r}, and this model holds no texts that could be searched "
            "for it; name data, or train a model on texts."
        )
    for text in texts:
        if not text_features(ranker, text).nnz:
            raise click.UsageError(
                f"the model knows no word of {text!r}; if it is a path, there is no such file."
            )
    for text, results in zip(texts, ranker.search(texts, k), strict=True):
        query = "-".join(text.split()) or "query"
        for position, (document, score) in enumerate(results, start=1):
            yield Ranked(query, str(document), position, score)


def _candidates(path: Path, data: Trainable) -> list[Any]:
    """Return the ids of a file that the data have, with the type that they have there."""
    if isinstance(data, JudgedLists):
        raise click.UsageError("--candidates is for queries and documents, not for judged rows.")
    try:
        words = [word.strip() for word in path.read_text(encoding="utf-8").split("\n")]
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--candidates {path} cannot be read: {error}.") from error
    known = {str(name): name for name in data.document_ids.tolist()}
    ids = [known[word] for word in words if word in known]
    if not ids:
        raise click.UsageError(
            f"--candidates {path} names no document of the data; give one id per line, such as "
            f"{next(iter(known))}."
        )
    return ids


def _rank_data(
    ranker: Ranker, paths: list[Path], request: Request, resources: Resources
) -> Iterator[Ranked]:
    """Rank the documents of each query of the data."""
    data = among_known(ranker.described(resources.read(paths)), ranker.model_)
    limits: dict[str, Any] = {}
    if request.exclude:
        limits["exclude"] = [resources.read([path]) for path in request.exclude]
    if request.candidates:
        limits["candidates"] = _candidates(request.candidates, data)
    if isinstance(data, JudgedLists):
        if limits:
            raise click.UsageError("--exclude is for queries and documents, not for judged rows.")
        yield from _rank_lists(ranker, data, request.k)
        return
    for result in ranker.rank(data, request.k, **limits):
        names = data.document_ids[result.documents].tolist()
        for position, (name, score) in enumerate(zip(names, result.scores, strict=True), start=1):
            yield Ranked(str(data.query_ids[result.query]), str(name), position, float(score))


def _rank_lists(ranker: Ranker, data: JudgedLists, k: int | None) -> Iterator[Ranked]:
    """Rank the rows of each judged list."""
    scores = ranker.score_rows(data)
    for index, query in enumerate(data.query_ids):
        start, stop = data.group_ptr[index : index + 2]
        documents = data.doc_ids[start:stop]
        order = np.lexsort((documents, -scores[start:stop]))[:k]
        for position, row in enumerate(order, start=1):
            yield Ranked(str(query), str(documents[row]), position, float(scores[start + row]))


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
