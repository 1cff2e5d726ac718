"""`ranking eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from ranking import Ranker
from ranking.contracts.metric import Metric
from ranking.data.exclusions import known_pairs
from ranking.data.inputs import among_known
from ranking.data.judged_lists import JudgedLists
from ranking.data.readers.read import read_trainable
from ranking.data.readers.trec import read_qrels, read_run
from ranking.data.relevance import RelevanceData
from ranking.data.trec import join_run
from ranking.metrics.bins import by_bins, total_clicks
from ranking.metrics.bootstrap import bootstrap_interval
from ranking.metrics.evaluate import Values, evaluate_run, mean
from ranking.metrics.model_evaluation import measure
from ranking.metrics.parse import parse_metric, split_metrics
from ranking_cli.options import (
    exclude_option,
    existing,
    kernel_option,
    metrics_option,
    reader_option,
    threads_option,
)
from ranking_cli.tables import format_option, render


@click.command("eval")
@click.argument("model", type=existing, required=False)
@click.argument("data", nargs=-1, type=existing)
@click.option("--run", type=existing, help="A TREC run to measure instead of a model.")
@click.option("--qrels", type=existing, help="The judgements for --run.")
@metrics_option
@exclude_option
@click.option("-q", "--per-query", is_flag=True, help="A row per query before the mean.")
@click.option(
    "--bins",
    metavar="LIST",
    help="Means by bins of the clicks that a query has in all: 10,100,1000 makes four.",
)
@click.option(
    "--clicks",
    type=existing,
    help="Queries and documents whose relevance is counted for --bins; by default DATA.",
)
@format_option
@reader_option
@kernel_option
@threads_option
def evaluate(
    model: Path | None,
    data: tuple[Path, ...],
    run: Path | None,
    qrels: Path | None,
    metrics: str,
    exclude: tuple[Path, ...],
    per_query: bool,
    bins: str | None,
    clicks: Path | None,
    form: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Measure MODEL on DATA, or a TREC run against judgements.

    Plain names are trec_eval's definitions, letor-... are LETOR's; the definition is printed
    beside each number, with a 95 % bootstrap interval of the mean. The summary row is called
    "all". --format jsonl has every query. Of queries and documents, every query ranks all
    documents but itself, and with --exclude but what it matches there. Items without features are
    ranked among all that the model knows.

    \b
    ranking eval model.safetensors test.txt --metrics ndcg@5,ndcg@10,map
    ranking eval films.safetensors held-out.csv --exclude train.csv --metrics p@10
    ranking eval --run system.run --qrels judged.qrels --metrics ndcg@10,map,mrr
    ranking eval rmls.safetensors judged --bins 10,100,1000 --clicks log.tsv
    """
    edges = _edges(bins, clicks)
    asked = {word: parse_metric(word) for word in split_metrics(metrics)}
    chosen = list({metric.spelled(): metric for metric in asked.values()}.values())
    if run is not None and qrels is not None and model is None:
        queries, values = measure_run(run, qrels, chosen, kernel, threads)
    elif run is None and qrels is None and model is not None and data:
        queries, values = measure_model(model, data, chosen, reader, kernel, threads, exclude)
    else:
        raise click.UsageError("give MODEL and DATA, or --run and --qrels.")

    if edges:
        sources = data if clicks is None else (clicks,)
        log = read_trainable(sources, reader) if sources else None
        click.echo(render(_binned(log, queries, values, edges), form), nl=False)
        return
    means = {name: mean(value) for name, value in values.items()}
    intervals = {name: bootstrap_interval(value, kernel) for name, value in values.items()}
    if form == "jsonl":
        # Scripts find a number by the name they asked for, readers by what it means.
        names = {word: metric.spelled() for word, metric in asked.items()}
        names |= {name: name for name in values}
        for position, query in enumerate(queries):
            row = {name: _number(values[full][position]) for name, full in names.items()}
            click.echo(json.dumps({"query": query, "metrics": row}))
        total = {name: _number(means[full]) for name, full in names.items()}
        spans = {name: [_number(end) for end in intervals[full]] for name, full in names.items()}
        click.echo(json.dumps({"query": "all", "metrics": total, "interval": spans}))
        return
    if per_query:
        rows: list[dict[str, Any]] = [
            {"query": query, **{name: float(value[position]) for name, value in values.items()}}
            for position, query in enumerate(queries)
        ]
        rows.append({"query": "all", **means})
    else:
        rows = [
            {
                "metric": name,
                "mean": means[name],
                "queries": int(np.count_nonzero(~np.isnan(values[name]))),
                "low": intervals[name].low,
                "high": intervals[name].high,
            }
            for name in values
        ]
    click.echo(render(rows, form), nl=False)


def _edges(bins: str | None, clicks: Path | None) -> list[float]:
    if bins is None:
        if clicks is not None:
            raise click.UsageError("--clicks is what --bins counts; say which bins: --bins 10,100.")
        return []
    try:
        return [float(word) for word in bins.split(",")]
    except ValueError as error:
        raise click.UsageError(f"--bins is {bins!r}; give numbers, such as 10,100,1000.") from error


def _binned(
    log: Any, queries: list[str], values: Values, edges: list[float]
) -> list[dict[str, Any]]:
    """Return a row a bin."""
    if not isinstance(log, RelevanceData):
        raise click.UsageError("--bins counts clicks on documents; give --clicks such data.")
    totals = total_clicks(log, np.array(queries))
    return [
        {"clicks": one.label, "queries": one.queries, **one.means}
        for one in by_bins(values, totals, edges)
    ]


def measure_model(
    model: Path,
    data: tuple[Path, ...],
    metrics: list[Metric],
    reader: str,
    kernel: str,
    threads: int,
    exclude: tuple[Path, ...] = (),
) -> tuple[list[str], Values]:
    """Return the queries of the data, and the values of a model for them."""
    ranker = Ranker.load(model, kernel=kernel, threads=threads)
    given = read_trainable(data, reader, kernel=kernel, threads=threads)
    described = among_known(ranker.described(given), ranker.model_)
    barred = None
    if exclude:
        known = [read_trainable([path], reader, kernel=kernel, threads=threads) for path in exclude]
        matches = [each for each in known if isinstance(each, RelevanceData)]
        if isinstance(described, JudgedLists) or len(matches) < len(known):
            raise click.UsageError("--exclude is for queries and documents, not for judged rows.")
        barred = known_pairs(described, *matches, but_relevant=True)
    values = measure(ranker.model_, metrics, described, ranker.kernel_, threads, barred)
    return [str(query) for query in described.query_ids], values


def measure_run(
    run: Path, qrels: Path, metrics: list[Metric], kernel: str, threads: int
) -> tuple[list[str], Values]:
    """Return the queries that a run and the judgements share, and the values for them."""
    joined = join_run(read_run(run), read_qrels(qrels))
    values = evaluate_run(metrics, joined, kernel, threads)
    kept = ~joined.missing
    if not kept.any():
        raise click.ClickException(
            f"{run} has no query of {qrels}; check that they belong together."
        )
    for count, where in (
        (int(joined.missing.sum()), f"of {qrels}, which {run} lacks"),
        (joined.unjudged_queries.size, f"of {run}, which {qrels} lacks"),
    ):
        if count:
            click.echo(f"left out, as in trec_eval: {count} of the queries {where}.", err=True)
    queries = [str(query) for query in joined.query_ids[kept]]
    return queries, {name: value[kept] for name, value in values.items()}


def _number(value: float) -> float | None:
    """JSON has no NaN: a skipped query is null."""
    return None if np.isnan(value) else float(value)
