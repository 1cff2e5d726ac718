"""AdaRank: boosting on queries with single features as weak rankers (Xu and Li, 2007)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, cast

import numpy as np

from ranking.contracts.loss import Array, Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError
from ranking.kernels.domination import Columns
from ranking.models.linear import Linear
from ranking_plugins.losses.metric_exponential import MetricExponential
from ranking_plugins.losses.row_columns import centered_columns, squared_ranges

LARGEST = 1.0 - 1e-9
"""The largest weighted metric of a weak ranker: one that ranks all queries perfectly has a finite
weight."""


@dataclasses.dataclass
class AdaRank(Solver):
    """Add the feature with the best weighted metric, then give more weight to bad queries.

    A weak ranker orders the documents by one feature, higher first, divided by its largest range
    within a query. In each round the one with the largest ``E = sum_q P_q metric_q`` gets
    ``ln((1 + E) / (1 - E)) / 2`` more weight, and P becomes proportional to ``exp(-metric)`` of the
    sum so far. A choice that changes no metric would be repeated for ever; such a feature is left
    out until another choice changes one, and training has converged when none is left.

    The objective falls as long as weak rankers differ enough (theorem 1 of the paper); it may rise.

    Parameters
    ----------
    max_epochs : int
        The maximal number of rounds.
    """

    name: ClassVar[str] = "adarank"
    patience: ClassVar[int] = 50

    max_epochs: int = integer(200, minimum=1)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the linear model, the exponential of a metric, and no penalty."""
        if not issubclass(model, Linear):
            return Compatibility(
                False, "a weak ranker is one feature of judged rows, so their sum is linear"
            )
        if not issubclass(loss, MetricExponential):
            return Compatibility(
                False,
                "the weights of queries and weak rankers follow from the exponential of a metric",
            )
        if regularizer.name != "none":
            return Compatibility(
                False,
                "the weight of a weak ranker is a closed form that leaves no place for a penalty; "
                "fewer rounds (early stopping) have its effect",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per round."""
        boosting = _Boosting(problem)
        model, first = cast(Linear, problem.model), 0
        if problem.state is not None:
            boosting.restore(problem.state)
            first = int(problem.state["epoch"][0])
        for epoch in range(first + 1, self.max_epochs + 1):
            boosting.round()
            model.weights = boosting.weights / boosting.ranges
            converged = bool(boosting.useless.all())
            objective = boosting.loss.value(boosting.metrics)
            yield EpochResult(epoch, objective, converged, partial(boosting.state, epoch))
            if converged:
                return


class _Boosting:
    """The weights of features (divided by their ranges), and the metric of each query."""

    def __init__(self, problem: TrainingProblem) -> None:
        self.problem = problem
        self.loss = cast(MetricExponential, problem.loss)
        self.data = cast(JudgedLists, problem.data)
        rows, ptr = np.arange(self.data.n_rows), np.asarray(self.data.group_ptr, np.int64)
        self.features: Columns = centered_columns(self.data, rows, ptr)
        ranges = np.sqrt(squared_ranges(self.features, ptr).max(axis=0))
        self.useless = ranges == 0.0
        if self.useless.all():
            raise DataError("no feature varies within a query, so there is nothing to rank by.")
        self.ranges = np.where(self.useless, 1.0, ranges)
        self.weights: Array = np.asarray(cast(Linear, problem.model).weights) * self.ranges
        self.constant = self.useless.copy()
        everything = np.eye(ranges.size)
        weak = np.array([self._metric(one / self.ranges) for one in everything])
        self.counted = ~np.isnan(weak[0])
        if not self.counted.any():
            raise DataError(
                f"{self.loss.metric} leaves out every query of the data; take another metric."
            )
        self.weak: Array = weak[:, self.counted]
        self.metrics = self._own_metrics()

    def _metric(self, weights: Array) -> Array:
        problem = self.problem
        columns = np.flatnonzero(weights)
        lists = problem.kernel.pairwise_lists
        scores = lists.combination(self.features, columns, weights[columns], problem.threads)
        return self.loss.per_query(self.data, scores, problem.kernel, problem.threads)

    def _own_metrics(self) -> Array:
        metrics: Array = self._metric(self.weights / self.ranges)[self.counted]
        return metrics

    def round(self) -> None:
        """Add one weak ranker."""
        first = not self.weights.any()
        powers = np.ones(self.metrics.size) if first else np.exp(-self.metrics)
        merit = (self.weak * (powers / powers.sum())).sum(axis=1)
        best = int(np.argmax(np.where(self.useless, -np.inf, merit)))
        strength = min(float(merit[best]), LARGEST)
        self.weights[best] += 0.5 * np.log((1.0 + strength) / (1.0 - strength))
        before, self.metrics = self.metrics, self._own_metrics()
        if first or not np.array_equal(before, self.metrics):
            self.useless = self.constant.copy()
        else:
            self.useless[best] = True

    def state(self, epoch: int) -> State:
        """Return what the next round needs."""
        return {
            "weights": self.weights.copy(),
            "useless": self.useless.astype(np.int64),
            "epoch": np.array([epoch]),
        }

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.weights = state["weights"].copy()
        self.useless = state["useless"].astype(bool)
        self.metrics = self._own_metrics()
