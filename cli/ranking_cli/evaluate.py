"""`ranking eval`."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from ranking import (
    Evaluation,
    JudgedLists,
    MatchingData,
    TextCollection,
    evaluate_run,
    parse_metrics,
    read_data,
)
from ranking_cli.options import (
    Resources,
    exclude_option,
    existing,
    metrics_option,
    resources_options,
)
from ranking_cli.tables import READABLE, definitions, format_option, render, short_names


@dataclasses.dataclass(frozen=True)
class Request:
    """What `ranking eval` is called with, beside model and data."""

    run: Path | None
    qrels: Path | None
    metrics: str
    exclude: tuple[Path, ...]
    judged_only: bool
    per_query: bool
    bins: str | None
    clicks: Path | None
    form: str


@click.command("eval")
@click.argument("model", type=existing, required=False)
@click.argument("data", nargs=-1, type=existing)
@click.option("--run", type=existing, help="A TREC run to evaluate instead of a model.")
@click.option("--qrels", type=existing, help="The judgements for --run.")
@metrics_option
@exclude_option
@click.option(
    "--judged-only",
    is_flag=True,
    help="Rank only the documents that DATA judges for a query, as trec_eval -J does.",
)
@click.option("-q", "--per-query", is_flag=True, help="One row per query before the mean.")
@click.option(
    "--bins",
    metavar="LIST",
    help="Means per bin of the total clicks of a query; 10,100,1000 gives four bins.",
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
    """Evaluate MODEL on DATA, or a TREC run against judgements.

    Plain names are trec_eval's definitions, letor-... are LETOR's; the definitions are printed
    below the table, which has a 95 % bootstrap interval of each mean. The summary row is called
    "all". --format jsonl prints every query. For queries and documents, each query ranks all
    documents but itself, with --exclude all but its positives there, and with --judged-only those
    that DATA judges for it. Items without features are ranked among all items that the model knows.

    \b
    ranking eval model.safetensors test.txt --metrics ndcg@5,ndcg@10,map
    ranking eval films.safetensors held-out.csv --exclude train.csv --metrics p@10
    ranking eval --run system.run --qrels judged.qrels --metrics ndcg@10,map,mrr
    ranking eval rmls.safetensors judged --bins 10,100,1000 --clicks log.tsv
    """
    request = Request(**options)
    if request.run is not None and request.judged_only:
        raise click.UsageError("--judged-only is for a model; a run has its documents.")
    edges = _edges(request.bins, request.clicks)
    metrics = list(parse_metrics(request.metrics))
    if request.run is not None and request.qrels is not None and model is None:
        evaluation = measure_run(request.run, request.qrels, metrics, resources)
    elif request.run is None and request.qrels is None and model is not None and data:
        evaluation = measure_model(
            model, data, metrics, resources, request.exclude, request.judged_only
        )
    else:
        raise click.UsageError("give MODEL and DATA, or --run and --qrels.")

    if edges:
        sources = data if request.clicks is None else (request.clicks,)
        log = resources.read(sources) if sources else None
        click.echo(render(_binned(log, evaluation, edges), request.form), nl=False)
    elif request.form == "jsonl":
        click.echo(_json_lines(evaluation, resources.kernel), nl=False)
    else:
        table = _query_rows if request.per_query else _metric_rows
        short = short_names(evaluation.names) if request.form in READABLE else {}
        rows = table(evaluation, resources.kernel, short)
        click.echo(render(rows, request.form) + definitions(short, request.form), nl=False)


def _metric_rows(
    evaluation: Evaluation, kernel: str, short: dict[str, str]
) -> list[dict[str, Any]]:
    """Return one row per metric."""
    rows = []
    for name, values in evaluation.values.items():
        interval = evaluation.interval(name, kernel)
        rows.append(
            {
                "metric": short.get(name, name),
                "mean": evaluation.mean(name),
                "queries": int(np.count_nonzero(~np.isnan(values))),
                "low": interval.low,
                "high": interval.high,
            }
        )
    return rows


def _query_rows(evaluation: Evaluation, kernel: str, short: dict[str, str]) -> list[dict[str, Any]]:
    """Return one row per query, and the means."""
    rows: list[dict[str, Any]] = [
        {
            "query": str(query),
            **{short.get(n, n): float(values[at]) for n, values in evaluation.values.items()},
        }
        for at, query in enumerate(evaluation.query_ids)
    ]
    means = {short.get(name, name): evaluation.mean(name) for name in evaluation.values}
    return [*rows, {"query": "all", **means}]


def _json_lines(evaluation: Evaluation, kernel: str) -> str:
    """Return one object per query; a metric has its requested name and its full name."""
    names = {**evaluation.names, **{name: name for name in evaluation.values}}
    lines = []
    for at, query in enumerate(evaluation.query_ids):
        row = {name: _number(evaluation.values[full][at]) for name, full in names.items()}
        lines.append(json.dumps({"query": str(query), "metrics": row}))
    intervals = {
        full: [_number(end) for end in evaluation.interval(full, kernel)]
        for full in evaluation.values
    }
    means = {name: _number(evaluation.mean(full)) for name, full in names.items()}
    spans = {name: intervals[full] for name, full in names.items()}
    lines.append(json.dumps({"query": "all", "metrics": means, "interval": spans}))
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


def _binned(log: Any, evaluation: Evaluation, edges: list[float]) -> list[dict[str, Any]]:
    """Return one row per bin."""
    if not isinstance(log, MatchingData | TextCollection):
        raise click.UsageError("--bins counts clicks on documents; give --clicks such data.")
    return [
        {"clicks": row.label, "queries": row.queries, **row.means}
        for row in evaluation.by_bins(log, edges)
    ]


def measure_model(
    model: Path,
    data: tuple[Path, ...],
    metrics: list[str],
    resources: Resources,
    exclude: tuple[Path, ...] = (),
    judged_only: bool = False,
) -> Evaluation:
    """Evaluate a model file on data files."""
    if exclude and judged_only:
        raise click.UsageError("--judged-only says what is ranked already; leave --exclude out.")
    ranker, rows = resources.load(model), resources.read(data)
    exclusions = [resources.read([path]) for path in exclude]
    if exclude and any(isinstance(each, JudgedLists) for each in (rows, *exclusions)):
        raise click.UsageError("--exclude is for queries and documents, not for judged rows.")
    return ranker.evaluate(
        rows, metrics=metrics, exclude=exclusions or None, judged_only=judged_only
    )


def measure_run(run: Path, qrels: Path, metrics: list[str], resources: Resources) -> Evaluation:
    """Evaluate a run file against judgements, and report the queries that only one has."""
    ranking, judgements = read_data(run, "run"), read_data(qrels, "qrels")
    judged, answered = _queries(judgements), _queries(ranking)
    if not judged & answered:
        raise click.ClickException(
            f"{run} has no query of {qrels}; check that they belong together."
        )
    for count, where in (
        (len(judged - answered), f"of {qrels}, which are not in {run}"),
        (len(answered - judged), f"of {run}, which are not in {qrels}"),
    ):
        if count:
            click.echo(f"left out, as in trec_eval: {count} of the queries {where}.", err=True)
    return evaluate_run(
        ranking, judgements, metrics, kernel=resources.kernel, threads=resources.threads
    )


def _queries(rows: Any) -> set[str]:
    return {str(query) for query in np.unique(rows.query_ids)}


def _number(value: float) -> float | None:
    """Return a number for JSON, which has no NaN: a skipped query is null."""
    return None if np.isnan(value) else float(value)
