"""Weights of a combination by coordinate search: one weight after the other, by a metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar, cast

import numpy as np

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import PartError
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import evaluate_model, mean, query_blocks
from ranking.models.combination import Combination
from ranking_plugins.losses.metric import MetricLoss
from ranking_plugins.regularizers.none import NoPenalty

FACTORS = (0.0, 0.25, 0.5, 0.7, 1.4, 2.0, 4.0)
"""What a weight is multiplied by."""

LARGEST_CACHE = 1 << 28
"""Scores that are held in memory, in numbers; more are computed again for each trial."""


@dataclasses.dataclass
class CoordinateSearch(Solver):
    """Multiply one weight at a time by a few factors, and keep what improves the metric.

    The scale of a weight is 1 over the standard deviation of its model's scores. The search begins
    with the best model alone, or with all at their scale if that is better. The metric is computed
    on the training data, so these should be validation data of the models. The result is a local
    optimum, not below any single model. The seed has no effect.

    Parameters
    ----------
    max_epochs : int
        The maximal number of passes over the weights.
    """

    name: ClassVar[str] = "coordinate-search"

    max_epochs: int = integer(10, minimum=1)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a combination, a metric and no penalty."""
        if not issubclass(model, Combination):
            return Compatibility(
                False,
                "each trial ranks all documents, so it suits the few weights of a combination",
            )
        if not issubclass(loss, MetricLoss):
            return Compatibility(False, "trials are compared by a metric, not by a smooth loss")
        if not issubclass(regularizer, NoPenalty):
            return Compatibility(
                False, "only the ratios of the weights change a ranking, and a penalty their size"
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per pass over the weights."""
        model = cast(Combination, problem.model)
        if not model.components:
            raise PartError(
                "the combination has no models; give model combination:models=FILE+FILE."
            )
        trial = _CachedScores.of(model, problem)
        measured = partial(_measured, trial, problem)
        done = 0
        scales = 1.0 / trial.deviations()
        if problem.state is None:
            best = _begin(trial, scales, measured)
        else:
            trial.weights = problem.state["weights"].copy()
            done = int(problem.state["epoch"][0])
            best = measured()
        for epoch in range(done + 1, self.max_epochs + 1):
            reached = best
            for at in range(model.weights.size):
                best = _improve(trial, at, float(scales[at]), best, measured)
            model.weights = trial.weights.copy()
            state = partial(_state, model.weights, epoch)
            yield EpochResult(epoch, 1.0 - best, best <= reached, state)
            if best <= reached:
                return


def _begin(trial: Combination, scales: Floats, measured: Callable[[], float]) -> float:
    """Set the weights to the best of all models alone and all together, and return the metric."""
    starts = [*np.diag(scales), scales]
    values = []
    for start in starts:
        trial.weights = start
        values.append(measured())
    trial.weights = starts[int(np.argmax(values))].copy()
    return max(values)


def _improve(
    trial: Combination, at: int, scale: float, best: float, measured: Callable[[], float]
) -> float:
    """Set one weight to the best of its multiples, and return the metric."""
    weight = float(trial.weights[at])
    before = weight or scale
    for factor in (1.0, *FACTORS):
        trial.weights[at] = before * factor
        value = measured() if trial.weights.any() else -np.inf
        if value > best:
            best, weight = value, before * factor
    trial.weights[at] = weight
    return best


def _measured(trial: Combination, problem: TrainingProblem) -> float:
    metric = cast(MetricLoss, problem.loss).metric()
    data = cast(MatchingData, problem.data)
    values = evaluate_model(trial, [metric], data, problem.kernel, problem.threads)
    return mean(values[metric.spelled()])


def _state(weights: Floats, epoch: int) -> State:
    return {"weights": weights.copy(), "epoch": np.array([epoch])}


@dataclasses.dataclass
class _CachedScores(Combination):
    """The combination that is tried, whose models have scored the data once."""

    @classmethod
    def of(cls, model: Combination, problem: TrainingProblem) -> _CachedScores:
        """Return a copy of a combination for the data of a problem."""
        data = cast(MatchingData, problem.data)
        trial = cls()
        trial.components = model.components
        trial.weights = model.weights.copy()
        scorers = model.component_scorers(data, problem.kernel, problem.threads)
        trial.cached = scorers
        trial.blocks = query_blocks(data)
        if data.n_queries * data.n_documents * len(scorers) <= LARGEST_CACHE:
            trial.cached = [_stored(score, trial.blocks) for score in scorers]
        return trial

    def _setup(self) -> None:
        super()._setup()
        self.cached: list[Callable[[Ints], Floats]] = []
        self.blocks: list[Ints] = []

    def component_scorers(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> list[Callable[[Ints], Floats]]:
        """Return the stored scores."""
        return self.cached

    def deviations(self) -> Floats:
        """Return the standard deviation of the scores of each model; 1 if they are all equal."""
        scales = []
        for score in self.cached:
            sums = np.zeros(3)
            for block in self.blocks:
                values = score(block)
                sums += values.size, values.sum(), (values * values).sum()
            variance = max(sums[2] / sums[0] - (sums[1] / sums[0]) ** 2, 0.0)
            scales.append(np.sqrt(variance) if variance > 0.0 else 1.0)
        return np.array(scales)


def _stored(score: Callable[[Ints], Floats], blocks: list[Ints]) -> Callable[[Ints], Floats]:
    scores = np.concatenate([score(block) for block in blocks])
    return scores.__getitem__
