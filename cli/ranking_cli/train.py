"""`ranking train`."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ranking import (
    JudgedLists,
    ParameterSearch,
    Ranker,
    TextCollection,
    parse_metric,
    parse_metrics,
)
from ranking.contracts import Callback, Search
from ranking.io import Output
from ranking.registry import get_registry
from ranking_cli.files import output_of
from ranking_cli.options import Resources, existing
from ranking_cli.per_query import train_per_query
from ranking_cli.settings import Settings, read_config, resolve_settings
from ranking_cli.tables import render
from ranking_cli.validation import refuse_equal
from ranking_plugins.callbacks import Checkpoint, Curve, EarlyStopping
from ranking_plugins.callbacks import Progress as ProgressLine


@dataclasses.dataclass(frozen=True)
class Request:
    """What `ranking train` is called with, beside the settings that a file may hold."""

    data: tuple[Path, ...]
    output: Path | None
    exclude_seen: bool
    per_query: bool
    callbacks: tuple[str, ...]
    resume: bool
    dry_run: bool
    quiet: bool
    config: Path | None

    def check(self, settings: Settings) -> Path:
        """Return where the model goes; refuse options that do not go together."""
        if self.output is None:
            raise click.UsageError("say where the model goes: -o model.safetensors.")
        specs = [settings[name] for name in ("reader", "valid-reader", "model")]
        for path in (self.output, checkpoint_of(self.output)):
            output_of(path, [*self.data, *settings["valid"], self.config], *specs)
        unused = self.resume or self.exclude_seen or self.callbacks
        if self.per_query and (unused or settings.is_explicit("metrics")):
            raise click.UsageError(
                "--per-query trains without checkpoints and validates by the recipe's search "
                "only; leave --resume, --exclude-seen, --callback and --metrics out."
            )
        return self.output


FIELDS = [field.name for field in dataclasses.fields(Request)]


@click.command()
@click.argument("data", nargs=-1, required=True, type=existing)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The model file."
)
@click.option("--recipe", metavar="NAME", help="A named combination of parts, such as domination.")
@click.option("--features", metavar="SPEC", help="How texts become features: text:words=10000,...")
@click.option("--model", metavar="SPEC", help="The model: name or name:key=value,key=value.")
@click.option("--loss", metavar="SPEC", help="The loss to minimise.")
@click.option("--regularizer", metavar="SPEC", help="The penalty, such as l2:strength=0.01.")
@click.option(
    "--solver",
    metavar="SPEC",
    help="The solver; by default the first that supports the other parts.",
)
@click.option(
    "--valid",
    multiple=True,
    type=existing,
    help="Validation data: for early stopping and the recipe's search of its parameters; for "
    "queries and documents, also for the learning curve.",
)
@click.option("--reader", metavar="SPEC", help="Format of DATA; by default recognised.")
@click.option(
    "--valid-reader",
    metavar="SPEC",
    help="Format of --valid, such as beir:split=dev; by default as --reader, if that selects no "
    "split.",
)
@click.option(
    "--scale",
    type=click.Choice(["standard", "min-max", "query-min-max", "log", "robust"]),
    help="Scale the features of judged rows; the scaling is stored in the model file.",
)
@click.option("--kernel", metavar="NAME", help="The kernel: auto, cython, rust or reference.")
@click.option("--engine", metavar="SPEC", help="Processes that train: local, or ray:workers=2.")
@click.option(
    "--threads",
    type=click.IntRange(1, 1024),
    help="Number of threads (results are identical for any value).",
)
@click.option(
    "--metrics",
    metavar="LIST",
    help="Metrics of the learning curve on --valid, for queries and documents; by default "
    "map,pair-error.",
)
@click.option(
    "--exclude-seen",
    is_flag=True,
    help="Remove the positives of DATA from the rankings on --valid.",
)
@click.option(
    "--per-query",
    is_flag=True,
    help="Train one weight vector over document features for each query, or for each label of "
    "labelled data, in parallel by --threads.",
)
@click.option(
    "--callback",
    "callbacks",
    multiple=True,
    metavar="SPEC",
    help="An additional callback, such as mlflow; it replaces a default one of the same name.",
)
@click.option(
    "--seed",
    type=click.IntRange(0, 2**64 - 1),
    help="Random seed; the same seed gives the same model.",
)
@click.option("--config", type=existing, help="A TOML file of settings; options override it.")
@click.option("--resume", is_flag=True, help="Continue an interrupted training.")
@click.option(
    "--dry-run", is_flag=True, help="Show the resolved settings and their source, then exit."
)
@click.option("--quiet", is_flag=True, help="Print only errors.")
def train(config: Path | None, **options: Any) -> None:
    """Train a model on DATA and write it to one file.

    Several DATA files of judged rows are treated as one. With --valid, a recipe chooses its
    parameters on the validation data and reports the search; test data are never used. A model of
    texts stores the training documents, so that `ranking rank MODEL "some query"` can search them.

    \b
    ranking train S1.txt S2.txt S3.txt --valid S4.txt --recipe domination -o model.safetensors
    ranking train train.txt --loss domination --regularizer l1:strength=0.001 -o sparse.safetensors
    ranking train texts.tab --valid held-out.tab --recipe sparse-sgd-refit -o words.safetensors
    ranking train texts.tab --recipe domination-induction --per-query -o topics.safetensors
    ranking train scifact --reader beir:split=train --valid scifact --valid-reader beir:split=dev \
        --recipe sparse-sgd -o scifact.safetensors
    """
    request = Request(
        config=config, **{name: options.pop(name) for name in FIELDS if name != "config"}
    )
    options["valid"] = options["valid"] or None
    settings = resolve_settings(options, read_config(config), config.name if config else "")
    if request.dry_run:
        click.echo(render(settings.rows(), "table"), nl=False)
        return
    output = request.check(settings)
    with Output(output).locked():
        Output(output).remove_leftovers()
        if request.per_query:
            train_per_query(request.data, output, settings, request.quiet)
        else:
            _Training(request, output, settings).run()


def checkpoint_of(output: Path) -> Path:
    """Return the path of the checkpoint of a training that writes to `output`."""
    return output.with_name(output.name + ".checkpoint")


class _Training:
    """One call of `ranking train`."""

    def __init__(self, request: Request, output: Path, settings: Settings) -> None:
        self.request, self.output, self.settings = request, output, settings
        self.quiet = request.quiet
        self.checkpoint = Checkpoint(path=checkpoint_of(output))
        self._refuse_to_discard()
        resources = Resources(settings["reader"], settings["kernel"], settings["threads"])
        data = resources.read(request.data)
        valid = None
        if settings["valid"]:
            valid = resources.read(settings["valid"], settings["valid-reader"])
        self._check_options(judged=isinstance(data, JudgedLists), validated=valid is not None)
        self.ranker = Ranker(
            **{part: settings[part] for part in ("model", "loss", "regularizer", "solver")},
            features=settings.features_for(isinstance(data, TextCollection)),
            kernel=settings["kernel"],
            engine=settings["engine"],
            threads=settings["threads"],
            random_state=settings["seed"],
            scale=settings["scale"],
        )
        self.prepared = self.ranker.prepare_data(data, valid=valid)
        self.data, self.valid = self.prepared.data, self.prepared.valid
        refuse_equal(self.data, self.valid)
        self.progress = ProgressLine(label=f"training {output.name}")
        self.ranker.set_params(callbacks=self._callbacks(request.callbacks))
        self.snapshot = self._read_checkpoint() if request.resume else None
        self.checkpoint.outer_facts["identity"] = self._identity()

    def _refuse_to_discard(self) -> None:
        """Refuse to begin where an interrupted training has left its checkpoint."""
        path = Path(self.checkpoint.path)
        if path.exists() and not self.request.resume:
            raise click.UsageError(
                f"{path} is the checkpoint of an interrupted training; continue it with --resume, "
                "or delete it to train from the start."
            )

    def _check_options(self, judged: bool, validated: bool) -> None:
        """Refuse options that the data have no use for."""
        if validated and not judged:
            return
        if self.settings.is_explicit("metrics"):
            raise click.UsageError(
                "--metrics is for the learning curve of queries and documents on --valid; "
                "leave it out for judged rows, or without --valid."
            )
        if self.request.exclude_seen:
            raise click.UsageError(
                "--exclude-seen leaves positives of queries and documents out of what is measured "
                "on --valid; leave it out for judged rows, or give --valid."
            )

    def _callbacks(self, specs: Sequence[str]) -> list[Callback]:
        """Return the callbacks: those that measure come first, so that others see the values."""
        explicit = [get_registry().create("callback", spec) for spec in specs]
        names = {callback.name for callback in explicit}
        measuring = [] if self.valid is None else [self._validation_callback()]
        measuring = [callback for callback in measuring if callback.name not in names]
        own: list[Any] = [self.checkpoint] if self.quiet else [self.checkpoint, self.progress]
        return [*measuring, *explicit, *own]

    def _validation_callback(self) -> Callback:
        """Return the callback that measures on the validation data after each epoch.

        Embeddings can be trained too long, so they are stopped early, by the first metric. SGD on a
        matrix decays its learning rate and ends by itself: it is measured, and not stopped. So is a
        search: its regularizer has the effect of early stopping, and one choice is enough.
        """
        if not isinstance(self.data, JudgedLists):
            metrics = list(parse_metrics(self.settings["metrics"]))
            if self.ranker.plan().resolve(self.data)[0].form == "factors":
                return EarlyStopping(metric=metrics[0])
            return Curve(metrics="+".join(metrics))
        search = self.settings.search
        if search:
            return Curve(metrics=search.metric)
        patience = self.ranker.plan().resolve(self.data)[3].patience
        return EarlyStopping(metric="ndcg@10", patience=patience)

    def run(self) -> None:
        """Train, write the model, and report."""
        start = time.perf_counter()
        try:
            self._fit()
        except KeyboardInterrupt:
            self._save_interrupted()
        self.ranker.save(self.output)
        Output(self.checkpoint.path).remove()
        if not self.quiet:
            self._report(time.perf_counter() - start)

    def _fit(self) -> None:
        plan, search = self.ranker.plan(), self.settings.search
        fitter = plan if search is None else ParameterSearch(plan, search, self._begin_trial)
        training: Any = fitter.trainer(
            self.data, self.valid, exclude_seen=self.request.exclude_seen
        )
        if search is not None and self.snapshot is not None:
            training.progress = type(training.progress).restore(
                self.checkpoint.outer_facts.get("search"), self.checkpoint.outer_tensors
            )
        try:
            training.train(self.snapshot)
        finally:
            if training.finished:
                self.ranker.adopt(training.result(), self.prepared)
        if search is not None and not self.quiet:
            self._report_search(search, training.progress)

    def _report_search(self, search: Search, result: Any) -> None:
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
        names = " and ".join(f"{part}:{parameter}" for part, parameter, _ in search.trials()[0])
        click.echo(f"{names}, by {spelled} on --valid:", err=True)
        click.echo(render(table, "table"), err=True)

    def _begin_trial(self, trainer: Any, progress: Any) -> None:
        """Store the results of the search so far in the checkpoints of the next trial."""
        search = self.settings.search
        assert search is not None
        self.checkpoint.outer_facts["search"] = progress.facts()
        self.checkpoint.outer_tensors = progress.tensors()
        trials = search.trials()
        label = ", ".join(
            f"{part}:{parameter}={value:g}"
            for part, parameter, value in trials[len(progress.trials)]
        )
        self.progress.label = f"{label} ({len(progress.trials) + 1} of {len(trials)})"

    def _identity(self) -> dict[str, str]:
        """Return what must be the same for a checkpoint to be resumed."""
        names = ("features", "scale", "model", "loss", "regularizer", "solver", "seed")
        identity = {name: str(self.settings[name]) for name in names}
        identity["exclude-seen"] = str(self.request.exclude_seen)
        return identity | self.prepared.fingerprints()

    def _read_checkpoint(self) -> Any:
        path = Path(self.checkpoint.path)
        if not path.exists():
            raise click.ClickException(
                f"there is no checkpoint {path} to resume; train without --resume."
            )
        snapshot = self.checkpoint.read()
        then, now = self.checkpoint.outer_facts.get("identity"), self._identity()
        if not isinstance(then, dict):
            then = {}
        changed = [name for name in now if then.get(name) != now[name]]
        if changed:
            raise click.ClickException(
                f"{path} belongs to another training ({', '.join(changed)} differ); give the same "
                "settings and data, or delete it."
            )
        return snapshot

    def _save_interrupted(self) -> None:
        """Save the best epoch so far, keep the checkpoint, and exit with code 1."""
        saved = "no epoch was completed"
        if getattr(self.ranker, "stopped_", ""):
            self.ranker.save(self.output)
            saved = f"{self.output} holds the best so far"
        click.echo(f"interrupted: {saved}; --resume continues from the last epoch.", err=True)
        sys.exit(1)

    def _report(self, seconds: float) -> None:
        ranker = self.ranker
        parts = [ranker.model_, ranker.loss_, ranker.regularizer_, ranker.solver_]
        for trial in ranker.description_.get("density search", ()):
            left = f"left {trial['density']:.2%} of the weights"
            click.echo(f"pilot training: strength {trial['strength']:.3g} {left}", err=True)
        counts = ", ".join(
            f"{count} {name}"
            for name, count in ranker.description_["training"].items()
            if name not in ("seed", "stopped")
        )
        click.echo(
            f"{' x '.join(part.spec() for part in parts)}\n"
            f"kernel {ranker.kernel_.name}, {counts}; "
            f"{seconds:.2f} s, {ranker.n_iter_} epochs, stopped: {ranker.stopped_}\n"
            f"objective {ranker.objective_:.6g}, density {ranker.model_.density:.1%}, "
            f"written to {self.output} ({self.output.stat().st_size} bytes)",
            err=True,
        )
