"""`ranking train`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ranking import Ranker
from ranking.contracts.callback import Callback
from ranking.contracts.recipe import Search
from ranking.data.fingerprint import fingerprint
from ranking.data.judged_lists import JudgedLists
from ranking.data.readers.read import read_trainable
from ranking.data.text_collection import TextCollection
from ranking.metrics.parse import parse_metric, split_metrics
from ranking.registry import get_registry
from ranking.training.trainer import Snapshot, Trainer
from ranking.training.wrappers.search import ParameterSearch, SearchProgress
from ranking_cli.options import existing
from ranking_cli.per_query import train_per_query
from ranking_cli.settings import Settings, read_config, settle
from ranking_cli.tables import render
from ranking_plugins.callbacks import Checkpoint, Curve, EarlyStopping
from ranking_plugins.callbacks import Progress as ProgressLine


@click.command()
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The model file."
)
@click.option("--recipe", metavar="NAME", help="Parts that belong together, such as domination.")
@click.option("--features", metavar="SPEC", help="How texts are described: text:words=10000,...")
@click.option("--model", metavar="SPEC", help="What scores: name or name:key=value,key=value.")
@click.option("--loss", metavar="SPEC", help="What is minimised.")
@click.option("--regularizer", metavar="SPEC", help="The penalty, such as l2:strength=0.01.")
@click.option("--solver", metavar="SPEC", help="How it is minimised.")
@click.option(
    "--valid",
    multiple=True,
    type=existing,
    help="Validation data: for early stopping and the recipe's search of its parameters, or, of "
    "queries and documents, for the learning curve.",
)
@click.option("--reader", metavar="NAME", help="Format of the data; by default recognised.")
@click.option("--kernel", metavar="NAME", help="auto, cython, rust or reference.")
@click.option("--engine", metavar="SPEC", help="Which processes train: local, or ray:workers=2.")
@click.option("--threads", type=click.IntRange(1, 1024), help="The result does not depend on it.")
@click.option(
    "--metrics",
    metavar="LIST",
    help="What the learning curve of queries and documents measures on --valid; by default "
    "map,pair-error.",
)
@click.option(
    "--exclude-known",
    is_flag=True,
    help="Leave the matches of DATA out of the lists that are measured on --valid.",
)
@click.option(
    "--per-query",
    is_flag=True,
    help="Train a weight vector of the documents' features for each query, or each label of "
    "labelled data, in parallel by --threads.",
)
@click.option(
    "--callback",
    "callbacks",
    multiple=True,
    metavar="SPEC",
    help="Who watches the training besides, such as mlflow; takes the place of one of its name.",
)
@click.option("--seed", type=click.IntRange(0, 2**64 - 1), help="Same seed, same model.")
@click.option("--config", type=existing, help="A TOML file with the same words; flags win.")
@click.option("--resume", is_flag=True, help="Go on where an interrupted training stopped.")
@click.option("--dry-run", is_flag=True, help="Print what would be used and whence, and stop.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def train(
    data: tuple[Path, ...],
    output: Path | None,
    config: Path | None,
    exclude_known: bool,
    per_query: bool,
    callbacks: tuple[str, ...],
    resume: bool,
    dry_run: bool,
    quiet: bool,
    **flags: Any,
) -> None:
    """Train a model on DATA and write it to one file.

    Several DATA files of judged rows count as one. With --valid a recipe chooses its parameters on
    the validation data and reports it; test data are never touched. A model of texts keeps the
    documents that it was trained on, so that `ranking rank MODEL "some query"` can search them.

    \b
    ranking train S1.txt S2.txt S3.txt --valid S4.txt --recipe domination -o model.safetensors
    ranking train train.txt --loss domination --regularizer l1:strength=0.001 -o sparse.safetensors
    ranking train texts.tab --valid held-out.tab --recipe sparse-sgd-refit -o words.safetensors
    ranking train texts.tab --recipe domination-induction --per-query -o topics.safetensors
    """
    flags["valid"] = flags["valid"] or None
    settings = settle(flags, read_config(config), config.name if config else "")
    if dry_run:
        click.echo(render(settings.rows(), "table"), nl=False)
        return
    if output is None:
        raise click.UsageError("say where the model goes: -o model.safetensors.")
    if not output.parent.is_dir():
        raise click.UsageError(f"the folder {output.parent} does not exist; make it first.")
    if per_query:
        if resume or exclude_known or callbacks or settings.given("metrics"):
            raise click.UsageError(
                "--per-query is trained in one go and searched by the recipe alone; leave "
                "--resume, --exclude-known, --callback and --metrics out."
            )
        train_per_query(data, output, settings, quiet)
        return
    _Training(data, output, settings, resume, quiet, exclude_known, callbacks).go()


class _Training:
    """One call of `ranking train`."""

    def __init__(
        self,
        data: Sequence[Path],
        output: Path,
        settings: Settings,
        resume: bool,
        quiet: bool,
        exclude_known: bool,
        callbacks: Sequence[str],
    ) -> None:
        self.output, self.settings, self.quiet = output, settings, quiet
        self.exclude_known = exclude_known
        how = {name: settings[name] for name in ("reader", "kernel", "threads")}
        given = read_trainable(data, **how)
        valid = read_trainable(settings["valid"], **how) if settings["valid"] else None
        self.ranker = Ranker(
            **{part: settings[part] for part in ("model", "loss", "regularizer", "solver")},
            features=settings.features_for(isinstance(given, TextCollection)),
            kernel=settings["kernel"],
            engine=settings["engine"],
            threads=settings["threads"],
            random_state=settings["seed"],
        )
        if settings.given("metrics") and (valid is None or isinstance(given, JudgedLists)):
            raise click.UsageError(
                "--metrics is what the learning curve of queries and documents measures on "
                "--valid; leave it out for judged rows, or without --valid."
            )
        if exclude_known and (valid is None or isinstance(given, JudgedLists)):
            raise click.UsageError(
                "--exclude-known leaves matches of queries and documents out of what is measured "
                "on --valid; leave it out for judged rows, or give --valid."
            )
        self.data, self.valid = self.ranker.describe_data(given, valid=valid)
        self.checkpoint = Checkpoint(path=output.with_name(output.name + ".checkpoint"))
        self.line = ProgressLine(label=f"training {output.name}")
        given_observers = [get_registry().create("callback", spec) for spec in callbacks]
        own: list[Any] = [self.checkpoint] if quiet else [self.checkpoint, self.line]
        # Who measures is first in line, so that the others see it.
        watchers = [self._watcher()] if self.valid is not None else []
        taken = {each.name for each in given_observers}
        watchers = [each for each in watchers if each.name not in taken]
        self.ranker.set_params(callbacks=[*watchers, *given_observers, *own])
        self.resumed = self._read_checkpoint() if resume else None
        self.checkpoint.outer_facts["identity"] = self._identity()

    def _watcher(self) -> Callback:
        """Return who looks at the validation data after each epoch.

        Vectors can be trained too long, so they are stopped early, by the first of the metrics.
        SGD on a matrix decays its rate and has an end of its own: it is watched, and not stopped.
        So is a search: its regularizer does what stopping early would do, and one choice is enough.
        """
        if not isinstance(self.data, JudgedLists):
            metrics = split_metrics(self.settings["metrics"])
            if self.ranker.parts(self.data)[0].form == "factors":
                return EarlyStopping(metric=metrics[0])
            return Curve(metrics="+".join(metrics))
        search = self.settings.search
        return Curve(metrics=search.metric) if search else EarlyStopping(metric="ndcg@10")

    def go(self) -> None:
        """Train, write the model, and say what came of it."""
        started = time.perf_counter()
        try:
            self._fit()
        except KeyboardInterrupt:
            self._interrupted()
        self.ranker.save(self.output)
        Path(self.checkpoint.path).unlink(missing_ok=True)
        if not self.quiet:
            self._report(time.perf_counter() - started)

    def _fit(self) -> None:
        search = self.settings.search
        plan = self.ranker.plan()
        fitter = plan if search is None else ParameterSearch(plan, search, self._next_trial)
        training: Any = fitter.trainer(self.data, self.valid, exclude_known=self.exclude_known)
        if search is not None and self.resumed is not None:
            facts = self.checkpoint.outer_facts["search"]
            training.progress = SearchProgress.restore(facts, self.checkpoint.outer_tensors)
        try:
            training.train(self.resumed)
        finally:
            if training.finished:
                self.ranker.adopt(training.result())
        if search is not None and not self.quiet:
            self._tell(search, training.progress)

    def _tell(self, search: Search, result: SearchProgress) -> None:
        """Print what the search tried, and what it chose."""
        spelled = parse_metric(search.metric).spelled()
        table = [
            {
                **{choice.parameter: f"{choice.value:g}" for choice in choices},
                search.metric: trial[spelled],
                "density": trial["density"],
                "epochs": trial["history"][-1]["epoch"],
                "": "chosen" if number == result.best else "",
            }
            for number, (trial, choices) in enumerate(
                zip(result.trials, search.trials(), strict=True)
            )
        ]
        tried = " and ".join(f"{part}:{parameter}" for part, parameter, _ in search.trials()[0])
        click.echo(f"{tried}, by {spelled} on --valid:", err=True)
        click.echo(render(table, "table"), err=True)

    def _next_trial(self, run: Trainer, progress: SearchProgress) -> None:
        """Let the checkpoint of the coming run keep what the search has found so far."""
        search = self.settings.search
        assert search is not None
        self.checkpoint.outer_facts["search"] = progress.facts()
        self.checkpoint.outer_tensors = progress.tensors()
        trials = search.trials()
        told = ", ".join(
            f"{part}:{parameter}={value:g}"
            for part, parameter, value in trials[len(progress.trials)]
        )
        self.line.label = f"{told} ({len(progress.trials) + 1} of {len(trials)})"

    def _identity(self) -> dict[str, str]:
        """Return what must be the same for a checkpoint to be resumed."""
        names = ("features", "model", "loss", "regularizer", "solver", "seed")
        identity = {name: str(self.settings[name]) for name in names}
        identity["exclude-known"] = str(self.exclude_known)
        identity["training data"] = fingerprint(self.data)
        identity["validation data"] = fingerprint(self.valid) if self.valid is not None else "none"
        return identity

    def _read_checkpoint(self) -> Snapshot:
        path = Path(self.checkpoint.path)
        if not path.exists():
            raise click.ClickException(
                f"there is no checkpoint {path} to resume; train without --resume."
            )
        snapshot = self.checkpoint.read()
        then, now = self.checkpoint.outer_facts.get("identity", {}), self._identity()
        changed = [name for name in now if then.get(name) != now[name]]
        if changed:
            raise click.ClickException(
                f"{path} belongs to another training ({', '.join(changed)} differ); give the same "
                "settings and data, or delete it."
            )
        return snapshot

    def _interrupted(self) -> None:
        """Keep the last whole epoch and the checkpoint, and leave with exit code 1."""
        kept = "nothing was finished yet"
        if getattr(self.ranker, "stopped_", ""):
            self.ranker.save(self.output)
            kept = f"{self.output} holds the best so far"
        click.echo(f"interrupted: {kept}; --resume goes on from the last epoch.", err=True)
        sys.exit(1)

    def _report(self, seconds: float) -> None:
        ranker = self.ranker
        parts = [ranker.model_, ranker.loss_, ranker.regularizer_, ranker.solver_]
        for trial in ranker.description_.get("density search", ()):
            left = f"left {trial['density']:.2%} of the weights"
            click.echo(f"pilot training: strength {trial['strength']:.3g} {left}", err=True)
        told = ", ".join(
            f"{count} {what}"
            for what, count in ranker.description_["training"].items()
            if what not in ("seed", "stopped")
        )
        click.echo(
            f"{' x '.join(part.spec() for part in parts)}\n"
            f"kernel {ranker.kernel_.name}, {told}; "
            f"{seconds:.2f} s, {ranker.n_iter_} epochs, stopped: {ranker.stopped_}\n"
            f"objective {ranker.objective_:.6g}, density {ranker.model_.density:.1%}, "
            f"written to {self.output} ({self.output.stat().st_size} bytes)",
            err=True,
        )
