"""`ranking train --per-query`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from ranking import Ranker
from ranking.data.judged_lists import JudgedLists
from ranking.data.own_queries import own_queries
from ranking.data.readers.read import read_trainable
from ranking.data.text_collection import TextCollection
from ranking.training.wrappers.per_query import PerQuery, QueryReport, problems
from ranking_cli.settings import Settings


def train_per_query(paths: Sequence[Path], output: Path, settings: Settings, quiet: bool) -> None:
    """Train a model for each query or label, write them as one, and say what came of it."""
    if settings["valid"] and settings.search is None:
        raise click.UsageError(
            "--valid is for the search of a recipe, and there is none; leave it out, or say "
            "--recipe domination-induction without a strength of your own."
        )
    how = {name: settings[name] for name in ("reader", "kernel", "threads")}
    given = read_trainable(paths, **how)
    held_out = read_trainable(settings["valid"], **how) if settings["valid"] else None
    ranker = Ranker(
        **{part: settings[part] for part in ("model", "loss", "regularizer", "solver")},
        features=settings.features_for(isinstance(given, TextCollection)),
        kernel=settings["kernel"],
        random_state=settings["seed"],
    )
    data, valid = ranker.describe_data(given, valid=held_out)
    if isinstance(data, JudgedLists) or isinstance(valid, JudgedLists):
        raise click.UsageError(
            "--per-query is for queries and documents, and these are judged rows, whose queries "
            "share no documents; leave it out."
        )
    topics = own_queries(data)
    started = time.perf_counter()
    wrapper = PerQuery(ranker.plan(), settings.search, jobs=settings["threads"])
    result = wrapper.fit(
        topics, None if valid is None else own_queries(valid, topics.query_ids)
    )
    ranker.adopt(result)
    ranker.save(output)
    if not quiet:
        _report(ranker, result.report, time.perf_counter() - started, output)


def _report(ranker: Ranker, reports: list[QueryReport], seconds: float, output: Path) -> None:
    parts = [ranker.loss_, ranker.regularizer_, ranker.solver_]
    click.echo(f"linear, one per query x {' x '.join(part.spec() for part in parts)}", err=True)
    for query, problem in problems(reports).items():
        click.echo(f"{query} has no weights: {problem}", err=True)
    trained = len(reports) - len(problems(reports))
    click.echo(
        f"kernel {ranker.kernel_.name}, {trained} of {len(reports)} queries trained; "
        f"{seconds:.2f} s, at most {ranker.n_iter_} epochs\n"
        f"mean objective {ranker.objective_:.6g}, density {ranker.model_.density:.1%}, "
        f"written to {output} ({output.stat().st_size} bytes)",
        err=True,
    )
