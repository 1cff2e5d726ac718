"""`ranking eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from ranking import Ranker, read
from ranking.metrics.parse import parse_metric, split_metrics
from ranking_cli.options import existing, kernel_option, reader_option, threads_option
from ranking_cli.tables import format_option, render


@click.command("eval")
@click.argument("model", type=existing)
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "--metrics",
    default="ndcg@5,ndcg@10,map",
    show_default=True,
    metavar="LIST",
    help="Comma-separated, such as ndcg@10,letor-ndcg@10,p@5,ndcg@10(gain=exp2).",
)
@click.option("-q", "--per-query", is_flag=True, help="A row per query before the mean.")
@format_option
@reader_option
@kernel_option
@threads_option
def evaluate(
    model: Path,
    data: tuple[Path, ...],
    metrics: str,
    per_query: bool,
    form: str,
    reader: str,
    kernel: str,
    threads: int,
) -> None:
    """Measure MODEL on DATA.

    Plain names are trec_eval's definitions, letor-... are LETOR's; the definition is printed
    beside each number. The summary row is called "all". --format jsonl has every query.

    \b
    ranking eval model.safetensors test.txt --metrics ndcg@5,ndcg@10,map
    """
    asked = {word: parse_metric(word) for word in split_metrics(metrics)}
    chosen = {metric.spelled(): metric for metric in asked.values()}
    ranker = Ranker.load(model, kernel=kernel, threads=threads)
    judged = read(data, reader=reader)
    scores = ranker.score_rows(judged)
    values = {name: metric.per_query(judged, scores) for name, metric in chosen.items()}

    queries = [str(query) for query in judged.query_ids]
    means = {name: _mean(value) for name, value in values.items()}
    if form == "jsonl":
        # Scripts find a number by the name they asked for, readers by what it means.
        names = {word: metric.spelled() for word, metric in asked.items()}
        names |= {name: name for name in chosen}
        for position, query in enumerate(queries):
            row = {name: _number(values[full][position]) for name, full in names.items()}
            click.echo(json.dumps({"query": query, "metrics": row}))
        total = {name: _number(means[full]) for name, full in names.items()}
        click.echo(json.dumps({"query": "all", "metrics": total}))
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
            }
            for name in values
        ]
    click.echo(render(rows, form), nl=False)


def _mean(values: np.ndarray[Any, Any]) -> float:
    kept = values[~np.isnan(values)]
    return float(kept.mean()) if kept.size else float("nan")


def _number(value: float) -> float | None:
    """JSON has no NaN: a skipped query is null."""
    return None if np.isnan(value) else float(value)
