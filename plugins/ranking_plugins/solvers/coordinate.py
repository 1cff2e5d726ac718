"""Coordinate descent: one weight at a time, each step a guaranteed decrease."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import CoordinateLoss, CoordinateProblem, Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import boolean, choice, integer, number
from ranking.contracts.regularizer import EntryPenalty, Regularizer, kernel_form
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import CombinationError
from ranking.models.linear import Linear
from ranking_plugins.solvers.sweeps import Active, Everything, Induced, Working

ROUNDS = 5
"""Times that an epoch of feature induction goes over few features: rows cost as much as those."""

FEW = 20
"""A share of 1 / FEW of all features is few."""


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
    sweeps : {"all", "active", "induced"}
        Which features a sweep goes over. "active": those with a weight, and all of them whenever
        those stand still. "induced": feature induction, see `top`.
    top : int
        For sweeps="induced": how many features are added at a time, those with the largest
        guaranteed decrease; training ends when none would help.
    shuffled : bool
        Whether each sweep has an order of its own, drawn by the seed.
    """

    name: ClassVar[str] = "coordinate"

    max_epochs: int = integer(200, minimum=1)
    tolerance: float = number(1e-6, minimum=0.0, below=1.0)
    curvature: str = choice("newton", "newton", "popoviciu", "paper")
    sweeps: str = choice("all", "all", "active", "induced")
    top: int = integer(50, minimum=1)
    shuffled: bool = boolean(False)

    def idle(self) -> set[str]:
        """Return what only feature induction asks for, elsewhere."""
        return set() if self.sweeps == "induced" else {"top"}

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Take a vector of weights, a coordinate interface and a penalty by entries."""
        if model.form != "vector":
            return Compatibility(
                False,
                "here every document is in the list of every query, so a step along one weight "
                "would read the scores of all pairs, and a sweep cost the non-zeros of queries "
                "times those of documents; sgd draws some of the pairs",
            )
        if "coordinate" not in loss.interfaces:
            return Compatibility(False, loss.unsupported_reason("coordinate"))
        if regularizer.granularity != "entry":
            return Compatibility(
                False,
                "the regularizer is no sum over single weights, and where it ties them together, "
                "coordinate descent stands still short of the minimum: no weight can improve alone",
            )
        return YES

    def run_epochs(self, task: TrainingProblem) -> Iterator[EpochResult]:
        """Sweep over the features of the working set, once a turn."""
        penalty = kernel_form(task.regularizer, "vector")
        if not isinstance(penalty, EntryPenalty):
            raise CombinationError(
                f"regularizer {task.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, "
                "which coordinate descent needs; l1 and l2 are."
            )
        model = cast(Linear, task.model)
        problem = cast(CoordinateLoss, task.loss).coordinate_problem(
            cast(JudgedLists, task.data), model.weights, task.kernel, task.threads, self.curvature
        )
        done = 0
        if task.state is None:
            before = problem.value() + task.regularizer.penalty(problem.weights)
            working = self._working(problem)
            if self.sweeps == "induced":
                working.settled(problem, penalty, self.tolerance * abs(before))
        else:
            problem.restore(task.state)
            done, before = int(task.state["epoch"][0]), float(task.state["objective"][0])
            working = self._working(problem)
            working.columns = task.state["columns"].astype(np.int64)
        for epoch in range(done + 1, self.max_epochs + 1):
            problem.sweep(self._ordered(working.columns, task, epoch), penalty)
            model.weights = problem.weights.copy()
            objective = problem.value() + task.regularizer.penalty(problem.weights)
            least = self.tolerance * abs(objective)
            measures = self._measures(problem, working)
            converged = False
            if before - objective <= least:
                converged = not working.settled(problem, penalty, least)
            else:
                working.moved(problem)
            state = partial(_state, problem, working.columns, epoch, objective)
            yield EpochResult(epoch, objective, converged, state, measures)
            if converged:
                return
            before = objective

    def _working(self, problem: CoordinateProblem) -> Working:
        """Return the working set that training begins with."""
        everything = np.arange(problem.weights.size)
        if self.sweeps == "induced":
            return Induced(np.flatnonzero(problem.weights), self.top)
        return Active(everything) if self.sweeps == "active" else Everything(everything)

    def _ordered(
        self, columns: NDArray[np.int64], task: TrainingProblem, epoch: int
    ) -> NDArray[np.int64]:
        """Return the columns in the order of the sweep; draws belong to epoch and feature."""
        n_features = cast(Linear, task.model).weights.size
        if self.shuffled:
            draws = task.kernel.random.bits(task.seed, epoch * n_features, n_features)
            columns = columns[np.argsort(draws[columns], kind="stable")]
        few = self.sweeps == "induced" and columns.size * FEW <= n_features
        return np.tile(columns, ROUNDS) if few else columns

    def _measures(self, problem: CoordinateProblem, working: Working) -> dict[str, float]:
        """Return how far feature induction has come; otherwise there is nothing to tell."""
        if self.sweeps == "all":
            return {}
        kept = np.count_nonzero(problem.weights) / problem.weights.size
        return {"features": float(working.columns.size), "density": kept}


def _state(
    problem: CoordinateProblem, columns: NDArray[np.int64], epoch: int, objective: float
) -> State:
    return {
        **problem.state(),
        "columns": columns,
        "epoch": np.array([float(epoch)]),
        "objective": np.array([objective]),
    }
