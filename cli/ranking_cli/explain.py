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
from ranking_cli.queries import described
from ranking_cli.tables import format_option, render


@click.command()
@click.argument("model", type=existing)
@click.argument("terms", nargs=-1, metavar="[TERM]...")
@click.option(
    "--pair",
    nargs=2,
    metavar="QUERY DOCUMENT",
    help="Two texts; a document may also be named by its id.",
)
@click.option(
    "-k",
    type=click.IntRange(1),
    help="Lines to print: by default 5 for each term, 20 for a pair.",
)
@format_option
def explain(
    model: Path, terms: tuple[str, ...], pair: tuple[str, str] | None, k: int | None, form: str
) -> None:
    """Show what a bilinear MODEL has learnt.

    For each TERM, the document features that it likes or dislikes most, with their weights. For
    a pair of texts, which pairs of their words made the score: query weight x W x document weight.

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
        {"term": term, "likes": str(one.feature), "weight": one.weight}
        for term in terms
        for one in related(ranker.model_, _feature(ranker, term), k or 5)
    ]
    silent = [term for term in terms if term not in {row["term"] for row in rows}]
    if silent:
        click.echo(f"all weights of {', '.join(silent)} are zero.", err=True)
    if rows:
        click.echo(render(rows, form), nl=False)


def _feature(ranker: Ranker, term: str) -> str:
    """Return a term as the features of texts spell it."""
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
    left = described(ranker, query)
    right = None
    if ranker.documents_ is not None:
        places = np.flatnonzero(ranker.documents_.ids.astype(np.str_) == document)
        if places.size:
            right = ranker.documents_.rows[[int(places[0])]]
    if right is None:
        right = described(ranker, document)
    for row, text in ((left, query), (right, document)):
        if not row.nnz:
            raise click.ClickException(f"the model knows no word of {text!r}.")
    found = contributions(model, left, right)
    rows: list[dict[str, Any]] = [
        {
            "query": str(one.query_feature),
            "document": str(one.document_feature),
            "weight": one.weight,
            "contribution": one.contribution,
        }
        for one in found[:k]
    ]
    if rows:
        click.echo(render(rows, form), nl=False)
    total = sum(one.contribution for one in found)
    click.echo(f"score {total:.6g}, from {len(found)} pairs of words", err=True)
