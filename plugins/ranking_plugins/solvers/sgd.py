"""Stochastic gradient descent on sampled triplets: query, positive, negative."""

from __future__ import annotations

import copy
import dataclasses
import numbers
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Loss, SharedNegativesLoss
from ranking.contracts.model import Model
from ranking.contracts.parameters import boolean, choice, integer, number
from ranking.contracts.regularizer import (
    OrthogonalColumns,
    Regularizer,
    SupportsQuadraticForm,
    target_density,
)
from ranking.contracts.solver import (
    Compatibility,
    EpochResult,
    History,
    Solver,
    TrainingProblem,
)
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError, PartError
from ranking.models.bilinear import Diagonal
from ranking.models.factored import Factored
from ranking_plugins.losses.lambdarank import LambdaRank
from ranking_plugins.preference_pairs import SEVERAL_GRADES
from ranking_plugins.solvers.auto_values import sgd_auto_values
from ranking_plugins.solvers.bilinear_steps import BilinearSteps
from ranking_plugins.solvers.density import Trial, find_strength
from ranking_plugins.solvers.diagonal_steps import DiagonalSteps
from ranking_plugins.solvers.factored_steps import FactoredSteps
from ranking_plugins.solvers.functions import FIXED_IDENTITY, NO_GRADIENT, SAMPLED_RANKS
from ranking_plugins.solvers.linear_steps import LinearSteps
from ranking_plugins.solvers.schedules import SCHEDULES
from ranking_plugins.solvers.settings import shares_negatives
from ranking_plugins.solvers.shared_negatives import SAMPLERS
from ranking_plugins.solvers.shared_steps import SharedSteps
from ranking_plugins.solvers.steps import Ints, Source, Steps

AUTO = ("auto",)


@dataclasses.dataclass
class SGD(Solver):
    """Stochastic gradient descent on sampled triplets (Chen et al., 2010, algorithm 1).

    Each step samples a query, one of its positives and a negative. For judged lists it samples a
    row and a row of the same query with a lower grade. The penalty is applied at boundaries, for
    all steps since the previous one.

    Parameters
    ----------
    epochs : int or "auto"
        Passes of `steps_per_epoch` steps; 0 leaves the model at its initial values. "auto" is 10.
    max_steps : int or "auto"
        Number of triplets in all, instead of `epochs`; the last epoch may be shorter.
    learning_rate : float or "auto"
        The constant C in the formula of `schedule`. "auto" is 200 for a matrix of weights, 0.05
        for embeddings (0.3 for orthonormal ones), and for judged rows 1 over the mean squared
        difference of a sampled pair and over the mean weight of a violation.
    schedule : {"auto", "inverse-sqrt", "constant", "inverse", "adagrad"}
        The learning rate of step t: C / sqrt(t), C, or C / t. For embeddings also Adagrad, C over
        the root of the sum of a parameter's squared gradients; or adam, for losses whose positives
        share negatives. "auto" is adagrad for embeddings (adam for those losses) and inverse-sqrt
        elsewhere.
    sampling : {"auto", "queries", "positives", "weighted"}
        Sample queries uniformly, then one of their positives; sample positives uniformly; or
        sample positives in proportion to their relevance, which weights them in every loss. "auto"
        is positives for embeddings and judged rows, else queries.
    negatives : {"unobserved", "any"}
        Sample negatives among the documents that are not positive for the query, or among all but
        the sampled positive (as WSABIE and LaSR do).
    weighting : {"uniform", "relevance"}
        Weight all positives equally, or by their relevance; for embeddings.
    n_negatives : int or "auto"
        Negatives per positive, for a listwise loss. "auto" is 10, or 1024 where the positives of a
        block share them (losses softmax, ccl and bce of embeddings).
    negative_sampling : {"uniform", "popularity", "in-batch"}
        How shared negatives are sampled: uniformly; in proportion to their positives plus one; or
        the first positives of the block. The last two are weighted so that the loss is that of
        uniform ones (log-Q correction).
    prox_interval : int or "auto"
        Steps between two applications of a penalty that is not applied at each step; "auto" is 100,
        or for embeddings a sixteenth of an epoch. A penalty of rows sweeps over a matrix of
        weights: as many steps as read the entries of the matrix once, at least 100 and at most a
        sixteenth of an epoch. With shared negatives it is rounded up to whole blocks.
    refit : bool
        Train again from the result, with the same triplets in the same order and without a
        penalty; weights that are zero stay zero.
    refit_learning_rate : float
        C of the refit, whose steps count from 1 again; 0 means `learning_rate`.
    batch_size : int or "auto"
        Triplets whose margins are computed at the same weights. 1 is plain SGD; more lets threads
        share the work. The result depends on the batch size, but not on the threads. "auto" is
        1, or 64 for a listwise loss or one written in Python; for embeddings a 192nd of an epoch
        (a 48th for a listwise loss), at most 2048, or with features a 48th, at most 16384.
    mode : {"deterministic", "hogwild"}
        Apply the steps in order, or let threads race (results then vary from run to run).
    steps_per_epoch : int or "auto"
        "auto" is 10,000, or for embeddings one pass over the positives.
    """

    name: ClassVar[str] = "sgd"

    epochs: int | str = integer("auto", minimum=0, words=AUTO)
    max_steps: int | str = integer("auto", minimum=0, words=AUTO)
    learning_rate: float | str = number("auto", above=0.0, words=AUTO)
    schedule: str = choice("auto", "auto", *SCHEDULES, "adagrad", "adam")
    sampling: str = choice("auto", "auto", "queries", "positives", "weighted")
    negatives: str = choice("unobserved", "unobserved", "any")
    weighting: str = choice("uniform", "uniform", "relevance")
    n_negatives: int | str = integer("auto", minimum=1, words=AUTO)
    negative_sampling: str = choice("uniform", *SAMPLERS)
    prox_interval: int | str = integer("auto", minimum=1, words=AUTO)
    refit: bool = boolean(False)
    refit_learning_rate: float = number(0.0, minimum=0.0)
    batch_size: int | str = integer("auto", minimum=1, words=AUTO)
    mode: str = choice("deterministic", "deterministic", "hogwild")
    steps_per_epoch: int | str = integer("auto", minimum=1, words=AUTO)

    def _setup(self) -> None:
        if "auto" not in (self.epochs, self.max_steps):
            raise PartError(
                f"sgd has epochs={self.epochs} and max_steps={self.max_steps}; set one of them."
            )
        self.density_trials: list[Trial] = []

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Compatibility:
        """Accept a pairwise or listwise loss and a penalty with an operator for the parameters.

        A vector of weights is a matrix of one row.
        """
        if model.form == "functions":
            return Compatibility(False, NO_GRADIENT)
        if model.form == "factors-identity":
            return Compatibility(False, FIXED_IDENTITY)
        shared = issubclass(loss, SharedNegativesLoss)
        if not shared and not {"pairwise", "listwise"} & loss.interfaces:
            return Compatibility(False, loss.unsupported_reason("pairwise"))
        if shared and model.name != Factored.name:
            return Compatibility(
                False,
                f"the positives of loss {loss.name!r} share their negatives, and steps are "
                "computed from products of embeddings",
            )
        if issubclass(loss, LambdaRank) and model.form != "vector":
            return Compatibility(False, SAMPLED_RANKS)
        if not loss.compares_scores and issubclass(regularizer, OrthogonalColumns):
            return Compatibility(
                False,
                f"loss {loss.name!r} depends on the level of the scores, and columns of one length "
                "fix it",
            )
        if loss.orders_positives and model.form == "vector":
            return Compatibility(False, SEVERAL_GRADES)
        form = "matrix" if model.form == "vector" else model.form
        if form not in regularizer.forms or model.form in regularizer.unsupported:
            missing = f"the regularizer has no operator for {form} parameters"
            return Compatibility(False, regularizer.unsupported.get(model.form, missing))
        # Solvers of all lists at once are faster than steps of single lists, which run in Python.
        by_lists = "pairwise" not in loss.interfaces
        smooth = loss.is_smooth and issubclass(regularizer, SupportsQuadraticForm)
        return Compatibility(True, first_choice=model.form != "vector" or not (by_lists or smooth))

    def run_epochs(self, problem: TrainingProblem) -> Iterator[EpochResult]:
        """Yield one result per epoch; a refit takes as many steps again."""
        steps = self._steps(problem)
        self.density_trials = []
        if problem.state is not None:
            steps.restore(problem.state)
            self.density_trials = [Trial(*row) for row in problem.state["trials"].tolist()]
        elif target_density(problem.regularizer) is not None:
            self.density_trials = find_strength(problem, partial(_pilot, self, problem))
        settings, total = steps.settings, steps.total_steps
        epoch = -(-steps.steps_taken // settings.steps_per_epoch)
        while steps.steps_taken < total or (not epoch and problem.state is None):
            if self.refit and steps.steps_taken == settings.max_steps:
                steps.begin_refit()
            limit = settings.max_steps if steps.steps_taken < settings.max_steps else total
            steps.train(steps.sample(min(settings.steps_per_epoch, limit - steps.steps_taken)))
            epoch += 1
            yield steps.epoch_result(epoch, steps.evaluation_sample(steps.evaluation_count))

    def _steps(self, problem: TrainingProblem) -> Steps:
        """Return the steps for the form of the parameters of the model."""
        if shares_negatives(problem):
            return SharedSteps(self, problem)
        if isinstance(problem.model, Diagonal):
            return DiagonalSteps(self, problem)
        kinds = {"vector": LinearSteps, "matrix": BilinearSteps, "factors": FactoredSteps}
        return kinds[problem.model.form](self, problem)

    def online_trainer(self, problem: TrainingProblem, history: History = ()) -> SgdOnlineTrainer:
        """Return a trainer that takes data part by part and continues after the history."""
        if self.refit or target_density(problem.regularizer) is not None:
            what = "refit=true" if self.refit else "a target density"
            raise CombinationError(
                f"{what} needs a fixed number of steps, unlike partial_fit; leave it out."
            )
        if problem.model.form == "vector":
            raise CombinationError(
                "partial_fit takes queries and documents, and these are judged lists; use fit with "
                "all of them."
            )
        steps = self._steps(problem)
        epoch = 0
        if history:
            epoch = int(history[-1]["epoch"])
            steps.resume_after(int(history[-1].get("steps", 0)))
        return SgdOnlineTrainer(steps, epoch)

    def auto_values(self, problem: TrainingProblem) -> dict[str, Any]:
        """Return the value that is used for each parameter that is "auto"."""
        return sgd_auto_values(self, problem)

    def idle(self) -> set[str]:
        """Return `epochs` or `max_steps`: the one that follows from the other."""
        return {"epochs"} if self.epochs == "auto" else {"max_steps"}

    def notes(self) -> dict[str, Any]:
        """Return the strengths of the pilot trainings for a target density."""
        if not self.density_trials:
            return {}
        return {"density search": [trial._asdict() for trial in self.density_trials]}


class SgdOnlineTrainer:
    """Steps on data that come part by part."""

    def __init__(self, steps: Steps, epoch: int) -> None:
        self.steps, self.epoch = steps, epoch

    def set_data(self, data: MatchingData) -> None:
        """Continue with other data."""
        self.steps.set_data(data)

    def step(self, triplets: NDArray[Any] | None, steps: int | None) -> EpochResult:
        """Take a step for each of these triplets, or a number of steps on sampled ones."""
        if triplets is not None and steps is not None:
            raise PartError("partial_fit takes triplets or steps, not both.")
        if triplets is None:
            count: object = self.steps.settings.max_steps if steps is None else steps
            if not isinstance(count, numbers.Integral) or count < 0:
                raise PartError(f"steps is {count!r}; it must be an integer >= 0.")
            source: Source = self.steps.sample(int(count))
            evaluated = self.steps.evaluation_sample(min(int(count), self.steps.evaluation_count))
        else:
            if self.steps.solver.weighting != "uniform":
                raise CombinationError(
                    "weighting=relevance is for sampled positives, not for triplets; leave it out, "
                    "or give steps."
                )
            positives, _ = self.steps.problem.loss.positives
            width = 1 + positives + self.steps.n_negatives
            source = _as_triplets(triplets, width, self.steps.data)
            evaluated = source[: self.steps.evaluation_count]
        self.steps.train(source)
        self.epoch += 1
        return self.steps.epoch_result(self.epoch, evaluated)


def _as_triplets(array: NDArray[Any], width: int, data: MatchingData) -> Ints:
    if array.ndim != 2 or array.shape[1] != width or array.dtype.kind not in "iu":
        raise DataError(
            f"triplets: expected integers of shape (*, {width}), a query, a positive and "
            f"{width - 2} negatives; got shape {array.shape} and type {array.dtype}."
        )
    for what, part, size in (
        ("queries", array[:, :1], data.n_queries),
        ("documents", array[:, 1:], data.n_documents),
    ):
        if part.size and not 0 <= part.min() <= part.max() < size:
            raise DataError(
                f"triplets contain {what} {part.min()} to {part.max()}, and there are {size}; "
                "positions start at 0."
            )
    return np.ascontiguousarray(array, dtype=np.int64)


def _pilot(solver: SGD, problem: TrainingProblem, strength: float) -> float:
    """Train with a strength and return the resulting density."""
    problem.regularizer.set_params(strength=strength, density=0.0)
    if problem.model.form == "factors":  # which a training changes in place
        problem = dataclasses.replace(problem, model=copy.deepcopy(problem.model))
    steps = solver._steps(problem)
    while steps.steps_taken < steps.settings.max_steps:
        steps.train(
            steps.sample(
                min(steps.settings.steps_per_epoch, steps.settings.max_steps - steps.steps_taken)
            )
        )
    if isinstance(steps, FactoredSteps):
        return steps.model.density
    assert isinstance(steps, BilinearSteps)
    return steps.weights.n_nonzero / steps.model.n_weights
