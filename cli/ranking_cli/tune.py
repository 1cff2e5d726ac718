"""`ranking tune`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from ranking import Ranker
from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing, resources_options
from ranking_cli.tables import render

MOST = 12
"""Trials that the table shows; all are in the file of --report."""


@click.command()
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The model file.",
)
@click.option(
    "--recipe",
    "recipes",
    multiple=True,
    metavar="NAME",
    help="A recipe to try; repeatable. By default some that support DATA.",
)
@click.option(
    "--budget",
    default="60s",
    show_default=True,
    help="A time (60s, 10m, 2h) or a number of trainings (40trials).",
)
@click.option(
    "--metrics",
    default="ndcg@10",
    show_default=True,
    metavar="LIST",
    help="Metrics; the first one decides.",
)
@click.option(
    "--valid",
    multiple=True,
    type=existing,
    help="Validation data; by default a fifth of DATA is held out.",
)
@click.option(
    "--sampler",
    type=click.Choice(["random", "optuna"]),
    default="random",
    show_default=True,
    help="How configurations are sampled; optuna needs the extra `tune`.",
)
@click.option("--scale", metavar="NAME", help="Scaling of features, as for ranking train.")
@click.option("--features", metavar="SPEC", help="Features of texts, as for ranking train.")
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one JSON line per trial to this file.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    default=0,
    show_default=True,
    help="Random seed; with a budget in trials, the same seed gives the same model.",
)
@resources_options
def tune(
    data: tuple[Path, ...],
    output: Path,
    valid: tuple[Path, ...],
    report: Path | None,
    resources: Resources,
    **options: Any,
) -> None:
    """Search recipes and parameters on DATA within a budget, and write the best model.

    Each recipe is trained with its defaults first. Sampled configurations follow by successive
    halving: on a ninth of the queries, the best third of them on a third, the best of those on all.
    One replaces the defaults if it is better on each of two further folds, and by so much that
    other queries would show it too. The model is trained again on all of DATA.

    \b
    ranking tune train.txt -o best.safetensors --budget 60s
    ranking tune ratings.csv -o best.safetensors --recipe ials --recipe ease --budget 40trials
    """
    target = output_of(output, [*data, *valid], resources.reader)
    lines = None if report is None else output_of(report, [*data, *valid, output])
    seed, recipes = options.pop("seed"), list(options.pop("recipes"))
    ranker = Ranker.tune(
        resources.read(data),
        valid=resources.read(valid) if valid else None,
        recipes=recipes,
        random_state=seed,
        kernel=resources.kernel,
        threads=resources.threads,
        **options,
    )
    ranker.save(target.path)
    result = ranker.report_
    if lines is not None:
        lines.write_text("".join(json.dumps(row) + "\n" for row in result.rows()))
    click.echo(render(_table(result), "table"), nl=False)
    for trial in result.trials:
        if trial.problem and not trial.choices:
            click.echo(f"{trial.recipe} was left out: {trial.problem}", err=True)
    best = result.best
    click.echo(f"chosen: {best.recipe}, {best.label()}: {result.reason}.", err=True)
    click.echo(f"{output} written, after {len(result.trials)} trainings.", err=True)


def _table(report: Any) -> list[dict[str, Any]]:
    """Return the best trials on all queries of the first fold, one row each."""
    metric = report.metrics[0]
    full = [one for one in report.trials if one.share == 1.0 and one.fold == 0 and not one.problem]
    if not any(one is report.best for one in report.trials):  # defaults that stop early
        full.append(report.best)
    full.sort(key=lambda one: -one.values[metric])
    return [
        {
            "recipe": one.recipe,
            **{name.partition("(")[0]: one.values[name] for name in report.metrics},
            "seconds": round(one.seconds, 2),
            "chosen": "yes" if one is report.best else "",
            "parameters": one.label(),
        }
        for one in full[:MOST]
    ]
