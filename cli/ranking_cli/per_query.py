"""`ranking train --per-query`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from ranking import JudgedLists, PerQuery, Ranker, TextCollection
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
        scale=settings["scale"],
    )
    prepared = ranker.prepare_data(train_input, valid=valid_input)
    data, valid = prepared.data, prepared.valid
    if isinstance(data, JudgedLists) or isinstance(valid, JudgedLists):
        raise click.UsageError(
            "--per-query is for queries and documents, and these are judged rows, whose queries "
            "share no documents; leave it out."
        )
    refuse_equal(data, valid)
    wrapper = PerQuery(ranker.plan(), settings.search, jobs=settings["threads"])
    start = time.perf_counter()
    ranker.adopt(wrapper.fit(*wrapper.prepare(data, valid)), prepared)
    ranker.save(output)
    if not quiet:
        _report(ranker, time.perf_counter() - start, output)


def _report(ranker: Ranker, seconds: float, output: Path) -> None:
    parts = [ranker.loss_, ranker.regularizer_, ranker.solver_]
    click.echo(f"linear, one per query x {' x '.join(part.spec() for part in parts)}", err=True)
    failed = [report for report in ranker.report_ if report.problem]
    for report in failed:
        click.echo(f"{report.query} has no weights: {report.problem}", err=True)
    trained = len(ranker.report_) - len(failed)
    click.echo(
        f"kernel {ranker.kernel_.name}, {trained} of {len(ranker.report_)} queries trained; "
        f"{seconds:.2f} s, at most {ranker.n_iter_} epochs\n"
        f"mean objective {ranker.objective_:.6g}, density {ranker.model_.density:.1%}, "
        f"written to {output} ({output.stat().st_size} bytes)",
        err=True,
    )
