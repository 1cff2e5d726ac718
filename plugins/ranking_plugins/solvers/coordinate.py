"""Coordinate descent: one weight at a time, no step increases the objective."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from typing import ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import CoordinateLoss, CoordinateProblem, Loss, PairwiseForm
from ranking.contracts.model import Model, StagedModel
from ranking.contracts.parameters import boolean, choice, integer, number
from ranking.contracts.regularizer import EntryPenalty, Regularizer, kernel_form
from ranking.contracts.solver import YES, Compatibility, EpochResult, Solver, State, TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.errors import CombinationError
from ranking.models.factored import Factored
from ranking.models.item_item import ItemItem
from ranking.models.linear import Linear
from ranking_plugins.losses.margin_lists import margin_list_reason
from ranking_plugins.losses.pairwise_problem import PairProblem, is_bounded
from ranking_plugins.losses.squared import Squared
from ranking_plugins.solvers.functions import FIXED_IDENTITY, NO_GRADIENT
from ranking_plugins.solvers.item_columns import item_column_epochs
from ranking_plugins.solvers.row_blocks import RowBlockSettings, row_block_epochs
from ranking_plugins.solvers.sweeps import Active, Everything, Induced, Working

ROUNDS = 5
"""Sweeps over few features per epoch of feature induction."""

FEW = 20
"""Features are few below a share of 1 / FEW of all."""


@dataclasses.dataclass
class Coordinate(Solver):
    """Sweep over the features until the objective stops decreasing.

    Of a factored model, the blocks are the rows of U and of V: block coordinate descent on lists of
    one positive and `n_negatives` sampled negatives. Then only `max_epochs`, `tolerance` and
    `n_negatives` matter. Of an item-item model, one column of weights is minimized at a time, by up
    to 20 sweeps per epoch.

    Parameters
    ----------
    max_epochs : int
        The maximal number of sweeps.
    tolerance : float
        Stop when a sweep decreases the objective by less than this share of it.
    curvature : {"newton", "popoviciu", "paper"}
        The bound of the length of a step; "newton" needs the fewest epochs. With all three, no step
        increases the objective.
    sweeps : {"all", "active", "induced"}
        The features of a sweep. "active": those with non-zero weights, and all features whenever
        those have converged. "induced": feature induction, see `top`.
    top : int
        For sweeps="induced": the number of features that are added at a time, those with the
        largest guaranteed decrease; training ends when none would help.
    shuffled : bool
        Whether each sweep has its own random order.
    n_negatives : int
        For embeddings: the negatives that are sampled for each positive, once for the whole run.
    neighbors : int
        For item-item weights (SLIM): an item may have weights for this many items only, those with
        the largest cosine; 0 is no limit. Without L1 that is a sparse approximate inverse.
    nonnegative : bool
        For item-item weights: whether they are at least 0.
    """

    name: ClassVar[str] = "coordinate"

    max_epochs: int = integer(200, minimum=1)
    tolerance: float = number(1e-6, minimum=0.0, below=1.0)
    curvature: str = choice("newton", "newton", "popoviciu", "paper")
    sweeps: str = choice("all", "all", "active", "induced")
    top: int = integer(50, minimum=1)
    shuffled: bool = boolean(False)
    n_negatives: int = integer(10, minimum=1)
    neighbors: int = integer(0, minimum=0)
    nonnegative: bool = boolean(False)

    def idle(self) -> set[str]:
        """Return `top`, unless features are induced."""
        return set() if self.sweeps == "induced" else {"top"}

    @property
    def expects_convergence(self) -> bool:
        """Whether there is a tolerance; without one, all epochs are wanted."""
        return self.tolerance > 0.0

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a vector of weights, a coordinate loss and a penalty by entries; or embeddings."""
        if model.form == "factors-identity":
            return Compatibility(False, FIXED_IDENTITY)
        if issubclass(model, Factored) and not issubclass(model, StagedModel):
            return _accept_rows(loss, regularizer)
        if issubclass(model, ItemItem):
            return _accept_items(loss, regularizer)
        if model.form == "functions":
            return Compatibility(False, NO_GRADIENT)
        if model.form != "vector":
            return Compatibility(
                False,
                "every document is in the list of every query, so a step along one weight would "
                "read the scores of all pairs, and a sweep would cost the non-zeros of queries "
                "times those of documents; sgd samples some of the pairs",
            )
        if "coordinate" not in loss.interfaces and not is_bounded(loss):
            return Compatibility(False, _unsupported_reason(loss))
        if regularizer.granularity != "entry":
            return Compatibility(
                False,
                "the regularizer is not a sum over single weights, and where it couples them, "
                "coordinate descent stops before the minimum: no single weight can improve",
            )
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per sweep over the working set, or over the rows of embeddings."""
        if problem.model.form == "factors":
            yield from row_block_epochs(
                problem, RowBlockSettings(self.max_epochs, self.tolerance, self.n_negatives)
            )
            return
        if isinstance(problem.model, ItemItem):
            yield from item_column_epochs(self, problem)
            return
        penalty = kernel_form(problem.regularizer, "vector")
        if not isinstance(penalty, EntryPenalty):
            raise CombinationError(
                f"regularizer {problem.regularizer.name!r} is not of the form l1 |w| + l2/2 w^2, "
                "which coordinate descent needs; l1 and l2 are."
            )
        model = cast(Linear, problem.model)
        loss = _coordinate_problem(problem, self.curvature)
        working, epochs, previous = self._start(problem, loss, penalty)
        for epoch in range(epochs + 1, self.max_epochs + 1):
            loss.sweep(self._ordered(working.columns, problem, epoch), penalty)
            model.weights = loss.weights.copy()
            objective = loss.value() + problem.regularizer.penalty(loss.weights)
            least = self.tolerance * abs(objective)
            measures = {"decrease": previous - objective, **self._measures(loss, working)}
            converged = False
            if previous - objective <= least:
                converged = not working.expand(loss, penalty, least)
            else:
                working.shrink(loss)
            state = partial(_state, loss, working.columns, epoch, objective)
            yield EpochResult(epoch, objective, converged, state, measures)
            if converged:
                return
            previous = objective

    def _start(
        self, problem: TrainingProblem, loss: CoordinateProblem, penalty: EntryPenalty
    ) -> tuple[Working, int, float]:
        """Return the working set, the number of epochs and the objective at the start."""
        if problem.state is None:
            objective = loss.value() + problem.regularizer.penalty(loss.weights)
            working = self._working(loss)
            if self.sweeps == "induced":
                working.expand(loss, penalty, self.tolerance * abs(objective))
            return working, 0, objective
        loss.restore(problem.state)
        working = self._working(loss)
        working.columns = problem.state["columns"].astype(np.int64)
        return working, int(problem.state["epoch"][0]), float(problem.state["objective"][0])

    def _working(self, problem: CoordinateProblem) -> Working:
        """Return the first working set."""
        everything = np.arange(problem.weights.size)
        if self.sweeps == "induced":
            return Induced(np.flatnonzero(problem.weights), self.top)
        return Active(everything) if self.sweeps == "active" else Everything(everything)

    def _ordered(
        self, columns: NDArray[np.int64], problem: TrainingProblem, epoch: int
    ) -> NDArray[np.int64]:
        """Return the columns in the order of the sweep."""
        n_features = cast(Linear, problem.model).weights.size
        if self.shuffled:
            numbers = problem.kernel.random.bits(problem.seed, epoch * n_features, n_features)
            columns = columns[np.argsort(numbers[columns], kind="stable")]
        few = self.sweeps == "induced" and columns.size * FEW <= n_features
        return np.tile(columns, ROUNDS) if few else columns

    def _measures(self, problem: CoordinateProblem, working: Working) -> dict[str, float]:
        """Return the size of the working set and the density, unless all features are swept."""
        if self.sweeps == "all":
            return {}
        density = np.count_nonzero(problem.weights) / problem.weights.size
        return {"features": float(working.columns.size), "density": density}


def _unsupported_reason(loss: type[Loss]) -> str:
    if getattr(loss, "form", None) == PairwiseForm.NATIVE:
        return (
            "no bound of the second derivative is known, so a step could increase the objective; "
            "a native pairwise loss gives one by its attribute `curvature`"
        )
    return loss.unsupported_reason("coordinate")


def _coordinate_problem(problem: TrainingProblem, curvature: str) -> CoordinateProblem:
    """Prepare the data; a bounded native loss has no coordinate interface of its own."""
    loss, data = problem.loss, cast(JudgedLists, problem.data)
    weights = cast(Linear, problem.model).weights
    settings = (problem.kernel, problem.threads, curvature)
    if "coordinate" not in loss.interfaces:
        return PairProblem(loss, data, weights, *settings)
    return cast(CoordinateLoss, loss).coordinate_problem(data, weights, *settings)


def _accept_items(loss: type[Loss], regularizer: type[Regularizer]) -> Compatibility:
    """Accept the squared loss, and a penalty by entries."""
    if not issubclass(loss, Squared):
        return Compatibility(
            False,
            "the columns of item-item weights are independent least-squares problems only for the "
            "squared error",
        )
    if regularizer.granularity != "entry" or "matrix" not in getattr(
        regularizer, "kernel_forms", ()
    ):
        return Compatibility(
            False,
            "the regularizer is not a sum over single weights of the form l1 |w| + l2/2 w^2",
        )
    return YES


def _accept_rows(loss: type[Loss], regularizer: type[Regularizer]) -> Compatibility:
    """Accept losses of margins, and every penalty with a prox for embeddings."""
    if "factors" not in regularizer.forms:
        missing = "the regularizer has no operator for factors parameters"
        return Compatibility(False, regularizer.unsupported.get("factors", missing))
    reason = margin_list_reason(loss)
    return Compatibility(not reason, reason, first_choice=False)


def _state(
    problem: CoordinateProblem, columns: NDArray[np.int64], epoch: int, objective: float
) -> State:
    return {
        **problem.state(),
        "columns": columns,
        "epoch": np.array([float(epoch)]),
        "objective": np.array([objective]),
    }
