"""Half-steps for losses without a closed form: SGD on one side, with the other side frozen.

With l1l2-row this is the large-margin RMLS that Wu, Lu and Li (2013) propose as future work.
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
"""The positions of the arrays of a side among U, V, S and the biases."""

FROZEN = np.finfo(np.float32).max
"""A sum of squares so large that Adagrad, which divides by its root, moves nothing."""


class HalfSteps(FactoredSteps):
    """Steps of SGD that change one side only."""

    def __init__(self, problem: TrainingProblem) -> None:
        super().__init__(SGD(), problem)
        self.row_penalty, self.prox_between_calls = None, True
        self.kernel_penalty = self.kernel_penalty._replace(max_norm=0.0)
        self.free = 0
        if problem.state is None:
            for self.free in (1, 0):
                self._apply_prox(0.0)  # the initial embeddings may violate the constraint

    def _positions(self) -> list[int]:
        return [self.free]

    def half_step(self, side: int) -> None:
        """Take one pass over the positives with one side free."""
        self.free = side
        factors, squares = self.weights.factors, self.weights.squares
        frozen = OF_SIDE[1 - side]
        saved = [(factors[at].copy(), squares[at].copy()) for at in frozen]
        for at in frozen:
            squares[at][...] = FROZEN
        self.train(self.sample(self.settings.steps_per_epoch))
        for at, (values, sums) in zip(frozen, saved, strict=True):
            factors[at][...], squares[at][...] = values, sums

    def penalty_value(self) -> float:
        """Return the penalty of both sides after their last half-steps."""
        return sum(
            self._penalty_of_rows(
                at, rows, self.weights.factors[at][rows, : self.model.dimensions].astype(np.float64)
            )
            for at in (0, 1)
            for rows in self._chunks(at)
        )


def margin_epochs(solver: Alternating, problem: TrainingProblem) -> Iterator[EpochResult]:
    """Yield one epoch per half-step for queries and half-step for documents."""
    steps = HalfSteps(problem)
    before = np.inf
    if problem.state is not None:
        steps.restore({name: part for name, part in problem.state.items() if name != "objective"})
        before = float(problem.state["objective"][0])
    for epoch in range(
        steps.steps_taken // (2 * steps.settings.steps_per_epoch) + 1, solver.max_epochs + 1
    ):
        steps.half_step(0)
        steps.half_step(1)
        loss = steps.mean_loss(steps.evaluation_sample(steps.evaluation_count))
        objective = loss + steps.penalty_value()
        converged = abs(before - objective) <= solver.tolerance * abs(objective)
        measures = {"loss": loss, "density": problem.model.density}
        yield EpochResult(epoch, objective, converged, partial(_state, steps, objective), measures)
        if converged:
            return
        before = objective


def _state(steps: HalfSteps, objective: float) -> State:
    return {**steps.state(), "objective": np.array([objective])}
