"""L-BFGS, and OWL-QN for L1 penalties, on the weights of a linear model."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, cast

import numpy as np

from ranking.contracts.loss import Array, Loss, PairwiseForm
from ranking.contracts.model import Model
from ranking.contracts.parameters import integer, number
from ranking.contracts.regularizer import (
    EntryPenalty,
    Regularizer,
    SupportsQuadraticForm,
    kernel_form,
)
from ranking.contracts.solver import Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.errors import CombinationError
from ranking.models.linear import Linear
from ranking_plugins.losses.pairwise_problem import is_bounded
from ranking_plugins.losses.whole_lists import SupportsWholeLists
from ranking_plugins.solvers.functions import NO_GRADIENT
from ranking_plugins.solvers.smooth_objective import SmoothObjective

DECREASE = 1e-4
"""The share of the predicted decrease that a step must reach (Armijo)."""

HALVINGS = 40
"""Halvings of a step, after which rounding hides any decrease."""

FLAT = 1e-10
"""Curvature along a step, relative to lengths, below which the step teaches nothing."""

SMALLEST = 1e-300
"""Square of a change of the gradient, below which quotients by it overflow."""


@dataclasses.dataclass
class LBFGS(Solver):
    """Minimize a smooth loss of judged lists by L-BFGS; with L1 by OWL-QN.

    Features are scaled within the solver, so it works on features of any scale; the objective is
    that of the unscaled weights. No iteration increases the objective. Of a loss whose weights
    depend on the ranks (LambdaRank), they are renewed at the start of each epoch, and it may rise.

    Parameters
    ----------
    max_epochs : int
        The maximal number of epochs.
    iterations : int
        Iterations per epoch, between which there are callbacks and checkpoints.
    tolerance : float
        Stop when an epoch decreases the objective by less than this share of it.
    memory : int
        The number of previous steps from which the curvature is estimated.
    """

    name: ClassVar[str] = "lbfgs"

    max_epochs: int = integer(200, minimum=1)
    iterations: int = integer(10, minimum=1)
    tolerance: float = number(1e-8, minimum=0.0, below=1.0)
    memory: int = integer(10, minimum=1)

    @property
    def expects_convergence(self) -> bool:
        """Whether there is a tolerance; without one, all epochs are wanted."""
        return self.tolerance > 0.0

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a vector of weights, a smooth loss of judged lists and a penalty by entries."""
        if model.form == "functions":
            return Compatibility(False, NO_GRADIENT)
        if model.form != "vector":
            return Compatibility(
                False,
                "a gradient of L-BFGS is that of all pairs, and with a matrix or embeddings every "
                "query ranks all documents: an iteration would cost queries times documents; sgd "
                "samples some of the pairs",
            )
        if not loss.is_smooth:
            return Compatibility(
                False,
                "the loss has kinks, at which its gradient jumps, and L-BFGS stops at a kink that "
                "is not the minimum",
            )
        if not loss.compares_scores:
            return Compatibility(
                False,
                f"loss {loss.name!r} depends on the level of the scores, which is the same for all "
                "documents of a query; use loss softmax or listnet",
            )
        if "pairwise" in loss.interfaces:
            form = getattr(loss, "form", None)
            if form not in (PairwiseForm.SQUARED_HINGE, PairwiseForm.LOGISTIC) and not is_bounded(
                loss
            ):
                return Compatibility(
                    False,
                    "a gradient of all pairs takes C functions of the margin and a bound of their "
                    "second derivative (`curvature`), which the loss does not have",
                )
        elif "listwise" not in loss.interfaces and not issubclass(loss, SupportsWholeLists):
            return Compatibility(False, loss.unsupported_reason("listwise"))
        is_quadratic = issubclass(regularizer, SupportsQuadraticForm)
        if regularizer.granularity != "entry" and not is_quadratic:
            return Compatibility(
                False,
                "the regularizer is not a sum over single weights, and a step that L-BFGS takes "
                "for a gradient has no prox in its metric; only l1, l2 and graph have orthants or "
                "gradients",
            )
        return Compatibility(True, first_choice=is_quadratic or "coordinate" not in loss.interfaces)

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per `iterations` iterations."""
        regularizer, form = problem.regularizer, None
        penalty = kernel_form(regularizer, "vector")
        if isinstance(regularizer, SupportsQuadraticForm):
            ids = cast(Linear, problem.model).feature_ids
            penalty, form = EntryPenalty(), regularizer.quadratic_form(ids)
        if not isinstance(penalty, EntryPenalty):
            raise CombinationError(
                f"regularizer {problem.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, "
                "which lbfgs needs; l1 and l2 are."
            )
        model = cast(Linear, problem.model)
        objective = SmoothObjective(problem, penalty, form)
        point = _Point(objective.to_scaled(model.weights))
        first, previous = 0, np.inf
        if problem.state is not None:
            point = _Point.restored(problem.state)
            first, previous = int(problem.state["epoch"][0]), float(problem.state["objective"][0])
        else:
            previous = objective.value(point.weights)
        for epoch in range(first + 1, self.max_epochs + 1):
            frozen_objective = objective.frozen(point.weights)
            if frozen_objective is not None:
                point = _Point(point.weights)
            moved = self._iterate(frozen_objective or objective, point)
            model.weights = objective.to_weights(point.weights)
            value = objective.value(point.weights)
            converged = not moved or abs(previous - value) <= self.tolerance * abs(value)
            previous = value
            yield EpochResult(epoch, value, converged, partial(point.state, epoch, value))
            if converged:
                return

    def _iterate(self, objective: SmoothObjective, point: _Point) -> bool:
        """Take some iterations from a point; return whether any of them moved it."""
        value, gradient = objective.smooth(point.weights)
        value += objective.l1_value(point.weights)
        for done in range(self.iterations):
            step = _descend(objective, point, value, gradient)
            if step is None and point.steps:  # the estimate of the curvature may be to blame
                point.forget()
                step = _descend(objective, point, value, gradient)
            if step is None:
                return done > 0
            weights, value, after = step
            point.remember(weights - point.weights, after - gradient, self.memory)
            point.weights, gradient = weights, after
        return True


class _Point:
    """Scaled weights, and the last steps with their changes of the gradient."""

    def __init__(self, weights: Array) -> None:
        self.weights = weights
        self.steps: list[Array] = []
        self.changes: list[Array] = []

    def forget(self) -> None:
        """Forget the curvature."""
        self.steps, self.changes = [], []

    def remember(self, step: Array, change: Array, limit: int) -> None:
        """Store a step if the loss is curved along it, so much that no square underflows."""
        curvature, square = _dot(step, change), _dot(change, change)
        if curvature > FLAT * np.sqrt(_dot(step, step) * square) and square > SMALLEST:
            self.steps = [*self.steps, step][-limit:]
            self.changes = [*self.changes, change][-limit:]

    def direction(self, gradient: Array) -> Array:
        """Return minus the estimated inverse of the second derivative times the gradient."""
        if not self.steps:
            first: Array = -gradient / max(float(np.sqrt(_dot(gradient, gradient))), 1.0)
            return first
        pairs = list(zip(self.steps, self.changes, strict=True))
        result, shares = gradient.copy(), []
        for step, change in reversed(pairs):
            shares.append(_dot(step, result) / _dot(step, change))
            result -= shares[-1] * change
        step, change = pairs[-1]
        result *= _dot(step, change) / _dot(change, change)
        for (step, change), share in zip(pairs, reversed(shares), strict=True):
            result += (share - _dot(change, result) / _dot(step, change)) * step
        return -result

    def state(self, epoch: int, objective: float) -> State:
        """Return what the next epoch needs."""
        shape = (len(self.steps), self.weights.size)
        return {
            "weights": self.weights.copy(),
            "steps": np.array(self.steps).reshape(shape),
            "changes": np.array(self.changes).reshape(shape),
            "epoch": np.array([float(epoch)]),
            "objective": np.array([objective]),
        }

    @classmethod
    def restored(cls, state: State) -> _Point:
        """Return the point that `state` described."""
        point = cls(state["weights"].copy())
        point.steps, point.changes = list(state["steps"].copy()), list(state["changes"].copy())
        return point


def _descend(
    objective: SmoothObjective, point: _Point, value: float, gradient: Array
) -> tuple[Array, float, Array] | None:
    """Return the next weights, objective and smooth gradient; None if no step decreases it.

    With L1, a step stays in the orthant of the weights, or of minus the gradient where they are 0
    (Andrew and Gao, 2007); without, this is L-BFGS with Armijo's rule.
    """
    slope = _steepest(point.weights, gradient, objective.l1)
    direction = point.direction(slope)
    has_l1 = bool(objective.l1.any())
    if has_l1:
        direction[direction * slope >= 0.0] = 0.0
        orthant = np.where(point.weights != 0.0, np.sign(point.weights), -np.sign(slope))
    if not _dot(direction, slope) < 0.0:
        return None
    length = 1.0
    for _ in range(HALVINGS):
        weights = point.weights + length * direction
        if has_l1:
            weights[weights * orthant <= 0.0] = 0.0
        predicted = _dot(slope, weights - point.weights)
        after, by_weight = objective.smooth(weights)
        after += objective.l1_value(weights)
        if predicted < 0.0 and after <= value + DECREASE * predicted and after < value:
            return weights, after, by_weight
        length *= 0.5
    return None


def _steepest(weights: Array, gradient: Array, l1: Array) -> Array:
    """Return the subgradient of smallest size: zero where no small step decreases the objective."""
    at_zero = np.sign(gradient) * np.maximum(np.abs(gradient) - l1, 0.0)
    return np.where(weights != 0.0, gradient + l1 * np.sign(weights), at_zero)


def _dot(a: Array, b: Array) -> float:
    return float((a * b).sum())
