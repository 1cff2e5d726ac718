"""`ranking rank`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click

from ranking import JudgedLists, MatchingData, RankedResults, Ranker
from ranking.io import IdWriter, encode_id
from ranking_cli.files import output_of
from ranking_cli.options import Resources, exclude_option, existing, resources_options
from ranking_cli.queries import text_features
from ranking_cli.terminal import echo

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
@click.option("-k", type=click.IntRange(1), help="Number of documents per query; by default all.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The output file; by default standard output.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["trec", "jsonl", "csv"]),
    help="Output format; by default from the suffix of -o (.txt, .run, .jsonl, .csv), else trec.",
)
@exclude_option
@click.option(
    "--candidates",
    type=existing,
    help="A file with one document id per line: only these documents are ranked.",
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
    line is: query Q0 document rank score tag, with a hyphen for a blank in an id. An argument that
    is not a path is a query in words, for a model that was trained on texts: the documents of its
    training data are ranked, the 10 best by default. Items without features are ranked among all
    items that the model knows.

    \b
    ranking rank model.safetensors test.txt -k 10 -o top10.run
    ranking rank words.safetensors "a team that plays hockey"
    ranking rank films.safetensors ratings.csv -k 10 --exclude ratings.csv -o offers.jsonl
    """
    request = Request(**options)
    searched = not any(_is_path(word) for word in data)
    target = None
    if output is not None:
        inputs = [model, *(() if searched else data), *request.exclude, request.candidates]
        target = output_of(output, inputs, resources.reader)
    ranker = resources.load(model)
    if searched and (request.exclude or request.candidates):
        raise click.UsageError("--exclude and --candidates are for queries that are data.")
    if searched:
        results = _search(ranker, data, request.k or 10)
    else:
        results = _rank_data(ranker, _paths(data), request, resources)
    form = request.form or (ENDINGS.get(output.suffix, "trec") if output else "trec")
    text = "".join(_lines(results, form, encode_id(request.tag, "trec"), searched))
    if target is None:
        echo(text, nl=False)
    else:
        target.write_text(text)


def _lines(results: RankedResults, form: str, tag: str, searched: bool) -> Iterator[str]:
    """Yield the lines of the output; ids cannot break them."""
    if form == "csv":
        yield "query,document,rank,score\n"
    queries, documents = IdWriter(form, "query"), IdWriter(form, "document")
    for query, ranked in results:
        name = encode_id(query, "trec") if searched else str(query)
        for rank_of, (document, score) in enumerate(ranked, start=1):
            if form == "jsonl":
                line = Ranked(name, str(document), rank_of, score)
                yield json.dumps(line._asdict()) + "\n"
            elif form == "csv":
                yield f"{queries(name)},{documents(document)},{rank_of},{score!r}\n"
            else:
                yield f"{queries(name)} Q0 {documents(document)} {rank_of} {score!r} {tag}\n"


def _is_path(word: str) -> bool:
    """Say whether there is such a file or folder; an empty text is not the current folder."""
    try:
        return bool(word.strip()) and Path(word).exists()
    except (OSError, ValueError):  # too long, or with a NUL
        return False


def _paths(data: tuple[str, ...]) -> list[Path]:
    missing = [word for word in data if not _is_path(word)]
    if missing:
        raise click.UsageError(
            f"{missing[0]} does not exist, and other arguments are paths; give paths only, or "
            "queries in words only."
        )
    return [Path(word) for word in data]


def _search(ranker: Ranker, texts: tuple[str, ...], k: int) -> RankedResults:
    """Search for each text, after a check that the model knows words of it."""
    if ranker.documents_ is None:
        raise click.UsageError(
            f"there is no file {texts[0]!r}, and this model holds no texts that could be searched "
            "for it; name data, or train a model on texts."
        )
    for text in texts:
        if not text_features(ranker, text).nnz:
            raise click.UsageError(
                f"none of the words in {text!r} are in the vocabulary; if it is a path, there is "
                "no such file."
            )
    return ranker.search(texts, k)


def _candidates(path: Path, data: JudgedLists | MatchingData) -> list[Any]:
    """Return the ids of a file that the data have, with the type that they have there."""
    if isinstance(data, JudgedLists):
        raise click.UsageError("--candidates is for queries and documents, not for judged rows.")
    if not path.is_file():  # reading a FIFO would wait for a writer
        raise click.UsageError(f"--candidates {path} is not a regular file; name a file of ids.")
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
) -> RankedResults:
    """Rank the documents of each query of the data."""
    data = ranker.to_model_data(resources.read(paths))
    limits: dict[str, Any] = {}
    if request.exclude:
        limits["exclude"] = [resources.read([path]) for path in request.exclude]
    if request.candidates:
        limits["candidates"] = _candidates(request.candidates, data)
    if limits and isinstance(data, JudgedLists):
        raise click.UsageError("--exclude is for queries and documents, not for judged rows.")
    return ranker.rank(data, request.k, **limits)
