"""Coordinate descent: one weight at a time, each step a guaranteed decrease."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, cast

import numpy as np

from ranking.contracts.loss import CoordinateLoss, CoordinateProblem, Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, Solver, State, Task, Turn, Verdict
from ranking.data.judged import Judged
from ranking.errors import CombinationError, PartError
from ranking.models.linear import Linear


@dataclasses.dataclass
class Coordinate(Solver):
    """Sweeps over the features until the objective stands still.

    Parameters
    ----------
    max_epochs : int
        Sweeps at most.
    tolerance : float
        Stops when a sweep decreases the objective by less than this share of it.
    curvature : {"newton", "popoviciu", "paper"}
        How a step's length is bounded; "newton" takes the fewest epochs, all three guarantee
        that no step increases the objective.
    """

    name: ClassVar[str] = "coordinate"

    max_epochs: int = 200
    tolerance: float = 1e-6
    curvature: str = "newton"

    def __post_init__(self) -> None:
        """Check the parameters."""
        epochs: object = self.max_epochs
        if not isinstance(epochs, numbers.Integral) or epochs < 1:
            raise PartError(
                f"coordinate has max_epochs={self.max_epochs!r}; it must be at least 1."
            )
        if not 0.0 <= self.tolerance < 1.0:
            raise PartError(f"coordinate has tolerance={self.tolerance!r}; it must lie in [0, 1).")

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Verdict:
        """Take a vector of weights, a coordinate face and a penalty by entries."""
        if model.form != "vector":
            return Verdict(
                False,
                f"coordinate descent moves one weight a feature, and model {model.name!r} has "
                f"{model.form} parameters",
                "model linear",
            )
        if "coordinate" not in loss.faces:
            return Verdict(
                False,
                f"loss {loss.name!r} has no curvature bound along a feature (no coordinate face)",
                "loss domination",
            )
        if regularizer.granularity != "entry":
            return Verdict(
                False,
                f"regularizer {regularizer.name!r} ties weights together by "
                f"{regularizer.granularity}, so one weight cannot move alone",
                "regularizer l1 or l2",
            )
        return YES

    def turns(self, task: Task) -> Iterator[Turn]:
        """Sweep over all features, once a turn."""
        penalty = task.regularizer.entry_penalty()
        if penalty is None:
            raise CombinationError(
                f"regularizer {task.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, "
                "which coordinate descent needs; l1 and l2 are."
            )
        model = cast(Linear, task.model)
        problem = cast(CoordinateLoss, task.loss).coordinate_problem(
            cast(Judged, task.data), model.weights, task.kernel, task.threads, self.curvature
        )
        columns = np.arange(model.weights.size)
        done = 0
        if task.state is None:
            before = problem.value() + task.regularizer.penalty(problem.weights)
        else:
            problem.restore(task.state)
            done, before = int(task.state["epoch"][0]), float(task.state["objective"][0])
        for epoch in range(done + 1, self.max_epochs + 1):
            problem.sweep(columns, penalty)
            model.weights = problem.weights.copy()
            objective = problem.value() + task.regularizer.penalty(problem.weights)
            converged = before - objective <= self.tolerance * abs(objective)
            yield Turn(epoch, objective, converged, partial(_state, problem, epoch, objective))
            if converged:
                return
            before = objective


def _state(problem: CoordinateProblem, epoch: int, objective: float) -> State:
    return {
        **problem.state(),
        "epoch": np.array([float(epoch)]),
        "objective": np.array([objective]),
    }
