"""Tune recipes and their parameters by successive halving, within a budget.

Every recipe is trained with its defaults first, for all their epochs. Then rounds of sampled
configurations train on a ninth of the queries, the best third of them on a third, and the best of
those on all (Jamieson and Talwalkar, 2016); the defaults stopped at their best epoch compete too.

The best configuration is chosen among many, so that what chose it says too much for it. It is
trained again on further folds, as it would be trained in the end: for the number of epochs that was
best, without early stopping. It replaces the defaults of the best recipe only if each of these
folds shows a gain, and all together one that another sample of as many queries would show too: the
mean of the paired differences of n queries and that of n others differ by sqrt(2) standard errors
of one, and a gain must exceed `SURE` times that.
"""

from __future__ import annotations

import dataclasses
import functools
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.callback import Callback, TrainingRun
from ranking.contracts.metric import Metric
from ranking.contracts.recipe import Choice, Recipe
from ranking.contracts.solver import EpochResult
from ranking.data.inputs import OptionalSpec, PreparedData, Trainable, prepare_data
from ranking.data.judged_lists import JudgedLists
from ranking.data.split import query_kfold, random_bits_of
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError, RankingError
from ranking.io.schema import PARTS
from ranking.metrics.evaluation import mean
from ranking.registry.manager import get_registry
from ranking.training.budget import Budget
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Trainer
from ranking.training.wrappers.spaces import Range, sample, search_space

REDUCTION = 3
"""Of three configurations the best goes on, with three times as many queries."""

FOLDS = 5
FEWEST_QUERIES = 60
"""Training queries below which no training sees a part of the data only."""

SURE = 2.5
"""Standard errors, of the difference between two samples of queries, that a gain must exceed."""

CONFIRMATIONS = ((20, 1), (40, 2))
"""Budgets of fewer trainings than the first number confirm on so many folds; larger ones on all."""

MANY = 10**9

Floats = NDArray[np.float64]


@dataclasses.dataclass
class Trial:
    """One training of a configuration.

    Attributes
    ----------
    recipe : str
    choices : tuple of Choice
        What differs from the recipe's defaults.
    share : float
        Of the training queries.
    fold : int
        Which part of the data validates.
    values : dict
        The mean of each metric on the validation data, by its full name.
    epochs : int
        After which the first metric was best, and training stops; 0 for the solver's own number.
    seconds : float
    problem : str
        Why it has no values, or empty.
    """

    recipe: str
    choices: tuple[Choice, ...]
    share: float = 1.0
    fold: int = 0
    values: dict[str, float] = dataclasses.field(default_factory=dict)
    epochs: int = 0
    seconds: float = 0.0
    problem: str = ""
    per_query: Floats = dataclasses.field(default_factory=lambda: np.empty(0), repr=False)

    def label(self) -> str:
        """Return what differs from the defaults, as specs write it."""
        named = [f"{one.part}:{one.parameter}={one.value:g}" for one in self.choices]
        if not named and self.epochs:
            return f"defaults, stopped after epoch {self.epochs}"
        return " ".join(named) or "defaults"

    def row(self) -> dict[str, Any]:
        """Return the JSON values of a report."""
        return {
            "recipe": self.recipe,
            "parameters": self.label(),
            "share": round(self.share, 4),
            "fold": self.fold,
            **self.values,
            "epochs": self.epochs,
            "seconds": round(self.seconds, 3),
            "problem": self.problem,
        }


@dataclasses.dataclass
class TuningReport:
    """What a search did.

    Attributes
    ----------
    metrics : list of str
        Full names; the first decides.
    trials : list of Trial
        In the order in which they ran.
    best : Trial
        What was chosen, trained on all queries of the first fold.
    baseline : Trial
        The best recipe with its defaults.
    reason : str
        Why `best` was chosen.
    """

    metrics: list[str]
    trials: list[Trial]
    best: Trial
    baseline: Trial
    reason: str

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per trial, as JSON values."""
        return [trial.row() for trial in self.trials]


@dataclasses.dataclass
class StopAfter(Callback):
    """End a training after a number of epochs, which validation chose before.

    Parameters
    ----------
    epochs : int
        0 for the solver's own number.
    deadline : float
        When to end it at the latest, by the monotonic clock.
    """

    name: ClassVar[str] = "stop-after"

    epochs: int = 0
    deadline: float = float("inf")

    def _setup(self) -> None:
        self.late = False

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Return whether the last epoch is complete."""
        self.late = time.monotonic() > self.deadline
        return self.late or 0 < self.epochs <= result.epoch


@dataclasses.dataclass
class _Watch(Callback):
    """Measure each epoch, stop early or when time is up, and remember the best epoch.

    Attributes
    ----------
    best_epoch, last_epoch : int
    """

    name: ClassVar[str] = "watch"

    metric: Any = None
    patience: int = 5
    deadline: float = float("inf")

    def _setup(self) -> None:
        self.best_epoch = self.last_epoch = 0
        self.late = False
        self._best_value = -np.inf
        self._tensors: dict[str, Any] = {}

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Measure the model, and return whether to stop."""
        self.last_epoch = result.epoch
        value = mean(run.validate([self.metric])[self.metric.spelled()])
        value = value if self.metric.higher_is_better else -value
        if value > self._best_value or not self._tensors:
            self._best_value, self.best_epoch = value, result.epoch
            self._tensors = {name: one.copy() for name, one in run.model.tensors().items()}
        self.late = time.monotonic() > self.deadline
        return self.late or result.epoch - self.best_epoch >= self.patience

    @property
    def stopped_early(self) -> bool:
        """Whether an epoch was better than the last."""
        return self.best_epoch < self.last_epoch

    def restore_best(self, trainer: Trainer) -> None:
        """Restore the best epoch."""
        if self._tensors:
            trainer.model.restore(self._tensors)


@dataclasses.dataclass(frozen=True)
class TuningSettings:
    """What `tune` searches and how long.

    Attributes
    ----------
    recipes : sequence of str
    metrics : sequence of Metric
        The first decides.
    budget : Budget
    seed, threads : int
    kernel : str or Kernel
    sampler : {"random", "optuna"}
    features, scale : str or None
        As in `Ranker`.
    """

    recipes: Sequence[str]
    metrics: Sequence[Metric]
    budget: Budget
    seed: int = 0
    threads: int = 1
    kernel: Any = "auto"
    sampler: str = "random"
    features: Any = None
    scale: str | None = None


class SuccessiveHalving:
    """Search the recipes and parameters that are best on validation data.

    Parameters
    ----------
    data, valid : JudgedLists, MatchingData or TextCollection
        Without validation data, folds of the data are held out: queries, or of users that are
        known by id only, interactions.
    settings : TuningSettings
    on_trial : function, optional
        Called with each trial when it has ended.
    """

    def __init__(
        self,
        data: Any,
        valid: Any,
        settings: TuningSettings,
        on_trial: Callable[[Trial], None] = lambda trial: None,
    ) -> None:
        self.settings, self.on_trial = settings, on_trial
        self.data, self.valid = data, valid
        self.folds = [(data, valid)] if valid is not None else hold_out(data, settings.seed)
        self.by_entries = valid is None and by_entries(data)
        self.trials: list[Trial] = []
        self.spaces: dict[str, list[Range]] = {}
        self._stopped: dict[str, Trial] = {}
        self._prepared: dict[Any, PreparedData] = {}
        self._start = time.monotonic()
        self._metric = settings.metrics[0]
        self._samplers: dict[str, Any] = {}

    def run(self) -> TuningReport:
        """Search until the budget is spent."""
        defaults = self._train_defaults()
        baseline = self._best(defaults)
        survivors: list[Trial] = []
        number = failed = 0
        while any(self.spaces.values()) and failed < REDUCTION and (width := self._width()):
            best = self._round(number, width, defaults)
            survivors += [] if best is None else [best]
            failed = failed + 1 if best is None else 0
            number += 1
        best, reason = self._choose(baseline, survivors)
        return TuningReport(
            [metric.spelled() for metric in self.settings.metrics],
            self.trials,
            best,
            baseline,
            reason,
        )

    def _train_defaults(self) -> list[Trial]:
        """Train every recipe with its defaults; those that do not fit the data drop out."""
        defaults: list[Trial] = []
        for recipe in self.settings.recipes:
            if defaults and not self._has_room(1.0):
                break
            trial = self._train(Trial(recipe, ()))
            if not trial.problem:
                defaults.append(trial)
        if not defaults:
            reasons = "; ".join(f"{one.recipe}: {one.problem}" for one in self.trials)
            raise DataError(f"no recipe could be trained: {reasons}")
        return defaults

    def _round(self, number: int, width: int, defaults: Sequence[Trial]) -> Trial | None:
        """Halve sampled configurations of the promising recipes; return the one that is left."""
        promising = self._promising(defaults, number)
        alive = []
        for at in range(width):
            recipe = promising[(number + at) % len(promising)]
            choices = self._sample(recipe, number * REDUCTION**2 + at)
            alive.append(Trial(recipe, choices))
        for share in self._shares():
            trained: list[Trial] = []
            for one in alive:
                if not self._has_room(share if self.settings.budget.seconds is not None else 1.0):
                    return self._best_full(trained)
                done = self._train(Trial(one.recipe, one.choices, share))
                self._tell(done)
                if not done.problem:
                    trained.append(done)
            if not trained:
                return None
            trained.sort(key=lambda one: -self._merit(one))
            alive = trained[: max(1, len(trained) // REDUCTION)]
        return alive[0]

    def _promising(self, defaults: Sequence[Trial], number: int) -> list[str]:
        """Return the recipes to search: all in the first round, then the better half so far."""
        full = [one for one in self.trials if one.share == 1.0 and one.fold == 0 and one.values]
        merits = {
            one.recipe: max(self._merit(each) for each in full if each.recipe == one.recipe)
            for one in defaults
            if self.spaces[one.recipe]
        }
        order = sorted(merits, key=lambda recipe: -merits[recipe])
        return order if number == 0 else order[: max(1, (len(order) + 1) // 2)]

    def _best_full(self, trained: Sequence[Trial]) -> Trial | None:
        full = [one for one in trained if one.share == 1.0]
        return self._best(full) if full else None

    def _shares(self) -> list[float]:
        """Return the shares of the training queries in the order of the rungs."""
        n_queries = self.folds[0][0].n_queries
        shares = [REDUCTION**-2.0, 1.0 / REDUCTION, 1.0]
        return [share for share in shares if share == 1.0 or share * n_queries >= FEWEST_QUERIES]

    def _width(self) -> int:
        """Return how many configurations begin the next round; 0 if the budget has no room."""
        widest = max(int(REDUCTION ** (len(self._shares()) - 1)), REDUCTION)
        for width in range(widest, 0, -1):
            costs = [max(1, width // REDUCTION**rung) for rung in range(len(self._shares()))]
            if self.settings.budget.trials is not None:
                cost = float(sum(costs))
            else:  # a small part of the queries takes more than its share of the time
                shares = [min(1.0, 1.5 * share) for share in self._shares()]
                cost = sum(n * share for n, share in zip(costs, shares, strict=True))
            if self._has_room(cost, 2.0 * self._confirmations):
                return width
        return 0

    @functools.cached_property
    def _confirmations(self) -> int:
        """Return on how many further folds a choice is confirmed, by two trainings each."""
        budget, further = self.settings.budget, len(self.folds) - 1
        trainings = float(budget.trials or 0)
        if budget.seconds is not None:
            trainings = budget.seconds / max(self._longest(), 1e-9)
        return next((min(n, further) for most, n in CONFIRMATIONS if trainings < most), further)

    def _longest(self) -> float:
        """Return the seconds of the longest training on all queries of a fold."""
        full = [one.seconds for one in self.trials if one.share == 1.0 and not one.problem]
        return max(full, default=0.0)

    def _has_room(self, cost: float, held_back: float = 0.0) -> bool:
        """Return whether the budget has room for so many trainings, and those held back."""
        budget = self.settings.budget
        if budget.trials is not None:
            return budget.trials - len(self.trials) >= cost + held_back
        # The last training, on all data, takes a little longer than one on a fold.
        needed = self._longest() * (cost + held_back + 1.5)
        return (budget.seconds or 0.0) - (time.monotonic() - self._start) >= needed

    def _choose(self, baseline: Trial, survivors: Sequence[Trial]) -> tuple[Trial, str]:
        """Return the best configuration, if it is surely better than the defaults, and why."""
        stopped = self._stopped.get(baseline.recipe)
        candidates = [*survivors, *([] if stopped is None else [stopped])]
        better = [one for one in candidates if self._merit(one) > self._merit(baseline)]
        if not better:
            return baseline, "no configuration was better on the validation data"
        best = self._best(better)
        gains: list[Floats] = []
        for fold in range(1, self._confirmations + 1):
            if not self._has_room(2.0):
                break
            pair = [
                self._train(Trial(one.recipe, one.choices, 1.0, fold, epochs=one.epochs))
                for one in (best, baseline)
            ]
            if any(one.problem for one in pair):
                break
            gains.append(self._gains(*pair))
        if gains:  # those that chose it say too much for it, and are left out
            where, errors = f"on {len(gains)} further folds", SURE
        else:
            gains, where, errors = [self._gains(best, baseline)], "on the first fold", SURE + 1.0
        gain, error = _mean_and_error(np.concatenate(gains))
        measured = f"by {gain:+.4f} with a standard error of {error:.4f}, {where}"
        everywhere = all(one.size and one.mean() > 0.0 for one in gains)
        if everywhere and gain > errors * np.sqrt(2.0) * error:
            return best, f"better than the defaults {measured}"
        return baseline, f"the best configuration differs from the defaults {measured}"

    def _gains(self, one: Trial, other: Trial) -> Floats:
        return self._signed(one.per_query - other.per_query)

    def _signed(self, differences: Floats) -> Floats:
        """Return differences that count, above 0 if they are gains."""
        differences = differences[~np.isnan(differences)]
        return differences if self._metric.higher_is_better else -differences

    def _merit(self, trial: Trial) -> float:
        value = trial.values[self._metric.spelled()]
        if np.isnan(value):
            return -np.inf
        return value if self._metric.higher_is_better else -value

    def _best(self, trials: Sequence[Trial]) -> Trial:
        return max(trials, key=self._merit)

    def _train(self, trial: Trial) -> Trial:
        """Train one configuration with early stopping, and measure it."""
        start = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._measure(trial)
        except RankingError as error:
            trial.problem = " ".join(str(error).split())
        trial.seconds = time.monotonic() - start
        self.trials.append(trial)
        self.on_trial(trial)
        return trial

    def _measure(self, trial: Trial) -> None:
        recipe: Recipe = get_registry().create("recipe", trial.recipe)
        prepared = self.prepare(recipe, trial.fold)
        data, valid = prepared.data, prepared.valid
        if trial.share < 1.0:
            data, valid = self._part(data, valid, trial.share)
        assert valid is not None
        plan = self.plan(recipe, data, trial.choices)
        watch = self._watch(trial, plan.resolve(data)[3].patience)
        trainer = dataclasses.replace(plan, callbacks=[watch]).trainer(
            data, valid, exclude_seen=self._excludes(data)
        )
        trainer.train()
        if watch.late:
            trial.problem = "the budget was spent"
            return
        if isinstance(watch, StopAfter):
            self._evaluate(trial, trainer)
        elif trial.choices:
            trial.epochs = watch.best_epoch if watch.stopped_early else 0
            watch.restore_best(trainer)
            self._evaluate(trial, trainer)
        else:
            self.spaces[trial.recipe] = self._space(recipe, trainer, watch.stopped_early)
            self._evaluate(trial, trainer)
            if watch.stopped_early:
                watch.restore_best(trainer)
                stopped = Trial(trial.recipe, (), epochs=watch.best_epoch)
                self._stopped[trial.recipe] = self._evaluate(stopped, trainer)

    def _evaluate(self, trial: Trial, trainer: Trainer) -> Trial:
        """Measure the model of a training on the validation data."""
        values = trainer.validate(list(self.settings.metrics))
        trial.values = {name: mean(column) for name, column in values.items()}
        trial.per_query = values[self._metric.spelled()]
        return trial

    def _watch(self, trial: Trial, patience: int) -> _Watch | StopAfter:
        """Return the callback of a trial; the defaults of a recipe have all their epochs."""
        deadline = float("inf")
        if self.settings.budget.seconds is not None and self.trials:
            deadline = self._start + self.settings.budget.seconds
        if trial.fold > 0:  # as it would be trained in the end
            return StopAfter(trial.epochs, deadline)
        return _Watch(self._metric, max(5, patience) if trial.choices else MANY, deadline)

    def _excludes(self, data: Trainable) -> bool:
        return self.by_entries and not isinstance(data, JudgedLists)

    def prepare(self, recipe: Recipe, fold: int | None) -> PreparedData:
        """Return training and validation data of a fold with a recipe's features; all if None."""
        features = self.settings.features
        if features is None and "features" in recipe.parts:
            features = OptionalSpec(recipe.parts["features"])
        key = (str(features), fold)
        if key not in self._prepared:
            data, valid = (self.data, self.valid) if fold is None else self.folds[fold]
            scale = self.settings.scale
            self._prepared[key] = prepare_data(data, None, None, valid, features, scale)
        return self._prepared[key]

    def plan(self, recipe: Recipe, data: Trainable, choices: Sequence[Choice]) -> TrainingPlan:
        """Return the plan of a configuration."""
        parts = {name: spec for name, spec in recipe.parts.items() if name in PARTS}
        settings = self.settings
        plan = TrainingPlan(
            **parts,
            kernel=settings.kernel,
            threads=settings.threads,
            random_state=settings.seed,
        )
        return plan.with_choices(data, choices) if choices else plan

    def final_trainer(self, best: Trial) -> tuple[Trainer, PreparedData]:
        """Return the training of a configuration on all data, for its best number of epochs."""
        recipe: Recipe = get_registry().create("recipe", best.recipe)
        prepared = self.prepare(recipe, None)
        plan = self.plan(recipe, prepared.data, best.choices)
        callbacks = [StopAfter(epochs=best.epochs)] if best.epochs else []
        plan = dataclasses.replace(plan, callbacks=callbacks)
        return plan.trainer(prepared.data), prepared

    def _space(self, recipe: Recipe, trainer: Trainer, peaked: bool) -> list[Range]:
        """Return what is tuned; more epochs are of no use where the best was not the last."""
        registry = get_registry()
        resolved = {
            kind: registry.create(kind, spec) for kind, spec in trainer.resolved_specs().items()
        }
        parts: Mapping[str, Any] = {kind: getattr(trainer, kind) for kind in PARTS}
        space = search_space(parts, resolved, recipe.search)
        return [one for one in space if not (peaked and one.parameter in ("epochs", "max_epochs"))]

    def _sample(self, recipe: str, number: int) -> tuple[Choice, ...]:
        if self.settings.sampler == "optuna":
            choices: tuple[Choice, ...] = self._sampler(recipe).ask()
            return choices
        key = [self.settings.seed, list(self.settings.recipes).index(recipe), number]
        return sample(self.spaces[recipe], np.random.default_rng(key))

    def _sampler(self, recipe: str) -> Any:
        from ranking.training.wrappers.samplers import OptunaSampler

        if recipe not in self._samplers:
            higher = self._metric.higher_is_better
            self._samplers[recipe] = OptunaSampler(
                self.spaces[recipe], self.settings.seed, higher_is_better=higher
            )
        return self._samplers[recipe]

    def _tell(self, trial: Trial) -> None:
        if self.settings.sampler == "optuna" and trial.share == self._shares()[0]:
            value = trial.values.get(self._metric.spelled(), float("nan"))
            self._sampler(trial.recipe).tell(trial.choices, value)

    def _part(self, data: Any, valid: Any, share: float) -> tuple[Any, Any]:
        """Return a share of the training queries; of users known by id, their validation too."""
        count = max(round(share * data.n_queries), 1)
        order = np.argsort(random_bits_of(self.settings.seed, data.n_queries), kind="stable")
        positions = np.sort(order[:count])
        if self.by_entries:
            return data.select(positions), valid.select(positions)
        return data.select(positions), valid


def _mean_and_error(differences: Floats) -> tuple[float, float]:
    """Return the mean of paired differences and its standard error."""
    if differences.size < 2:
        return float(differences.sum()), float("inf")
    error = differences.std(ddof=1) / np.sqrt(differences.size)
    return float(differences.mean()), float(error)


def by_entries(data: Any) -> bool:
    """Return whether interactions are held out: users that are known by id have no other data."""
    if isinstance(data, JudgedLists | TextCollection) or data.relevance is None:
        return False
    return data.queries is None


def hold_out(data: Any, seed: int) -> list[tuple[Any, Any]]:
    """Return folds of training and validation data, by query where that is possible."""
    if not by_entries(data):
        n_folds = min(FOLDS, data.n_queries)
        if n_folds < 2:
            raise DataError("tuning needs two queries or more; give valid, or more data.")
        return query_kfold(data, n_folds, seed, check=False)
    entries = data.relevance.nnz
    if entries < FOLDS:
        raise DataError(f"tuning needs {FOLDS} interactions or more; there are {entries}.")
    fold_of = np.argsort(np.argsort(random_bits_of(seed, entries), kind="stable")) % FOLDS
    return [
        (data.keep_entries(fold_of != fold), data.keep_entries(fold_of == fold))
        for fold in range(FOLDS)
    ]
