"""`ranking explain`."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ranking import JudgedLists, Ranker
from ranking.errors import DataWarning, RankingError
from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing, resources_options
from ranking_cli.pages import bar_chart, page
from ranking_cli.queries import text_features
from ranking_cli.tables import READABLE, format_option, render

BARS = 20
"""The most bars of a chart."""

Bars = dict[str, Sequence[tuple[str, float]]]
"""Titles of charts, and the names and lengths of their bars."""


@click.command()
@click.argument("model", type=existing)
@click.argument("terms", nargs=-1, metavar="[TERM]...")
@click.option(
    "--pair",
    nargs=2,
    metavar="QUERY DOCUMENT",
    help="Two texts, or the ids of a query or user and a document or item.",
)
@click.option(
    "--query", help="The id of a query of --data, whose documents are explained in their order."
)
@click.option(
    "--data",
    multiple=True,
    type=existing,
    help="The data of the queries and documents, for judged rows and for features.",
)
@click.option(
    "-k",
    type=click.IntRange(1),
    help="Number of rows; by default 5 for each term, 20 for others.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write bar charts of the contributions or weights to an HTML file.",
)
@format_option
@resources_options
def explain(
    model: Path, terms: tuple[str, ...], form: str, resources: Resources, **options: Any
) -> None:
    """Show what MODEL has learnt, or explain the score of a document.

    Of a linear model: the weights; with --query, the documents in their order, the contributions of
    features to their scores, and the smallest change that would put the next one above each. For
    each TERM of a bilinear model, the document terms with the largest weights. For a --pair, the
    contributions to the score: pairs of words or of features, past items of a user, features of a
    judged row, neighbours of structured lists.

    \b
    ranking explain words.safetensors hockey gun
    ranking explain words.safetensors --pair "hockey team" "the game was on espn"
    ranking explain films.safetensors --pair ann alien
    ranking explain model.safetensors --data test.txt --query 10 -o why.html
    """
    pair, query, data, k, output = (options[n] for n in ("pair", "query", "data", "k", "output"))
    if sum((bool(terms), pair is not None, query is not None)) > 1:
        raise click.UsageError("give terms, --pair QUERY DOCUMENT or --query, one of them.")
    target = None if output is None else output_of(output, [model, *data])
    ranker = resources.load(model)
    rows = resources.read(data) if data else None
    if terms:
        bars = _explain_terms(ranker, terms, k or 5, form)
    elif query is not None:
        bars = _explain_query(ranker, rows, query, k or 20, form)
    elif pair is not None:
        bars = _explain_pair(ranker, pair, rows, k or 20, form)
    else:
        bars = _explain_weights(ranker, k or 20, form)
    if target is not None:
        body = "".join(bar_chart(title, values) for title, values in bars.items())
        target.write_text(page(f"Explanation by {model.name}", body))
        click.echo(f"wrote {output}", err=True)


def _explain_terms(ranker: Ranker, terms: tuple[str, ...], k: int, form: str) -> Bars:
    rows: list[dict[str, Any]] = [
        {"term": term, "document term": str(entry.feature), "weight": entry.weight}
        for term in terms
        for entry in ranker.related_features(term, k)
    ]
    empty = [term for term in terms if term not in {row["term"] for row in rows}]
    if empty:
        click.echo(f"all weights of {', '.join(empty)} are zero.", err=True)
    if rows:
        click.echo(render(rows, form), nl=False)
    return {
        term: [(row["document term"], row["weight"]) for row in rows if row["term"] == term]
        for term in terms
    }


def _explain_weights(ranker: Ranker, k: int, form: str) -> Bars:
    """Print the largest weights of a linear model."""
    try:
        weights = ranker.coef_
    except AttributeError:
        raise click.UsageError(
            f"model {ranker.model_.name!r} has no weights of features; give terms, --pair QUERY "
            "DOCUMENT, or --data and --query."
        ) from None
    names = getattr(ranker, "feature_names_in_", None)
    names = ranker.model_.tensors()["feature_ids"] if names is None else names
    order = abs(weights).argsort(kind="stable")[::-1][:k].tolist()
    best = [(str(names[at]), float(weights[at])) for at in order]
    click.echo(render([{"feature": n, "weight": w} for n, w in best], form), nl=False)
    return {"weights": best}


def _explain_query(ranker: Ranker, data: Any, query: str, k: int, form: str) -> Bars:
    """Print the documents of a query, why they are there, and what would change the order."""
    if not isinstance(data, JudgedLists):
        raise click.UsageError("--query needs --data with judged rows; for others give --pair.")
    place = {str(one): one for one in data.query_ids.tolist()}
    if query not in place:
        raise click.UsageError(f"--data has no query {query}.")
    part = data.select([data.query_ids.tolist().index(place[query])])
    swaps = {}
    with contextlib.suppress(RankingError):  # the change is known for linear models only
        swaps = {str(one.document): one for one in ranker.explain_order(part, query)}
    rows: list[dict[str, Any]] = []
    bars: Bars = {}
    for document, score in list(ranker.rank(part)[place[query]])[:k]:
        entries = ranker.explain(query, document, part)
        row: dict[str, Any] = {"document": str(document), "score": score}
        row["because"] = ", ".join(
            f"{one.document_feature} {one.contribution:+.3g}" for one in entries[:3]
        )
        if swaps:
            swap = swaps.get(str(document))
            row["swap"] = "" if swap is None else f"{swap.feature} {-swap.change:+.3g}"
        rows.append(row)
        bars[f"{document}: {score:.4g}"] = [
            (str(one.document_feature), one.contribution) for one in entries[:BARS]
        ]
    click.echo(render(rows, form), nl=False)
    if swaps and form in READABLE:
        click.echo("swap: the change of a feature that puts the next document above.")
    return bars


def _explain_pair(ranker: Ranker, pair: tuple[str, str], data: Any, k: int, form: str) -> Bars:
    with warnings.catch_warnings():  # an unknown text is an error, and unknown words are reported
        warnings.simplefilter("ignore", DataWarning)
        entries = ranker.explain(*pair, data)
    words = ranker.text_ is not None
    if words:
        text_features(ranker, pair[0])
    judged = ranker.model_.takes == "judged"
    rows = [_pair_row(entry, judged=judged) for entry in entries[:k]]
    if rows:
        click.echo(render(rows, form), nl=False)
    total = sum(entry.contribution for entry in entries)
    what = "pairs of words" if words else "contributions"
    names = ["feature"] if judged else ["query", "document"]
    click.echo(f"score {total:.6g}, from {len(entries)} {what}", err=True)
    return {
        f"{pair[0]}, {pair[1]}: {total:.4g}": [
            (" x ".join(str(row[name]) for name in names), row["contribution"])
            for row in rows[:BARS]
        ]
    }


def _pair_row(entry: Any, *, judged: bool) -> dict[str, Any]:
    """Return a row of the table of contributions; a judged row has one feature for each."""
    if judged:
        row = {"feature": str(entry.document_feature), "value": entry.document_value}
    else:
        row = {"query": str(entry.query_feature), "document": str(entry.document_feature)}
    if not math.isnan(entry.weight):  # models that are not linear have none
        row["weight"] = entry.weight
    return {**row, "contribution": entry.contribution}
