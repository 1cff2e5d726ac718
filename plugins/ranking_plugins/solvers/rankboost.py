"""RankBoost: boosting on preference pairs with thresholds of features as weak rankers.

Freund, Iyer, Schapire and Singer, An efficient boosting algorithm for combining preferences (JMLR
2003).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, NamedTuple, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.loss import Array, Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import DataError
from ranking.models.thresholds import Thresholds
from ranking_plugins.losses.exponential_pairs import ExponentialPairs, PairSums

USELESS = 1e-12
"""A weak ranker that orders the weighted pairs by less than this is no better than chance."""


@dataclasses.dataclass
class RankBoost(Solver):
    """Add the threshold of a feature that orders the weighted pairs best.

    A weak ranker is 1 where a feature is above a threshold, else 0. Pairs have weights D
    proportional to ``exp(f_j - f_i)``. In each round the weak ranker h with the largest
    ``|r| = |sum_ij D_ij (h_i - h_j)|`` is added with the factor that minimizes the objective along
    it, ``ln(W+ / W-) / 2``, where W+ and W- are the weights of the pairs that it orders rightly and
    wrongly, each raised by the weight of half a pair. So the objective falls in each round.

    Parameters
    ----------
    max_epochs : int
        The maximal number of rounds.
    max_thresholds : int
        Thresholds that are tried for each feature: all between different values, or so many
        quantiles of the values.
    """

    name: ClassVar[str] = "rankboost"
    patience: ClassVar[int] = 50

    max_epochs: int = integer(300, minimum=1)
    max_thresholds: int = integer(255, minimum=1, maximum=65_534)

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept the model of thresholds, the exponential loss of pairs, and no penalty."""
        if not issubclass(model, Thresholds):
            return Compatibility(
                False, "a weak ranker is a threshold of a feature, so their sum is a step function"
            )
        if not issubclass(loss, ExponentialPairs):
            return Compatibility(
                False,
                "the best factor of a weak ranker is a closed form only for the exponential loss "
                "of pairs",
            )
        if regularizer.name != "none":
            return Compatibility(
                False,
                "the factor of a weak ranker is a closed form that leaves no place for a penalty; "
                "fewer rounds (early stopping) have its effect",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per round."""
        model, data = cast(Thresholds, problem.model), cast(JudgedLists, problem.data)
        pairs = cast(ExponentialPairs, problem.loss).whole_lists(data, problem.kernel)
        columns = _Binned.of(data, self.max_thresholds)
        first, scores = 0, model.scores(data, problem.kernel, problem.threads)
        if problem.state is not None:
            first, scores = int(problem.state["epoch"][0]), problem.state["scores"].copy()
        for epoch in range(first + 1, self.max_epochs + 1):
            total, slopes = pairs.slopes(scores[pairs.rows])
            potential = np.zeros(scores.size)
            potential[pairs.rows] = -slopes / total
            feature, code, merit = columns.best(potential)
            converged = not abs(merit) > USELESS
            if not converged:
                weak_scores = columns.above(feature, code)
                factor = _factor(pairs, scores, weak_scores)
                model.add(feature, columns.threshold(feature, code), factor)
                scores = scores + factor * weak_scores
            objective = pairs.slopes(scores[pairs.rows])[0]
            state = partial(_state, scores, epoch)
            yield EpochResult(epoch, objective, converged, state)
            if converged:
                return


def _factor(pairs: PairSums, scores: Array, weak_scores: Array) -> float:
    """Return ln(W+ / W-) / 2."""
    own, weak = scores[pairs.rows], weak_scores[pairs.rows]
    right, wrong = pairs.masses(own, weak)
    least = 0.5 / pairs.counts.sum()
    return 0.5 * float(np.log((right + least) / (wrong + least)))


def _state(scores: Array, epoch: int) -> State:
    return {"scores": scores.copy(), "epoch": np.array([epoch])}


class _Choice(NamedTuple):
    """A feature, the code that values must exceed, and the merit r."""

    feature: int
    code: int
    merit: float


@dataclasses.dataclass(frozen=True)
class _Binned:
    """The number of thresholds below each value, by feature."""

    codes: NDArray[np.uint16]
    thresholds: list[Array]

    @classmethod
    def of(cls, data: JudgedLists, limit: int) -> _Binned:
        rows = data.features
        columns = sp.csc_array(rows) if sp.issparse(rows) else rows
        codes = np.empty(rows.shape, np.uint16, order="F")
        thresholds = []
        for feature in range(rows.shape[1]):
            own = columns[:, [feature]].toarray()[:, 0] if sp.issparse(rows) else rows[:, feature]
            values = np.asarray(own, np.float64)
            thresholds.append(_thresholds(values, limit))
            codes[:, feature] = np.searchsorted(thresholds[-1], values)
        if not any(each.size for each in thresholds):
            raise DataError("every feature has a single value, so there is nothing to rank by.")
        return cls(codes, thresholds)

    def best(self, potential: Array) -> _Choice:
        """Return the threshold with the largest |sum of the potential above it|."""
        best = _Choice(-1, 0, 0.0)
        for feature, own in enumerate(self.thresholds):
            sums = np.bincount(self.codes[:, feature], potential, minlength=own.size + 1)
            above = np.cumsum(sums[::-1])[::-1][1:]  # above[k] is that of codes beyond k
            if above.size:
                code = int(np.argmax(np.abs(above)))
                if abs(above[code]) > abs(best.merit):
                    best = _Choice(feature, code, float(above[code]))
        return best

    def above(self, feature: int, code: int) -> Array:
        """Return 1 for rows whose value is above a threshold, else 0."""
        return (self.codes[:, feature] > code).astype(np.float64)

    def threshold(self, feature: int, code: int) -> float:
        """Return a threshold."""
        return float(self.thresholds[feature][code])


def _thresholds(values: Array, limit: int) -> Array:
    """Return values of the data, ascending, such that some values are above each."""
    distinct = np.unique(values)
    if distinct.size > limit + 1:
        places = (np.arange(1, limit + 1) * values.size) // (limit + 1)
        distinct = np.append(np.unique(np.sort(values)[places]), values.max())
        distinct = np.unique(distinct)
    thresholds: Array = distinct[:-1]
    return thresholds
