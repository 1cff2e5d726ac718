"""`ranking train --per-query`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from ranking import JudgedLists, Ranker, TextCollection
from ranking.data.own_queries import own_queries
from ranking.training.wrappers.per_query import PerQuery, QueryReport, problems
from ranking_cli.options import Resources
from ranking_cli.settings import Settings
from ranking_cli.validation import refuse_equal


def train_per_query(paths: Sequence[Path], output: Path, settings: Settings, quiet: bool) -> None:
    """Train one model for each query or label, write them to one file, and report."""
    if settings["valid"] and settings.search is None:
        raise click.UsageError(
            "--valid is for the search of a recipe, and there is none; leave it out, or give "
            "--recipe domination-induction without a strength."
        )
    resources = Resources(settings["reader"], settings["kernel"], settings["threads"])
    train_input = resources.read(paths)
    valid_input = None
    if settings["valid"]:
        valid_input = resources.read(settings["valid"], settings["valid-reader"])
    ranker = Ranker(
        **{part: settings[part] for part in ("model", "loss", "regularizer", "solver")},
        features=settings.features_for(isinstance(train_input, TextCollection)),
        kernel=settings["kernel"],
        random_state=settings["seed"],
    )
    data, valid = ranker.describe_data(train_input, valid=valid_input)
    if isinstance(data, JudgedLists) or isinstance(valid, JudgedLists):
        raise click.UsageError(
            "--per-query is for queries and documents, and these are judged rows, whose queries "
            "share no documents; leave it out."
        )
    refuse_equal(data, valid)
    topics = own_queries(data)
    start = time.perf_counter()
    wrapper = PerQuery(ranker.plan(), settings.search, jobs=settings["threads"])
    held_out = None if valid is None else own_queries(valid, topics.query_ids)
    result = wrapper.fit(topics, held_out)
    ranker.adopt(result)
    ranker.save(output)
    if not quiet:
        _report(ranker, result.report, time.perf_counter() - start, output)


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
