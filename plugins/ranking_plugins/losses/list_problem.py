"""Coordinate descent on convex losses of whole lists, whose curvature has a bound.

Along one feature the loss L(t) has a second derivative of at most c. So ``g t + c/2 t**2`` lies
above the change of the loss, and its minimum plus the penalty cannot increase the objective. For a
log-sum-exp over a list, c is a quarter of the squared range of the feature in the list (Popoviciu),
since the second derivative is a variance.

The true curvature is often far smaller. With curvature="newton" each feature therefore has its own
estimate: the difference quotient of the slope over the last step, at most c. A step that would
increase the objective is tried again with four times the estimate, in the end with c, where the
decrease is guaranteed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from ranking.contracts.loss import Array
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import PartError
from ranking.kernels.contract import Ints
from ranking.kernels.domination import Columns
from ranking_plugins.losses.row_columns import centered_columns, squared_ranges
from ranking_plugins.losses.whole_lists import WholeLists, mean_and_slopes

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel

LEAST = 2.0**-20
"""The smallest estimate of a curvature, as a share of its bound."""

ROUNDING = 2.0**-48
"""A predicted decrease of less than this share of the objective is not worth a step."""


class BoundedLists(WholeLists, Protocol):
    """Lists that know a bound of the second derivative along each feature themselves."""

    def curvature_bounds(self, columns: Columns) -> Array:
        """Return a bound for each column."""


class ListProblem:
    """A loss of whole lists along the features of one data set.

    Implements :class:`ranking.contracts.loss.CoordinateProblem`.

    Parameters
    ----------
    lists : WholeLists
        A convex loss that does not change when all scores of a list are shifted: for each list the
        mean of some log-sum-exps, or a loss with its own `curvature_bounds`.
    curvature : {"newton", "popoviciu"}
        An estimate for each feature, or the bound.
    """

    def __init__(
        self,
        lists: WholeLists,
        data: JudgedLists,
        weights: Array,
        kernel: Kernel,
        curvature: str,
    ) -> None:
        if curvature not in ("newton", "popoviciu"):
            raise PartError(
                f"curvature is {curvature!r}; for a listwise loss it must be newton or popoviciu."
            )
        self.lists, self.kernel = lists, kernel.pairwise_lists
        self.newton = curvature == "newton"
        shift_ptr = getattr(lists, "shift_ptr", lists.list_ptr)
        self.features = centered_columns(data, lists.rows, shift_ptr)
        if hasattr(lists, "curvature_bounds"):
            self.bounds: Array = lists.curvature_bounds(self.features)
        else:
            squares = squared_ranges(self.features, lists.list_ptr)
            self.bounds = (lists.shares[:, None] * squares).sum(axis=0) / 4.0
        self.weights = np.where(self.bounds > 0.0, weights, 0.0)
        self.estimates = self.bounds.copy()
        everything = np.arange(weights.size)
        start = self.kernel.combination(self.features, everything, self.weights, 1)
        self.scores, self.loss, self.by_score = start, 0.0, start
        self._move(start)

    def _move(self, scores: Array) -> None:
        self.scores = scores
        self.loss, self.by_score = mean_and_slopes(self.lists, scores)

    def value(self) -> float:
        """Return the loss at the current weights."""
        return self.loss

    def slopes(self, columns: Ints) -> tuple[Array, Array]:
        """Return the gradient along each of these features, and the bound of the curvature."""
        gradient = self.kernel.products(self.features, columns, self.by_score, 1)
        return gradient, self.bounds[columns]

    def decrease(self, columns: Ints, penalty: EntryPenalty) -> Array:
        """Return the guaranteed decrease of a step: (|g| - l1)**2 / (2 (c + l2))."""
        gradient, bounds = self.slopes(columns)
        pull = np.maximum(np.abs(gradient) - penalty.l1, 0.0)
        total = bounds + penalty.l2
        return np.where(bounds > 0.0, pull * pull / (2.0 * np.where(total > 0.0, total, 1.0)), 0.0)

    def sweep(self, columns: Ints, penalty: EntryPenalty) -> None:
        """Take one step along each of these features; none increases the objective."""
        for column in columns.tolist():
            if self.bounds[column] > 0.0:
                self._step(column, penalty)

    def _step(self, column: int, penalty: EntryPenalty) -> None:
        own = np.array([column])
        gradient = float(self.kernel.products(self.features, own, self.by_score, 1)[0])
        before, bound = float(self.weights[column]), float(self.bounds[column])
        curvature = float(self.estimates[column]) if self.newton else bound
        objective = self.loss + _entry(before, penalty)
        while True:
            after = _minimum(gradient, curvature, before, penalty)
            step = after - before
            predicted = -(gradient * step + 0.5 * curvature * step * step)
            predicted += _entry(before, penalty) - _entry(after, penalty)
            if not predicted > ROUNDING * abs(objective):
                return
            change = self.kernel.combination(self.features, own, np.array([step]), 1)
            loss, by_score = mean_and_slopes(self.lists, self.scores + change)
            if loss + _entry(after, penalty) <= objective:
                break
            if curvature >= bound:  # rounding hides the decrease
                return
            curvature = min(4.0 * curvature, bound)
        self.scores, self.loss, self.by_score = self.scores + change, loss, by_score
        self.weights[column] = after
        if self.newton:
            slope = float(self.kernel.products(self.features, own, by_score, 1)[0])
            self.estimates[column] = np.clip((slope - gradient) / step, LEAST * bound, bound)

    def state(self) -> dict[str, Array]:
        """Return weights, scores and the estimates of the curvature."""
        return {
            "weights": self.weights.copy(),
            "scores": self.scores.copy(),
            "estimates": self.estimates.copy(),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Restore weights, scores and estimates."""
        self.weights[:] = state["weights"]
        self.estimates[:] = state["estimates"]
        self._move(state["scores"].copy())


def _minimum(gradient: float, curvature: float, weight: float, penalty: EntryPenalty) -> float:
    """Return the minimum of ``g (v - w) + c/2 (v - w)**2 + l1 |v| + l2/2 v**2`` over v."""
    pull = curvature * weight - gradient
    size = max(abs(pull) - penalty.l1, 0.0)
    return float(np.copysign(size, pull)) / (curvature + penalty.l2)


def _entry(weight: float, penalty: EntryPenalty) -> float:
    return penalty.l1 * abs(weight) + 0.5 * penalty.l2 * weight * weight
