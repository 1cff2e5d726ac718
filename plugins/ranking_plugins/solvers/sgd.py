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
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, History, Solver, Task, Turn, Verdict
from ranking.data.matching import Matching
from ranking.errors import CombinationError, DataError, PartError
from ranking_plugins.lower_rows import SEVERAL_GRADES
from ranking_plugins.solvers.bilinear_steps import BilinearSteps
from ranking_plugins.solvers.density import Trial, find_strength
from ranking_plugins.solvers.factored_steps import FactoredSteps
from ranking_plugins.solvers.linear_steps import LinearSteps
from ranking_plugins.solvers.rates import SCHEDULES
from ranking_plugins.solvers.steps import Ints, Source, Steps

MODES = ("deterministic", "hogwild")
DRAWS = ("auto", "queries", "pairs", "relevance")
NEGATIVES = ("unmatched", "others")
WEIGHTS = ("alike", "relevance")


@dataclasses.dataclass
class SGD(Solver):
    """Draws tuples and steps against the gradient of their loss (Chen et al., 2010, algorithm 1).

    A query is drawn from those that have both, a document that matches from its own, and one that
    does not from all others. Of judged rows, one is drawn that others of its query are worse than,
    and one of those. The penalty of the steps since the last boundary is due at every
    boundary.

    Parameters
    ----------
    draws : int or "auto"
        Tuples in all; 0 leaves the model as it begins. "auto" is 100,000, or for factors as many
        as ten passes over the matches.
    rate : float or "auto"
        C of the schedule; "auto" is the paper's 200, or 0.05 for factors; for judged rows 1 over
        the mean square of the difference of two that are drawn.
    schedule : {"auto", "sqrt", "fixed", "inverse", "adagrad"}
        The rate of step t: C / sqrt(t), C, or C / t. For factors also Adagrad, C over the root of
        the sum of a parameter's squared gradients, which is "auto" there, as sqrt is elsewhere.
    draw : {"auto", "queries", "pairs", "relevance"}
        Whether all queries are drawn alike, or all pairs of a query and a document that matches,
        or those as often as their relevance counts. "auto" is pairs for factors, else queries.
        For judged rows it is pairs: all rows alike that others are worse than.
    negatives : {"unmatched", "others"}
        Whether a document that matches is never drawn as one that does not, or any other than the
        positive may be, as in WSABIE and LaSR.
    weights : {"alike", "relevance"}
        Whether all matches count the same, or by their relevance; for factors.
    against : int
        How many documents that do not match a match is set against, for a loss of lists.
    every : int or "auto"
        Steps from one boundary to the next, where a penalty is due that is not paid at each step;
        "auto" is 100, or for factors a sixteenth of an epoch.
    refit : bool
        Whether to train again from the result, with the same tuples in the same order and without
        a penalty, where only weights move that are not zero.
    refit_rate : float
        C of the refitting, whose steps count from 1 again; 0 is the same as `rate`.
    batch : int or "auto"
        Tuples whose margins are taken at the same weights. 1 is plain SGD; more lets threads
        share the work, whose result then depends on the batch, but not on the threads. "auto" is
        1, or 64 for a loss that is written in Python; for factors a 192nd of an epoch, at
        most 2048, or with features a 48th, at most 16384.
    mode : {"deterministic", "hogwild"}
        Whether threads step in order, or all at once, for a result that is never twice the same.
    epoch : int or "auto"
        Draws from one turn to the next; "auto" is 10,000, or for factors a pass over the matches.
    """

    name: ClassVar[str] = "sgd"

    draws: int | str = "auto"
    rate: float | str = "auto"
    schedule: str = "auto"
    draw: str = "auto"
    negatives: str = "unmatched"
    weights: str = "alike"
    against: int = 10
    every: int | str = "auto"
    refit: bool = False
    refit_rate: float = 0.0
    batch: int | str = "auto"
    mode: str = "deterministic"
    epoch: int | str = "auto"

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name, least in (
            ("draws", 0),
            ("against", 1),
            ("every", 1),
            ("epoch", 1),
            ("batch", 1),
        ):
            value: object = getattr(self, name)
            if (value != "auto" or name == "against") and (
                not isinstance(value, numbers.Integral) or value < least
            ):
                raise PartError(
                    f"sgd has {name}={value!r}; it must be a whole number from {least}, or auto."
                )
        for name, fits in (("rate", self.rate), ("refit_rate", self.refit_rate or self.rate)):
            rate: object = 1.0 if fits == "auto" else fits
            if not isinstance(rate, numbers.Real) or not 0.0 < float(rate) < np.inf:
                raise PartError(f"sgd has {name}={rate!r}; it must be a finite number above 0.")
        schedules = ("auto", *SCHEDULES, "adagrad")
        for name, words in (
            ("schedule", schedules),
            ("draw", DRAWS),
            ("negatives", NEGATIVES),
            ("weights", WEIGHTS),
            ("mode", MODES),
        ):
            if getattr(self, name) not in words:
                raise PartError(
                    f"sgd has {name}={getattr(self, name)!r}; it must be one of {', '.join(words)}."
                )
        if not isinstance(self.refit, bool):
            raise PartError(f"sgd has refit={self.refit!r}; it must be true or false.")
        self.trials: list[Trial] = []

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Verdict:
        """Take a pair or list face, and a penalty with an operator for the parameters.

        A vector of weights is a matrix of one row.
        """
        if not {"pair", "list"} & loss.faces:
            return Verdict(False, loss.why_no("pair"))
        if loss.orders_positives and model.form == "vector":
            return Verdict(False, SEVERAL_GRADES)
        form = "matrix" if model.form == "vector" else model.form
        if form not in regularizer.inlined | regularizer.proximal:
            missing = f"the regularizer has no operator for {form} parameters"
            return Verdict(False, regularizer.lacks.get(model.form, missing))
        return YES

    def turns(self, task: Task) -> Iterator[Turn]:
        """Take the draws of an epoch, once a turn; refitting goes on with as many again."""
        steps = self._steps(task)
        self.trials = []
        if task.state is not None:
            steps.restore(task.state)
            self.trials = [Trial(*row) for row in task.state["trials"].tolist()]
        elif task.regularizer.wanted_density is not None:
            self.trials = find_strength(task, partial(_pilot, self, task))
        plan, total = steps.plan, steps.total
        epoch = -(-steps.done // plan.epoch)
        while steps.done < total or (not epoch and task.state is None):
            if self.refit and steps.done == plan.draws:
                steps.begin_refit()
            limit = plan.draws if steps.done < plan.draws else total
            loss = steps.take(steps.draw(min(plan.epoch, limit - steps.done)))
            epoch += 1
            yield steps.turn(epoch, loss)

    def _steps(self, task: Task) -> Steps:
        """Return the steps for the form of the model's parameters."""
        kinds = {"vector": LinearSteps, "matrix": BilinearSteps, "factors": FactoredSteps}
        return kinds[task.model.form](self, task)

    def stream(self, task: Task, history: History = ()) -> SgdStream:
        """Return a training that is fed part by part; draws and rates go on after the history."""
        if self.refit or task.regularizer.wanted_density is not None:
            what = "refit=true" if self.refit else "a wanted density"
            raise CombinationError(
                f"{what} needs the end of a training, and partial_fit has none; leave it out."
            )
        if task.model.form == "vector":
            raise CombinationError(
                "partial_fit takes queries and documents, and these are judged rows; give fit all "
                "of them."
            )
        steps = self._steps(task)
        epoch = 0
        if history:
            epoch = int(history[-1]["epoch"])
            steps.skip(int(history[-1].get("draws", 0)))
        return SgdStream(steps, epoch)

    def notes(self) -> dict[str, Any]:
        """Return the strengths that were tried for a wanted density."""
        if not self.trials:
            return {}
        return {"density search": [trial._asdict() for trial in self.trials]}


class SgdStream:
    """Steps that are fed part by part."""

    def __init__(self, steps: Steps, epoch: int) -> None:
        self.steps, self.epoch = steps, epoch

    def feed(self, data: Matching) -> None:
        """Go on with other data."""
        self.steps.feed(data)

    def take(self, tuples: NDArray[Any] | None, draws: int | None) -> Turn:
        """Take these tuples' steps, or those of as many that are drawn."""
        if tuples is not None and draws is not None:
            raise PartError("partial_fit takes tuples or draws, not both.")
        if tuples is None:
            count: object = self.steps.plan.draws if draws is None else draws
            if not isinstance(count, numbers.Integral) or count < 0:
                raise PartError(f"draws is {count!r}; it must be a whole number from 0.")
            chosen: Source = self.steps.draw(int(count))
        else:
            if self.steps.solver.weights != "alike":
                raise CombinationError(
                    "weights=relevance is for matches that are drawn, and these tuples are given; "
                    "leave it out, or give draws."
                )
            positives, _ = self.steps.task.loss.positives
            width = 1 + positives + self.steps.trials
            chosen = _as_tuples(tuples, width, self.steps.data)
        loss = self.steps.take(chosen)
        self.epoch += 1
        return self.steps.turn(self.epoch, loss)


def _as_tuples(given: NDArray[Any], width: int, data: Matching) -> Ints:
    if given.ndim != 2 or given.shape[1] != width or given.dtype.kind not in "iu":
        raise DataError(
            f"tuples must be whole numbers of shape (tuples, {width}): a query, a document that "
            f"matches, and {width - 2} that do not; they have shape {given.shape} and type "
            f"{given.dtype}."
        )
    for what, part, size in (
        ("queries", given[:, :1], data.n_queries),
        ("documents", given[:, 1:], data.n_documents),
    ):
        if part.size and not 0 <= part.min() <= part.max() < size:
            raise DataError(
                f"tuples name {what} at positions {part.min()} to {part.max()}, and there are "
                f"{size}; positions run from 0."
            )
    return np.ascontiguousarray(given, dtype=np.int64)


def _pilot(solver: SGD, task: Task, strength: float) -> float:
    """Train with a strength, and return the density that it gives."""
    task.regularizer.set_params(strength=strength, density=0.0)
    steps = (
        LinearSteps(solver, task) if task.model.form == "vector" else BilinearSteps(solver, task)
    )
    while steps.done < steps.plan.draws:
        steps.take(steps.draw(min(steps.plan.epoch, steps.plan.draws - steps.done)))
    return steps.weights.n_nonzero / steps.model.n_weights
