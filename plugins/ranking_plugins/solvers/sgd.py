"""Stochastic gradient descent on tuples: a query, a document that matches, one that does not."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.parameters import boolean, choice, integer, number
from ranking.contracts.regularizer import Regularizer, target_density
from ranking.contracts.solver import (
    YES,
    Compatibility,
    EpochResult,
    History,
    Solver,
    TrainingProblem,
)
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError, PartError
from ranking_plugins.preference_pairs import SEVERAL_GRADES
from ranking_plugins.solvers.bilinear_steps import BilinearSteps
from ranking_plugins.solvers.density import Trial, find_strength
from ranking_plugins.solvers.factored_steps import FactoredSteps
from ranking_plugins.solvers.linear_steps import LinearSteps
from ranking_plugins.solvers.schedules import SCHEDULES
from ranking_plugins.solvers.steps import Ints, Source, Steps

AUTO = ("auto",)


@dataclasses.dataclass
class SGD(Solver):
    """Draws tuples and steps against the gradient of their loss (Chen et al., 2010, algorithm 1).

    A query is drawn from those that have both, a document that matches from its own, and one that
    does not from all others. Of judged rows, one is drawn that others of its query are worse than,
    and one of those. The penalty of the steps since the last boundary is due at every
    boundary.

    Parameters
    ----------
    epochs : int or "auto"
        Passes of `steps_per_epoch` steps; 0 leaves the model at its initial values. "auto" is 10.
    max_steps : int or "auto"
        Number of triplets in all, instead of `epochs`; the last epoch may be shorter.
    learning_rate : float or "auto"
        C of the schedule. "auto" is 200 for a matrix of weights, 0.05 for embeddings, and for
        judged rows 1 over the mean squared difference of a sampled pair.
    schedule : {"auto", "inverse-sqrt", "constant", "inverse", "adagrad"}
        The learning rate of step t: C / sqrt(t), C, or C / t. For embeddings also Adagrad, C over
        the root of the sum of a parameter's squared gradients. "auto" is adagrad for embeddings and
        inverse-sqrt elsewhere.
    sampling : {"auto", "queries", "positives", "weighted"}
        Sample queries uniformly, then one of their positives; sample positives uniformly; or
        sample positives in proportion to their relevance. "auto" is positives for embeddings and
        judged rows, else queries.
    negatives : {"unobserved", "any"}
        Sample negatives among the documents that are not positive for the query, or among all but
        the sampled positive (as WSABIE and LaSR do).
    weighting : {"uniform", "relevance"}
        Weight all positives equally, or by their relevance; for embeddings.
    n_negatives : int
        Negatives per positive, for a listwise loss.
    prox_interval : int or "auto"
        Steps between two applications of a penalty that is not applied at each step; "auto" is 100,
        or for embeddings a sixteenth of an epoch.
    refit : bool
        Train again from the result, with the same triplets in the same order and without a
        penalty; weights that are zero stay zero.
    refit_learning_rate : float
        C of the refit, whose steps count from 1 again; 0 means `learning_rate`.
    batch_size : int or "auto"
        Triplets whose margins are computed at the same weights. 1 is plain SGD; more lets threads
        share the work. The result depends on the batch size, but not on the threads. "auto" is
        1, or 64 for a loss written in Python; for embeddings a 192nd of an epoch, at most 2048, or
        with features a 48th, at most 16384.
    mode : {"deterministic", "hogwild"}
        Apply the steps in order, or let threads race (results then vary from run to run).
    steps_per_epoch : int or "auto"
        "auto" is 10,000, or for embeddings one pass over the positives.
    """

    name: ClassVar[str] = "sgd"

    epochs: int | str = integer("auto", minimum=0, words=AUTO)
    max_steps: int | str = integer("auto", minimum=0, words=AUTO)
    learning_rate: float | str = number("auto", above=0.0, words=AUTO)
    schedule: str = choice("auto", "auto", *SCHEDULES, "adagrad")
    sampling: str = choice("auto", "auto", "queries", "positives", "weighted")
    negatives: str = choice("unobserved", "unobserved", "any")
    weighting: str = choice("uniform", "uniform", "relevance")
    n_negatives: int = integer(10, minimum=1)
    prox_interval: int | str = integer("auto", minimum=1, words=AUTO)
    refit: bool = boolean(False)
    refit_learning_rate: float = number(0.0, minimum=0.0)
    batch_size: int | str = integer("auto", minimum=1, words=AUTO)
    mode: str = choice("deterministic", "deterministic", "hogwild")
    steps_per_epoch: int | str = integer("auto", minimum=1, words=AUTO)

    def _setup(self) -> None:
        if "auto" not in (self.epochs, self.max_steps):
            raise PartError(
                f"sgd has epochs={self.epochs} and max_steps={self.max_steps}; set only one of them."
            )
        self.trials: list[Trial] = []

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Take a pair or listwise interface, and a penalty with an operator for the parameters.

        A vector of weights is a matrix of one row.
        """
        if not {"pairwise", "listwise"} & loss.interfaces:
            return Compatibility(False, loss.unsupported_reason("pairwise"))
        if loss.orders_positives and model.form == "vector":
            return Compatibility(False, SEVERAL_GRADES)
        form = "matrix" if model.form == "vector" else model.form
        if form not in regularizer.forms:
            missing = f"the regularizer has no operator for {form} parameters"
            return Compatibility(False, regularizer.unsupported.get(model.form, missing))
        return YES

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Take the draws of an epoch, once a turn; refitting goes on with as many again."""
        steps = self._steps(problem)
        self.trials = []
        if problem.state is not None:
            steps.restore(problem.state)
            self.trials = [Trial(*row) for row in problem.state["trials"].tolist()]
        elif target_density(problem.regularizer) is not None:
            self.trials = find_strength(problem, partial(_pilot, self, problem))
        plan, total = steps.plan, steps.total
        epoch = -(-steps.done // plan.steps_per_epoch)
        while steps.done < total or (not epoch and problem.state is None):
            if self.refit and steps.done == plan.max_steps:
                steps.begin_refit()
            limit = plan.max_steps if steps.done < plan.max_steps else total
            loss = steps.take(steps.draw(min(plan.steps_per_epoch, limit - steps.done)))
            epoch += 1
            yield steps.turn(epoch, loss)

    def _steps(self, problem: TrainingProblem) -> Steps:
        """Return the steps for the form of the model's parameters."""
        kinds = {"vector": LinearSteps, "matrix": BilinearSteps, "factors": FactoredSteps}
        return kinds[problem.model.form](self, problem)

    def online_trainer(self, problem: TrainingProblem, history: History = ()) -> SgdOnlineTrainer:
        """Return a training that is fed part by part; draws and rates go on after the history."""
        if self.refit or target_density(problem.regularizer) is not None:
            what = "refit=true" if self.refit else "a wanted density"
            raise CombinationError(
                f"{what} needs the end of a training, and partial_fit has none; leave it out."
            )
        if problem.model.form == "vector":
            raise CombinationError(
                "partial_fit takes queries and documents, and these are judged rows; give fit all "
                "of them."
            )
        steps = self._steps(problem)
        epoch = 0
        if history:
            epoch = int(history[-1]["epoch"])
            steps.skip(int(history[-1].get("steps", 0)))
        return SgdOnlineTrainer(steps, epoch)

    def notes(self) -> dict[str, Any]:
        """Return the strengths that were tried for a wanted density."""
        if not self.trials:
            return {}
        return {"density search": [trial._asdict() for trial in self.trials]}


class SgdOnlineTrainer:
    """Steps that are fed part by part."""

    def __init__(self, steps: Steps, epoch: int) -> None:
        self.steps, self.epoch = steps, epoch

    def set_data(self, data: MatchingData) -> None:
        """Go on with other data."""
        self.steps.feed(data)

    def step(self, triplets: NDArray[Any] | None, steps: int | None) -> EpochResult:
        """Take these tuples' steps, or those of as many that are drawn."""
        if triplets is not None and steps is not None:
            raise PartError("partial_fit takes triplets or steps, not both.")
        if triplets is None:
            count: object = self.steps.plan.max_steps if steps is None else steps
            if not isinstance(count, numbers.Integral) or count < 0:
                raise PartError(f"steps is {count!r}; it must be a whole number from 0.")
            chosen: Source = self.steps.draw(int(count))
        else:
            if self.steps.solver.weighting != "uniform":
                raise CombinationError(
                    "weighting=relevance is for matches that are drawn, and these triplets are given; "
                    "leave it out, or give steps."
                )
            positives, _ = self.steps.problem.loss.positives
            width = 1 + positives + self.steps.trials
            chosen = _as_triplets(triplets, width, self.steps.data)
        loss = self.steps.take(chosen)
        self.epoch += 1
        return self.steps.turn(self.epoch, loss)


def _as_triplets(given: NDArray[Any], width: int, data: MatchingData) -> Ints:
    if given.ndim != 2 or given.shape[1] != width or given.dtype.kind not in "iu":
        raise DataError(
            f"triplets must be whole numbers of shape (triplets, {width}): a query, a document that "
            f"matches, and {width - 2} that do not; they have shape {given.shape} and type "
            f"{given.dtype}."
        )
    for what, part, size in (
        ("queries", given[:, :1], data.n_queries),
        ("documents", given[:, 1:], data.n_documents),
    ):
        if part.size and not 0 <= part.min() <= part.max() < size:
            raise DataError(
                f"triplets name {what} at positions {part.min()} to {part.max()}, and there are "
                f"{size}; positions run from 0."
            )
    return np.ascontiguousarray(given, dtype=np.int64)


def _pilot(solver: SGD, problem: TrainingProblem, strength: float) -> float:
    """Train with a strength, and return the density that it gives."""
    problem.regularizer.set_params(strength=strength, density=0.0)
    steps = (
        LinearSteps(solver, problem)
        if problem.model.form == "vector"
        else BilinearSteps(solver, problem)
    )
    while steps.done < steps.plan.max_steps:
        steps.take(steps.draw(min(steps.plan.steps_per_epoch, steps.plan.max_steps - steps.done)))
    return steps.weights.n_nonzero / steps.model.n_weights
