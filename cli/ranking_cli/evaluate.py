"""`ranking eval`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from ranking import JudgedLists
from ranking.contracts.metric import Metric
from ranking.data.exclusions import known_pairs
from ranking.data.readers.trec import read_qrels, read_run
from ranking.data.relevance import RelevanceData
from ranking.data.trec import join_run
from ranking.metrics.bins import by_bins, total_clicks
from ranking.metrics.bootstrap import bootstrap_interval
from ranking.metrics.evaluation import Values, evaluate_model, evaluate_run, mean
from ranking.metrics.parse import parse_metric, split_metrics
from ranking_cli.options import (
    Resources,
    exclude_option,
    existing,
    metrics_option,
    resources_options,
)
from ranking_cli.tables import format_option, render


@dataclasses.dataclass(frozen=True)
class Request:
    """What `ranking eval` is called with, beside model and data."""

    run: Path | None
    qrels: Path | None
    metrics: str
    exclude: tuple[Path, ...]
    per_query: bool
    bins: str | None
    clicks: Path | None
    form: str


@click.command("eval")
@click.argument("model", type=existing, required=False)
@click.argument("data", nargs=-1, type=existing)
@click.option("--run", type=existing, help="A TREC run to measure instead of a model.")
@click.option("--qrels", type=existing, help="The judgements for --run.")
@metrics_option
@exclude_option
@click.option("-q", "--per-query", is_flag=True, help="One row per query before the mean.")
@click.option(
    "--bins",
    metavar="LIST",
    help="Means by bins of the total clicks of a query: 10,100,1000 makes four bins.",
)
@click.option(
    "--clicks",
    type=existing,
    help="Data whose relevance is counted as clicks for --bins; by default DATA.",
)
@format_option
@resources_options
def evaluate(
    model: Path | None, data: tuple[Path, ...], resources: Resources, **options: Any
) -> None:
    """Measure MODEL on DATA, or a TREC run against judgements.

    Plain names are trec_eval's definitions, letor-... are LETOR's; the definition is printed
    beside each number, with a 95 % bootstrap interval of the mean. The summary row is called
    "all". --format jsonl prints every query. For queries and documents, each query ranks all
    documents but itself, and with --exclude all but its positives there. Items without features
    are ranked among all items that the model knows.

    \b
    ranking eval model.safetensors test.txt --metrics ndcg@5,ndcg@10,map
    ranking eval films.safetensors held-out.csv --exclude train.csv --metrics p@10
    ranking eval --run system.run --qrels judged.qrels --metrics ndcg@10,map,mrr
    ranking eval rmls.safetensors judged --bins 10,100,1000 --clicks log.tsv
    """
    request = Request(**options)
    edges = _edges(request.bins, request.clicks)
    names = {word: parse_metric(word) for word in split_metrics(request.metrics)}
    metrics = list({metric.spelled(): metric for metric in names.values()}.values())
    if request.run is not None and request.qrels is not None and model is None:
        queries, values = measure_run(request.run, request.qrels, metrics, resources)
    elif request.run is None and request.qrels is None and model is not None and data:
        queries, values = measure_model(model, data, metrics, resources, request.exclude)
    else:
        raise click.UsageError("give MODEL and DATA, or --run and --qrels.")

    if edges:
        sources = data if request.clicks is None else (request.clicks,)
        log = resources.read(sources) if sources else None
        click.echo(render(_binned(log, queries, values, edges), request.form), nl=False)
        return
    summary = _Summary(queries, values, resources.kernel)
    if request.form == "jsonl":
        click.echo(summary.json_lines(names), nl=False)
        return
    rows = summary.query_rows() if request.per_query else summary.metric_rows()
    click.echo(render(rows, request.form), nl=False)


class _Summary:
    """The values of all queries, their means and the intervals of the means."""

    def __init__(self, queries: list[str], values: Values, kernel: str) -> None:
        self.queries, self.values = queries, values
        self.means = {name: mean(value) for name, value in values.items()}
        self.intervals = {name: bootstrap_interval(value, kernel) for name, value in values.items()}

    def metric_rows(self) -> list[dict[str, Any]]:
        """Return one row per metric."""
        return [
            {
                "metric": name,
                "mean": self.means[name],
                "queries": int(np.count_nonzero(~np.isnan(value))),
                "low": self.intervals[name].low,
                "high": self.intervals[name].high,
            }
            for name, value in self.values.items()
        ]

    def query_rows(self) -> list[dict[str, Any]]:
        """Return one row per query, and the means."""
        rows: list[dict[str, Any]] = [
            {
                "query": query,
                **{name: float(value[position]) for name, value in self.values.items()},
            }
            for position, query in enumerate(self.queries)
        ]
        return [*rows, {"query": "all", **self.means}]

    def json_lines(self, requested: dict[str, Metric]) -> str:
        """Return one object per query; a metric has its requested name and its full name."""
        names = {word: metric.spelled() for word, metric in requested.items()}
        names |= {name: name for name in self.values}
        lines = []
        for position, query in enumerate(self.queries):
            row = {name: _number(self.values[full][position]) for name, full in names.items()}
            lines.append(json.dumps({"query": query, "metrics": row}))
        means = {name: _number(self.means[full]) for name, full in names.items()}
        intervals = {
            name: [_number(end) for end in self.intervals[full]] for name, full in names.items()
        }
        lines.append(json.dumps({"query": "all", "metrics": means, "interval": intervals}))
        return "\n".join(lines) + "\n"


def _edges(bins: str | None, clicks: Path | None) -> list[float]:
    if bins is None:
        if clicks is not None:
            raise click.UsageError("--clicks is counted for --bins; give the bins: --bins 10,100.")
        return []
    try:
        return [float(word) for word in bins.split(",")]
    except ValueError as error:
        raise click.UsageError(f"--bins is {bins!r}; give numbers, such as 10,100,1000.") from error


def _binned(
    log: Any, queries: list[str], values: Values, edges: list[float]
) -> list[dict[str, Any]]:
    """Return one row per bin."""
    if not isinstance(log, RelevanceData):
        raise click.UsageError("--bins counts clicks on documents; give --clicks such data.")
    totals = total_clicks(log, np.array(queries))
    return [
        {"clicks": row.label, "queries": row.queries, **row.means}
        for row in by_bins(values, totals, edges)
    ]


def measure_model(
    model: Path,
    data: tuple[Path, ...],
    metrics: list[Metric],
    resources: Resources,
    exclude: tuple[Path, ...] = (),
) -> tuple[list[str], Values]:
    """Return the queries of the data, and the values of a model for them."""
    ranker = resources.load(model)
    described = ranker.to_model_data(resources.read(data))
    exclusions = None
    if exclude:
        known = [resources.read([path]) for path in exclude]
        matches = [each for each in known if isinstance(each, RelevanceData)]
        if isinstance(described, JudgedLists) or len(matches) < len(known):
            raise click.UsageError("--exclude is for queries and documents, not for judged rows.")
        exclusions = known_pairs(described, *matches, but_relevant=True)
    values = evaluate_model(
        ranker.model_, metrics, described, ranker.kernel_, resources.threads, exclusions
    )
    return [str(query) for query in described.query_ids], values


def measure_run(
    run: Path, qrels: Path, metrics: list[Metric], resources: Resources
) -> tuple[list[str], Values]:
    """Return the queries that a run and the judgements share, and the values for them."""
    joined = join_run(read_run(run), read_qrels(qrels))
    values = evaluate_run(metrics, joined, resources.kernel, resources.threads)
    shared = ~joined.missing
    if not shared.any():
        raise click.ClickException(
            f"{run} has no query of {qrels}; check that they belong together."
        )
    for count, where in (
        (int(joined.missing.sum()), f"of {qrels}, which are not in {run}"),
        (joined.unjudged_queries.size, f"of {run}, which are not in {qrels}"),
    ):
        if count:
            click.echo(f"left out, as in trec_eval: {count} of the queries {where}.", err=True)
    queries = [str(query) for query in joined.query_ids[shared]]
    return queries, {name: value[shared] for name, value in values.items()}


def _number(value: float) -> float | None:
    """Return a number for JSON, which has no NaN: a skipped query is null."""
    return None if np.isnan(value) else float(value)
