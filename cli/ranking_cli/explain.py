"""`ranking explain`."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from ranking import Ranker
from ranking.errors import DataWarning
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
    if pair is not None:
        _explain_pair(ranker, *pair, k or 20, form)
        return
    rows: list[dict[str, Any]] = [
        {"term": term, "document term": str(entry.feature), "weight": entry.weight}
        for term in terms
        for entry in ranker.related_features(term, k or 5)
    ]
    empty = [term for term in terms if term not in {row["term"] for row in rows}]
    if empty:
        click.echo(f"all weights of {', '.join(empty)} are zero.", err=True)
    if rows:
        click.echo(render(rows, form), nl=False)


def _explain_pair(ranker: Ranker, query: str, document: str, k: int, form: str) -> None:
    with warnings.catch_warnings():  # an unknown text is an error, and unknown words are reported
        warnings.simplefilter("ignore", DataWarning)
        entries = ranker.explain(query, document)
    text_features(ranker, query)
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
