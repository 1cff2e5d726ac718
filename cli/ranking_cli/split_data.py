"""`ranking data --split`: write the parts of a data set."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

from ranking import JudgedLists, MatchingData, TextCollection, split_data, write_data
from ranking_cli.options import Resources

METHODS = ("by-query", "by-time", "leave-one-out", "random")


class Split(NamedTuple):
    """How to split.

    Attributes
    ----------
    method : str
    share : float or None
        The approximate share for test.
    valid : bool
        Whether validation data are split from the training data in the same way.
    seed : int
    """

    method: str
    share: float | None
    valid: bool
    seed: int

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Split:
        """Return what the options of the command say."""
        return cls(options["method"], options["share"], options["valid"], options["seed"])


def split_files(path: Path, resources: Resources, folder: Path, split: Split) -> None:
    """Write train, test and perhaps valid, and say what each has."""
    if split.share is not None and split.method == "leave-one-out":
        raise click.UsageError("leave-one-out has its own share; leave --share out.")
    content = resources.read([path])
    if isinstance(content, TextCollection) and not _is_log(content):
        _split_texts(content, path, folder, split)
        return
    form, ending = _format(content, path)
    if isinstance(content, MatchingData) and not (content.queries is content.documents is None):
        click.echo(
            "features are not written, only the interactions; name the tables when you read the "
            "files: --reader interactions:item_features=PATH,user_features=PATH.",
            err=True,
        )
    parts = _parts(content, split)
    folder.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        file = folder / f"{name}{ending}"
        if file.resolve() == path.resolve():
            raise click.UsageError(f"{file} is PATH; name another folder.")
        write_data(part, form, file)
        click.echo(f"{file} written: {_size(part)}.", err=True)
    _report_untrained(parts)


def _split_texts(content: TextCollection, path: Path, folder: Path, split: Split) -> None:
    """Write a BEIR folder with the texts and the judgements of each part."""
    if content.relevance is None:
        raise click.UsageError(
            f"{path} has texts with classes; --split writes texts with judgements. Split it in "
            "Python, by ranking.split_data."
        )
    if folder.resolve() == path.resolve():
        raise click.UsageError(f"{folder} is PATH; name another folder.")
    parts = _parts(content, split)
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    write_data(content, "beir-corpus", folder / "corpus.jsonl")
    write_data(content, "beir-queries", folder / "queries.jsonl")
    for name, part in parts.items():
        file = folder / "qrels" / f"{name}.tsv"
        write_data(part, "beir-qrels", file)
        click.echo(
            f"{file} written: {_size(part)}; read it by --reader beir:split={name}.", err=True
        )


def _is_log(content: TextCollection) -> bool:
    """Return whether texts are their own ids, as in a click log."""
    ids: list[object] = content.query_ids.tolist()
    return ids == list(content.query_texts)


def _parts(content: Any, split: Split) -> dict[str, Any]:
    """Return train, test and perhaps valid."""
    parts = dict(zip(("train", "test"), _halves(content, split), strict=True))
    if split.valid:
        parts["train"], parts["valid"] = _halves(parts["train"], split)
    return parts


def _halves(content: Any, split: Split) -> tuple[Any, Any]:
    share = 0.2 if split.share is None else split.share
    train, test = split_data(content, split.method, share=share, seed=split.seed)
    return train, test


def _format(content: Any, path: Path) -> tuple[str, str]:
    """Return the format of the files, and their ending."""
    if isinstance(content, JudgedLists):
        return "letor", ".txt"
    if isinstance(content, MatchingData) and content.relevance is not None:
        return ("parquet", ".parquet") if path.suffix == ".parquet" else ("tsv", ".tsv")
    if isinstance(content, TextCollection):
        return "clicks", ".tsv"
    raise click.UsageError(
        f"{path} holds a {type(content).__name__}; --split writes judged lists, interactions and "
        "texts with judgements. Split others in Python, by ranking.split_data."
    )


def _size(part: Any) -> str:
    if isinstance(part, JudgedLists):
        return f"{part.n_rows} rows of {part.n_queries} queries"
    n_queries = len(_active(part))
    if isinstance(part, TextCollection):
        return f"{part.relevance.nnz} judgements of {n_queries} queries"
    return f"{part.relevance.nnz} interactions of {n_queries} users"


def _active(part: MatchingData | TextCollection) -> set[Any]:
    rows = part.relevance.indptr
    return set(part.query_ids[rows[1:] > rows[:-1]].tolist())


def _report_untrained(parts: dict[str, Any]) -> None:
    """Say how many users of the other parts have no training data, and what they will get."""
    if not isinstance(parts["train"], MatchingData):
        return
    trained = _active(parts["train"])
    for name in ("valid", "test"):
        missing = sorted(_active(parts[name]) - trained, key=str) if name in parts else []
        if missing:
            click.echo(
                f"{name} has {len(missing)} users without training data, such as {missing[0]!r}; "
                "they are ranked by popularity.",
                err=True,
            )
