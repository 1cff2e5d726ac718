"""`ranking explain`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from ranking import Ranker
from ranking.data.text.tokenise import words
from ranking.inference.explain import contributions, related
from ranking.models.bilinear import Bilinear
from ranking_cli.options import existing
from ranking_cli.queries import text_features
from ranking_cli.tables import format_option, render


@click.command()
@click.argument("model", type=existing)
@click.argument("terms", nargs=-1, metavar="[TERM]...")
@click.option(
    "--pair",
    nargs=2,
    metavar="QUERY DOCUMENT",
    help="Two texts; the document may also be an id.",
)
@click.option(
    "-k",
    type=click.IntRange(1),
    help="Number of rows; by default 5 for each term, 20 for a pair.",
)
@format_option
def explain(
    model: Path, terms: tuple[str, ...], pair: tuple[str, str] | None, k: int | None, form: str
) -> None:
    """Show what a bilinear MODEL has learnt.

    For each TERM of queries, the document terms with the largest weights, positive or negative. For
    a pair of texts, the contributions of their pairs of words to the score: query weight x W x
    document weight.

    \b
    ranking explain words.safetensors hockey gun
    ranking explain words.safetensors --pair "hockey team" "the game was on espn"
    """
    if bool(terms) == (pair is not None):
        raise click.UsageError("give terms, or --pair QUERY DOCUMENT.")
    ranker = Ranker.load(model)
    if not isinstance(ranker.model_, Bilinear):
        raise click.ClickException(
            f"{model} is a {ranker.model_.name} model; explain reads bilinear and diagonal ones."
        )
    if pair is not None:
        _explain_pair(ranker, ranker.model_, *pair, k or 20, form)
        return
    rows: list[dict[str, Any]] = [
        {"term": term, "document term": str(entry.feature), "weight": entry.weight}
        for term in terms
        for entry in related(ranker.model_, _feature(ranker, term), k or 5)
    ]
    empty = [term for term in terms if term not in {row["term"] for row in rows}]
    if empty:
        click.echo(f"all weights of {', '.join(empty)} are zero.", err=True)
    if rows:
        click.echo(render(rows, form), nl=False)


def _feature(ranker: Ranker, term: str) -> str:
    """Return the text feature of a term."""
    if ranker.text_ is None or ranker.per_query or term in ranker.text_.feature_names:
        return term
    if ranker.text_.hashing:
        raise click.ClickException(
            f"this model hashes words, so it has no word {term!r}, only columns such as #0; "
            "train one without hashing to read it."
        )
    return " ".join(words(term)) or term


def _explain_pair(
    ranker: Ranker, model: Bilinear, query: str, document: str, k: int, form: str
) -> None:
    if ranker.text_ is None:
        raise click.ClickException("this model was not trained on texts, so --pair has no words.")
    if ranker.per_query:
        raise click.ClickException(
            "this model knows its queries by their ids, not by words; explain an id instead."
        )
    query_row = text_features(ranker, query)
    document_row = None
    if ranker.documents_ is not None:
        positions = np.flatnonzero(ranker.documents_.ids.astype(np.str_) == document)
        if positions.size:
            document_row = ranker.documents_.rows[[int(positions[0])]]
    if document_row is None:
        document_row = text_features(ranker, document)
    for row, text in ((query_row, query), (document_row, document)):
        if not row.nnz:
            raise click.ClickException(f"the model knows no word of {text!r}.")
    entries = contributions(model, query_row, document_row)
    rows: list[dict[str, Any]] = [
        {
            "query": str(entry.query_feature),
            "document": str(entry.document_feature),
            "weight": entry.weight,
            "contribution": entry.contribution,
        }
        for entry in entries[:k]
    ]
    if rows:
        click.echo(render(rows, form), nl=False)
    total = sum(entry.contribution for entry in entries)
    click.echo(f"score {total:.6g}, from {len(entries)} pairs of words", err=True)
