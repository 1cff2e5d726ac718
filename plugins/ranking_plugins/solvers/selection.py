"""Choose recommenders on held-out positives: the best family, or the sum of two.

Each epoch is a trial: a model of one family is trained on a part of the positives and measured on
the others. First every family has a trial; then, in rounds, half of the families remain, the best
ones, and each has another trial. In the last epoch the best models of the two best families are
summed with several weights, and what is best is trained again on all positives.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np

from ranking.contracts.loss import Loss
from ranking.contracts.model import MatchingModel, Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.exclusions import Pairs, find_exclusions
from ranking.data.matching_data import MatchingData
from ranking.data.split import split_data
from ranking.errors import DataError
from ranking.kernels.contract import Floats, Ints
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.models.combination import Combination, Scorer
from ranking_plugins.families import Trial, families_for
from ranking_plugins.losses.metric import MetricLoss
from ranking_plugins.regularizers.none import NoPenalty

SHARES = (0.2, 0.35, 0.5, 0.65, 0.8)
"""Weights of the first model of a sum; that of the second is what is missing to 1."""

MOST_WEIGHTS = 1 << 29
"""SLIM is tried on catalogues of up to 23,000 items: it computes a matrix of all pairs."""

USERS_AT_A_TIME = 256
"""Users whose scores are held in memory while sums are tried."""


class Measured(NamedTuple):
    """A trial, the best of its variants on the held-out positives, and its metric."""

    family: str
    number: int
    variant: int
    value: float


@dataclasses.dataclass
class Selection(Solver):
    """Try families of recommenders on held-out positives, keep the best, or sum two.

    Families are the graph filter, softmax, iALS, SLIM (on catalogues of up to 23,000 items) and
    WARP; with features of users or items those that use them. The model is a combination of one or
    two models, trained on all positives.

    Parameters
    ----------
    max_trials : int
        The maximal number of models that are trained to be compared.
    max_seconds : float
        No trial starts after so many seconds; 0 means no limit. Which trials there are, and with
        them the model, then depends on the machine.
    share : float
        The share of the positives that are held out to compare models.
    users : int
        The maximal number of users that models are compared on.
    """

    name: ClassVar[str] = "selection"

    max_trials: int = integer(12, minimum=1)
    max_seconds: float = number(0.0, minimum=0.0)
    share: float = number(0.1, above=0.0, below=1.0)
    users: int = integer(2000, minimum=1)

    def _setup(self) -> None:
        self.report: dict[str, Any] = {}

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a combination, a metric and no penalty."""
        if not issubclass(model, Combination):
            return Compatibility(
                False, "what is selected has several forms, and a combination holds any of them"
            )
        if not issubclass(loss, MetricLoss):
            return Compatibility(False, "models are compared by a metric, not by a smooth loss")
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(False, "each family has its own penalty")
        return Compatibility(True, first_choice=False)

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per trial, and one for the model that is trained on all positives."""
        start = time.monotonic()
        contest = Contest(self, problem)
        done = 0
        if problem.state is not None:
            contest.restore(problem.state)
            done = int(problem.state["epoch"][0])
            if problem.state["final"][0]:
                return
        model = cast(Combination, problem.model)
        while (entry := contest.next_trial()) is not None:
            late = self.max_seconds and time.monotonic() - start >= self.max_seconds
            if contest.measured and (len(contest.measured) >= self.max_trials or late):
                break
            contest.run(*entry)
            best = contest.ranked()[0]
            model.attach_models([contest.parts_of(best)])
            model.weights = np.ones(1)
            done += 1
            state = partial(contest.state, done)
            yield EpochResult(done, 1.0 - best.value, False, state, {"value": best.value})
        selected, weights, value = contest.choose()
        model.attach_models([contest.refit(one) for one in selected])
        model.weights = weights
        self.report = contest.describe(selected, weights, value)
        state = partial(contest.state, done + 1, True)
        yield EpochResult(done + 1, 1.0 - value, True, state, {"value": value})

    def notes(self) -> dict[str, Any]:
        """Return all trials, and what was chosen."""
        return {"selection": self.report} if self.report else {}


class Contest:
    """The trials so far, the best model of each family, and the positives that compare them."""

    def __init__(self, solver: Selection, problem: TrainingProblem) -> None:
        self.solver, self.problem = solver, problem
        self.run_with = problem.kernel, problem.threads
        self.metric = cast(MetricLoss, problem.loss).metric()
        self.data = cast(MatchingData, problem.data)
        if self.data.relevance is None:
            raise DataError("a selection compares positives of users, and these data have labels.")
        halves = split_data(
            self.data, method="random", share=solver.share, seed=problem.seed, check=False
        )
        self.part, held_out = (cast(MatchingData, half) for half in halves)
        self.valid = _some_users(held_out, solver.users, problem.seed)
        self.exclusions = find_exclusions(self.valid, self.part, but_relevant=True)
        self.families = families_for(self.data, MOST_WEIGHTS)
        self.measured: list[Measured] = []
        self.trained: dict[Measured, tuple[Any, ...]] = {}

    # --- trials ---

    def next_trial(self) -> tuple[str, int] | None:
        """Return the family and the number of the next trial; None after the last."""
        counts = dict.fromkeys(self.families, 0)
        for one in self.measured:
            counts[one.family] += 1
        for name, count in counts.items():
            if not count:
                return name, 0
        names = [one.family for one in self.ranked()]
        round_, remaining = 1, max(len(names) // 2, 2)
        while True:
            best_names = names[:remaining]
            for name in best_names:
                if counts[name] <= min(round_, len(self.families[name]) - 1):
                    return name, counts[name]
            if all(counts[name] >= len(self.families[name]) for name in best_names):
                return None
            round_ += 1

    def ranked(self) -> list[Measured]:
        """Return the best trial of each family, the best first; of equal ones the first."""
        best: dict[str, Measured] = {}
        for one in self.measured:
            if one.family not in best or one.value > best[one.family].value:
                best[one.family] = one
        return sorted(best.values(), key=lambda one: -one.value)

    def trial(self, one: Measured) -> Trial:
        """Return the settings of a trial."""
        return self.families[one.family][one.number]

    def run(self, family: str, at: int) -> None:
        """Train a model of a family, and measure it and its variants."""
        trial = self.families[family][at]
        result = trial.fit(self.part, self.run_with, self.problem.seed)
        models = trial.models(result)
        values = [self.value_of(model) for _, model in models]
        variant = int(np.argmax(values))
        measured = Measured(family, at, variant, values[variant])
        self.measured.append(measured)
        self.trained[measured] = (models[variant][1], None, result.loss, result.regularizer)
        self._forget()

    def _forget(self) -> None:
        """Keep the best model of each family only."""
        best = self.ranked()
        self.trained = {one: parts for one, parts in self.trained.items() if one in best}

    def value_of(self, model: MatchingModel) -> float:
        """Return the metric on the held-out positives."""
        values = evaluate_model(model, [self.metric], self.valid, *self.run_with, self.exclusions)
        return mean(values[self.metric.spelled()])

    def parts_of(self, one: Measured) -> tuple[Any, ...]:
        """Return a trained model with its loss and regularizer; after a resume, train it again."""
        if one not in self.trained:
            self.trained[one] = self._fit(one, self.part)
        return self.trained[one]

    def refit(self, one: Measured) -> tuple[Any, ...]:
        """Train the settings of a trial on all positives."""
        return self._fit(one, self.data)

    def _fit(self, one: Measured, data: MatchingData) -> tuple[Any, ...]:
        trial = self.trial(one)
        result = trial.fit(data, self.run_with, self.problem.seed)
        return (trial.models(result)[one.variant][1], None, result.loss, result.regularizer)

    # --- sums ---

    def choose(self) -> tuple[list[Measured], Floats, float]:
        """Return the best model, or the two whose sum is better, with weights and metric."""
        best = self.ranked()
        selected, weights, value = best[:1], np.ones(1), best[0].value
        if len(best) > 1:
            for other in best[1:]:
                pair = [best[0], other]
                values = self.sums([self.parts_of(one)[0] for one in pair])
                at = int(np.argmax(values))
                if values[at] > value:
                    selected, weights, value = pair, self._weights(SHARES[at]), values[at]
        return selected, weights, value

    @staticmethod
    def _weights(share: float) -> Floats:
        return np.array([share, 1.0 - share])

    def sums(self, models: Sequence[MatchingModel]) -> list[float]:
        """Return the metric of the sum of two models for each of the shares."""
        scorers = [model.scorer(self.valid, *self.run_with) for model in models]
        totals = np.zeros(len(SHARES))
        counts = np.zeros(len(SHARES))
        for start in range(0, self.valid.n_queries, USERS_AT_A_TIME):
            block = np.arange(start, min(start + USERS_AT_A_TIME, self.valid.n_queries))
            sums = _Sums(models, [score(block) for score in scorers])
            data, exclusions = self.valid.select(block), _rows_of(self.exclusions, block)
            for at, share in enumerate(SHARES):
                sums.weights = self._weights(share)
                values = evaluate_model(sums, [self.metric], data, *self.run_with, exclusions)
                column = values[self.metric.spelled()]
                totals[at] += np.nansum(column)
                counts[at] += np.count_nonzero(~np.isnan(column))
        means: list[float] = (totals / np.maximum(counts, 1.0)).tolist()
        return means

    # --- what is recorded ---

    def state(self, epoch: int, final: bool = False) -> State:
        """Return the trials so far for `restore`."""
        names = list(self.families)
        rows = [
            (names.index(one.family), one.number, one.variant, one.value) for one in self.measured
        ]
        return {
            "epoch": np.array([epoch]),
            "final": np.array([int(final)]),
            "trials": np.array(rows, np.float64).reshape(-1, 4),
        }

    def restore(self, state: State) -> None:
        """Restore the trials of an interrupted run."""
        names = list(self.families)
        self.measured = [
            Measured(names[int(family)], int(number), int(variant), float(value))
            for family, number, variant, value in state["trials"].tolist()
        ]

    def describe(
        self, selected: Sequence[Measured], weights: Floats, value: float
    ) -> dict[str, Any]:
        """Return all trials and what was chosen, as JSON values."""
        return {
            "metric": self.metric.spelled(),
            "trials": [self._facts(one) for one in self.measured],
            "chosen": [self._facts(one) for one in selected],
            "weights": weights.tolist(),
            "value": value,
        }

    def _facts(self, one: Measured) -> dict[str, Any]:
        trial = self.trial(one)
        variant = dict(trial.variants[one.variant])
        return {"recipe": trial.recipe, **trial.parts, "variant": variant, "value": one.value}


@dataclasses.dataclass
class _Sums(Combination):
    """The sum of models whose scores of a few users are stored."""

    def __init__(self, models: Sequence[MatchingModel], stored: Sequence[Floats]) -> None:
        super().__init__(normalize=True)
        self.attach_models([(model, None) for model in models])
        self.stored = [self.scaled(scores.astype(np.float64)) for scores in stored]
        self.normalize = False

    def component_scorers(self, data: Any, kernel: Any, threads: int = 1) -> list[Scorer]:
        """Return the stored scores."""
        return [scores.__getitem__ for scores in self.stored]


def _some_users(data: MatchingData, count: int, seed: int) -> MatchingData:
    """Return a sample of the users that have positives."""
    users = np.flatnonzero(np.diff(data.relevance.indptr) > 0)
    if not users.size:
        raise DataError("no positive could be held out to compare models; give more interactions.")
    return data.select(np.sort(np.random.default_rng(seed).permutation(users)[:count]))


def _rows_of(pairs: Pairs, rows: Ints) -> Pairs:
    """Return the pairs of a range of queries."""
    pointers, documents = pairs
    first, last = int(pointers[rows[0]]), int(pointers[rows[-1] + 1])
    return pointers[rows[0] : rows[-1] + 2] - first, documents[first:last]
