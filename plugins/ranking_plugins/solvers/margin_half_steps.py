"""Half-steps for a loss that has none in closed form: SGD on one side, the other one frozen.

With l1l2-row this is the large-margin RMLS that Wu, Lu and Li (2013) leave to the future.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ranking.contracts.solver import EpochResult, State, TrainingProblem
from ranking_plugins.solvers.factored_steps import FactoredSteps
from ranking_plugins.solvers.sgd import SGD

if TYPE_CHECKING:
    from ranking_plugins.solvers.alternating import Alternating

OF_SIDE = ((0,), (1, 3))
"""The places of a side's arrays among U, V, S and the biases."""

FROZEN = np.finfo(np.float32).max
"""Sums of squares so large that Adagrad, which divides by their root, moves nothing to speak of."""


class HalfSteps(FactoredSteps):
    """Steps of SGD that move one side only."""

    def __init__(self, problem: TrainingProblem) -> None:
        super().__init__(SGD(), problem)
        self.inlined, self.apart = None, True
        self.free = 0
        if problem.state is None:
            for self.free in (1, 0):
                self._shrink(0.0)  # the first vectors come to where the regularizer allows them

    def _places(self) -> list[int]:
        return [self.free]

    def half_step(self, side: int) -> float:
        """Take a pass over the matches with one side free; return the mean of the losses."""
        self.free = side
        factors, squares = self.weights.factors, self.weights.squares
        frozen = OF_SIDE[1 - side]
        kept = [(factors[at].copy(), squares[at].copy()) for at in frozen]
        for at in frozen:
            squares[at][...] = FROZEN
        loss = self.take(self.draw(self.plan.steps_per_epoch))
        for at, (values, sums) in zip(frozen, kept, strict=True):
            factors[at][...], squares[at][...] = values, sums
        return loss

    def penalty_value(self) -> float:
        """Return the penalty of both sides, each as its last half-step left it."""
        inner = slice(None), slice(0, self.model.dimensions)
        return sum(
            self._regularizer(place).penalty(self.weights.factors[place][inner].astype(np.float64))
            for place in (0, 1)
        )


def margin_turns(solver: Alternating, problem: TrainingProblem) -> Iterator[EpochResult]:
    """Take a half-step for queries and one for documents, once a turn."""
    steps = HalfSteps(problem)
    before = np.inf
    if problem.state is not None:
        steps.restore({name: part for name, part in problem.state.items() if name != "objective"})
        before = float(problem.state["objective"][0])
    for epoch in range(steps.done // (2 * steps.plan.steps_per_epoch) + 1, solver.max_epochs + 1):
        loss = 0.5 * (steps.half_step(0) + steps.half_step(1))
        objective = loss + steps.penalty_value()
        converged = abs(before - objective) <= solver.tolerance * abs(objective)
        measures = {"loss": loss, "density": problem.model.density}
        yield EpochResult(epoch, objective, converged, partial(_state, steps, objective), measures)
        if converged:
            return
        before = objective


def _state(steps: HalfSteps, objective: float) -> State:
    return {**steps.state(), "objective": np.array([objective])}
