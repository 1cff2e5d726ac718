"""Benchmark all rankers that fit some data: tuned with an equal budget, tested once."""

from __future__ import annotations

import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ranking._utils.memory import peak_bytes, reset_peak
from ranking.contracts.callback import Callback
from ranking.contracts.metric import Metric
from ranking.contracts.recipe import Choice, Recipe
from ranking.data.inputs import PreparedData
from ranking.data.judged_lists import JudgedLists
from ranking.data.split import split_data
from ranking.errors import DataError, RankingError
from ranking.metrics.bootstrap import Interval
from ranking.metrics.evaluation import mean
from ranking.metrics.parse import parse_metrics
from ranking.metrics.ranked import Floats
from ranking.metrics.result import Evaluation
from ranking.metrics.significance import holm, t_test
from ranking.ranker import Ranker
from ranking.registry.manager import get_registry
from ranking.training.budget import Budget, Deadline, RunningBudget
from ranking.training.candidates import fitting_recipes, kind_of, trials
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Trainer

METRICS: Mapping[str, str] = {
    "judged": "ndcg@10,ndcg@5,map",
    "texts": "ndcg@10,map",
    "features": "ndcg@10,map",
    "interactions": "ndcg@20(empty=skip),recall@20(empty=skip)",
}
"""By the kind of data; the first decides."""

TIMED = 1000
"""Queries whose ranking is timed."""

LEVEL = 0.05
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@dataclasses.dataclass(frozen=True)
class BenchmarkedSystem:
    """One tuned ranker on the test data.

    Attributes
    ----------
    recipe : str
    settings : dict
        The parameters that validation chose, such as ``{"regularizer:strength": 0.1}``; empty if
        those of the recipe were best.
    trials : int
        Trainings within the budget.
    valid : float
        The first metric on the validation data.
    test : Evaluation
        The metrics on the test data, by query.
    train_seconds : float
        Processor time of the features and of the chosen training.
    rank_seconds : float
        Processor time per test query, for ten documents of all, or for the rows of its list.
    peak_bytes : int
        The largest memory of the process meanwhile, data included.
    model_bytes : int
        Of the model file.
    letter : str
        Names the system: a is the best by the first metric.
    better_than : str
        The letters of the systems that are significantly worse by the first metric.
    """

    recipe: str
    settings: dict[str, float]
    trials: int
    valid: float
    test: Evaluation
    train_seconds: float
    rank_seconds: float
    peak_bytes: int
    model_bytes: int
    letter: str = ""
    better_than: str = ""

    def interval(self, metric: str) -> Interval:
        """Return the 95 % bootstrap interval of a mean."""
        return self.test.interval(metric)


@dataclasses.dataclass(frozen=True)
class BenchmarkReport:
    """What `Benchmark.run` returns.

    Attributes
    ----------
    systems : list of BenchmarkedSystem
        Best first.
    left_out : dict
        The recipes that could not be trained, and why.
    metrics : list of str
    facts : dict
        Sizes of the data, the budget and the seed.
    """

    method: ClassVar[str] = (
        "Intervals: 95 %, bootstrap over queries. Letters: systems that are significantly worse by "
        f"the first metric, paired t-test over queries, Holm's correction, p < {LEVEL:g}."
    )

    systems: list[BenchmarkedSystem]
    left_out: dict[str, str]
    metrics: list[str]
    facts: dict[str, Any]

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per system, best first."""
        return [
            {
                "": one.letter,
                "recipe": one.recipe,
                **{metric: one.test.mean(metric) for metric in self.metrics},
                "low": one.interval(self.metrics[0]).low,
                "high": one.interval(self.metrics[0]).high,
                "better than": one.better_than,
                "train s": one.train_seconds,
                "rank ms": 1000.0 * one.rank_seconds,
                "peak MB": one.peak_bytes / 1e6,
                "model MB": one.model_bytes / 1e6,
                "trials": one.trials,
                "valid": one.valid,
                "settings": ", ".join(f"{name}={value:g}" for name, value in one.settings.items()),
            }
            for one in self.systems
        ]


def _silent(message: str) -> None:
    pass


@dataclasses.dataclass(frozen=True)
class Benchmark:
    """Compare all rankers that support the data, each tuned on validation data within one budget.

    Parameters
    ----------
    budget : str
        For each ranker: processor seconds of tuning, such as ``"10s"``, or trainings, such as
        ``"10trials"``. The first training has the recipe's own parameters; then come those of the
        recipe's search, in random order, or random draws around its values. With trials the result
        depends on the data and the seed only.
    recipes : sequence of str, optional
        By default all that are made for the data.
    metrics : str or sequence of str, optional
        The first decides on the validation data. By default those of the kind of data.
    kernel : str
    threads : int
    random_state : int
        Seed of splits, draws and trainings.
    folder : str or Path, optional
        Where to write the model file of each ranker.
    tell : function
        Called with a message before each ranker.

    Examples
    --------
    >>> from ranking.data.synthetic import demo
    >>> data = demo()
    >>> benchmark = Benchmark("2trials", recipes=["regression", "listnet"])
    >>> report = benchmark.run(data["train"], data["valid"], data["test"])
    >>> sorted(system.recipe for system in report.systems)
    ['listnet', 'regression']
    """

    budget: str = "10s"
    recipes: Sequence[str] | None = None
    metrics: str | Sequence[str] | None = None
    kernel: str = "auto"
    threads: int = 1
    random_state: int = 0
    folder: str | Path | None = None
    tell: Callable[[str], None] = _silent

    def run(self, data: Any, valid: Any = None, test: Any = None) -> BenchmarkReport:
        """Tune each ranker on training and validation data, and evaluate it once on the test data.

        Parameters
        ----------
        data : JudgedLists, MatchingData or TextCollection
            The training data.
        valid, test : the same kind of data, optional
            If test data are missing, a fifth of the queries is held out, and if validation data
            are, a fifth of the others; of users and items without features a fifth of the
            interactions, and a tenth of the others. Their lists leave out what users have in the
            other parts.
        """
        kind = kind_of(data)
        budget = Budget.parse(self.budget)
        recipes = fitting_recipes(data, self.recipes)
        if not recipes:
            raise DataError(f"no recipe is made for {kind}; name some.")
        metrics = parse_metrics(self.metrics or METRICS[kind])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = self._split(data, valid, test, kind)
            systems, left_out = self._measure(recipes, parts, metrics, budget)
        if not systems:
            reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
            raise DataError(f"no recipe could be trained: {reasons}")
        facts = {
            "kind": kind,
            "budget": str(budget),
            "seed": self.random_state,
            **{name: describe_part(part) for name, part in parts._asdict().items()},
        }
        names = list(metrics)
        return BenchmarkReport(_lettered(systems, names[0], metrics), left_out, names, facts)

    def _split(self, data: Any, valid: Any, test: Any, kind: str) -> _Parts:
        method = "random" if kind == "interactions" else "by-query"
        options: dict[str, Any] = {"check": False, "seed": self.random_state}
        if test is None:
            data, test = split_data(data, method, share=0.2, **options)
        if valid is None:
            share = 0.1 if kind == "interactions" else 0.2
            data, valid = split_data(data, method, share=share, **options)
        return _Parts(data, valid, test)

    def _measure(
        self,
        recipes: Mapping[str, Recipe],
        parts: _Parts,
        metrics: Mapping[str, Metric],
        budget: Budget,
    ) -> tuple[list[BenchmarkedSystem], dict[str, str]]:
        systems, left_out = [], {}
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(self.folder or temporary)
            folder.mkdir(parents=True, exist_ok=True)
            for number, name in enumerate(recipes, start=1):
                self.tell(f"{name} ({number} of {len(recipes)})")
                try:
                    systems.append(self._system(name, parts, metrics, budget, folder))
                except (RankingError, MemoryError, ImportError) as error:
                    left_out[name] = str(error)
                    self.tell(f"{name} is left out: {error}")
        return systems, left_out

    def _system(
        self,
        name: str,
        parts: _Parts,
        metrics: Mapping[str, Metric],
        budget: Budget,
        folder: Path,
    ) -> BenchmarkedSystem:
        """Tune one recipe, then measure it on the test data."""
        reset_peak()
        ranker = Ranker.from_recipe(
            name, kernel=self.kernel, threads=self.threads, random_state=self.random_state
        )
        running = budget.start()
        began = time.process_time()
        prepared = ranker.prepare_data(parts.train, valid=parts.valid)
        preparation = time.process_time() - began
        tuning = _Tuning(ranker, prepared, next(iter(metrics.values())), running, parts.seen)
        best = tuning.best()
        ranker.adopt(best.trainer.result(), prepared)
        ranker.save(folder / f"{name}.safetensors")
        seconds = _time_ranking(ranker, parts.test)
        return BenchmarkedSystem(
            recipe=name,
            settings={f"{part}:{key}": value for part, key, value in best.choices},
            trials=running.trials,
            valid=best.value,
            test=ranker.evaluate(parts.test, metrics=list(metrics), exclude=parts.excluded),
            train_seconds=preparation + best.seconds,
            rank_seconds=seconds,
            peak_bytes=peak_bytes(),
            model_bytes=(folder / f"{name}.safetensors").stat().st_size,
        )


class _Parts(NamedTuple):
    """The data."""

    train: Any
    valid: Any
    test: Any

    @property
    def seen(self) -> bool:
        """Whether lists leave out what a user has in the other parts."""
        return kind_of(self.train) == "interactions"

    @property
    def excluded(self) -> list[Any] | None:
        """Return the data whose positives are left out when testing."""
        return [self.train, self.valid] if self.seen else None


class _Trial(NamedTuple):
    """A training of the search."""

    trainer: Trainer
    choices: tuple[Choice, ...]
    value: float
    seconds: float


@dataclasses.dataclass
class _Tuning:
    """The search for the parameters of one recipe."""

    ranker: Ranker
    prepared: PreparedData
    metric: Metric
    running: RunningBudget
    exclude_seen: bool

    def best(self) -> _Trial:
        """Return the training with the best validation value; of equals, the first."""
        best = self._train(())
        sign = 1.0 if self.metric.higher_is_better else -1.0
        for choices in self._trials(best.trainer):
            if self.running.is_spent:
                break
            try:
                trial = self._train(choices)
            except RankingError:  # values that do not suit the data, or diverged
                continue
            if sign * trial.value > sign * best.value:
                best = trial
        return best

    def _trials(self, trainer: Trainer) -> Iterator[tuple[Choice, ...]]:
        seed = self.ranker.random_state
        return trials(self.ranker.parameter_search, trainer.resolved_parts(), seed)

    def _train(self, choices: tuple[Choice, ...]) -> _Trial:
        self.running.trials += 1
        plan = self.ranker.plan().with_choices(self.prepared.data, choices)
        plan = dataclasses.replace(plan, callbacks=self._callbacks(plan))
        began = time.process_time()
        trainer = plan.trainer(
            self.prepared.data, self.prepared.valid, exclude_seen=self.exclude_seen
        )
        trainer.train()
        seconds = time.process_time() - began
        value = mean(trainer.validate([self.metric])[self.metric.spelled()])
        return _Trial(trainer, choices, value, seconds)

    def _callbacks(self, plan: TrainingPlan) -> list[Callback]:
        """Return those of `ranking train --valid`, and the budget."""
        model, _, _, solver = plan.resolve(self.prepared.data)
        callbacks: list[Callback] = [Deadline(self.running)]
        boosted = isinstance(self.prepared.data, JudgedLists) and not self.ranker.parameter_search
        if boosted or model.form == "factors":
            stopping = get_registry().find("callback", "early-stopping").load()
            callbacks.append(stopping(self.metric.spelled(), solver.patience))
        return callbacks


def describe_part(data: Any) -> str:
    """Return the size of a part of the data."""
    if isinstance(data, JudgedLists):
        return f"{data.n_queries} queries, {data.n_rows} documents"
    used = data.n_queries
    if data.relevance is not None:
        used = int(np.count_nonzero(np.diff(data.relevance.indptr)))
    return f"{used} queries, {data.n_documents} documents"


def _time_ranking(ranker: Ranker, test: Any) -> float:
    """Return the processor time per query."""
    some = test.select(np.arange(min(test.n_queries, TIMED)))
    began = time.process_time()
    if isinstance(some, JudgedLists):
        ranker.predict(some)
    else:
        for _ in ranker.rank(some, 10):
            pass
    return (time.process_time() - began) / float(some.n_queries)


def _lettered(
    systems: list[BenchmarkedSystem], metric: str, metrics: Mapping[str, Metric]
) -> list[BenchmarkedSystem]:
    """Return the systems, best first, with letters and what they are significantly better than."""
    sign = 1.0 if metrics[metric].higher_is_better else -1.0
    order = sorted(systems, key=lambda one: -sign * one.test.mean(metric))
    pairs = list(combinations(range(len(order)), 2))
    p_values = holm([_p_value(order[a].test[metric], order[b].test[metric]) for a, b in pairs])
    worse = ["" for _ in order]
    for (a, b), p in zip(pairs, p_values, strict=True):
        if p < LEVEL:
            worse[a] += LETTERS[b % len(LETTERS)]
    return [
        dataclasses.replace(one, letter=LETTERS[at % len(LETTERS)], better_than=letters)
        for at, (one, letters) in enumerate(zip(order, worse, strict=True))
    ]


def _p_value(a: Floats, b: Floats) -> float:
    both = ~np.isnan(a) & ~np.isnan(b)
    differences: Floats = a[both] - b[both]
    return t_test(differences)
