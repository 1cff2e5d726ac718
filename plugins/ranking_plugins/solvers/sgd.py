"""Stochastic gradient descent on tuples: a query, a document that matches, one that does not."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Loss, PairLoss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import YES, History, Solver, State, Task, Turn, Verdict
from ranking.data.matching import Matching
from ranking.data.tuples import match_lists
from ranking.errors import CombinationError, DataError, DivergenceError, PartError
from ranking.kernels.bilinear import BilinearWeights, MatchLists
from ranking.kernels.contract import Clock
from ranking.models.bilinear import Bilinear
from ranking.run import section, under
from ranking_plugins.solvers.density import Trial, find_strength
from ranking_plugins.solvers.penalty import Penalty
from ranking_plugins.solvers.rates import SCHEDULES, rates

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MODES = ("deterministic", "hogwild")
PYTHON_BATCH = 64
"""The batch of a loss that is asked in Python: large enough that the asking does not count."""


@dataclasses.dataclass
class SGD(Solver):
    """Draws tuples and steps against the gradient of their loss (Chen et al., 2010, algorithm 1).

    A query is drawn from those that have both, a document that matches from its own, and one that
    does not from all others. The penalty of the steps since the last boundary is due at every
    boundary.

    Parameters
    ----------
    draws : int
        Tuples in all; 0 leaves the model as it begins.
    rate : float
        C of the schedule.
    schedule : {"sqrt", "fixed", "inverse"}
        The rate of step t: C / sqrt(t), C, or C / t.
    every : int
        Steps from one boundary to the next.
    refit : bool
        Whether to train again from the result, with the same tuples in the same order and without
        a penalty, where only weights move that are not zero.
    refit_rate : float
        C of the refitting, whose steps count from 1 again; 0 is the same as `rate`.
    batch : int or "auto"
        Tuples whose margins are taken at the same weights. 1 is plain SGD; more lets threads
        share the work, whose result then depends on the batch, but not on the threads. "auto" is
        1, or 64 for a loss that is written in Python.
    mode : {"deterministic", "hogwild"}
        Whether threads step in order, or all at once, for a result that is never twice the same.
    epoch : int
        Draws from one turn to the next.
    """

    name: ClassVar[str] = "sgd"

    draws: int = 100_000
    rate: float = 200.0
    schedule: str = "sqrt"
    every: int = 100
    refit: bool = False
    refit_rate: float = 0.0
    batch: int | str = "auto"
    mode: str = "deterministic"
    epoch: int = 10_000

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name, least in (("draws", 0), ("every", 1), ("epoch", 1)):
            value: object = getattr(self, name)
            if not isinstance(value, numbers.Integral) or value < least:
                raise PartError(
                    f"sgd has {name}={value!r}; it must be a whole number from {least}."
                )
        batch: object = self.batch
        if batch != "auto" and (not isinstance(batch, numbers.Integral) or batch < 1):
            raise PartError(f"sgd has batch={batch!r}; it must be 1 or more, or auto.")
        for name, fits in (("rate", self.rate), ("refit_rate", self.refit_rate or self.rate)):
            rate: object = fits
            if not isinstance(rate, numbers.Real) or not 0.0 < float(rate) < np.inf:
                raise PartError(f"sgd has {name}={rate!r}; it must be a finite number above 0.")
        for name, words in (("schedule", tuple(SCHEDULES)), ("mode", MODES)):
            if getattr(self, name) not in words:
                raise PartError(
                    f"sgd has {name}={getattr(self, name)!r}; it must be one of {', '.join(words)}."
                )
        if not isinstance(self.refit, bool):
            raise PartError(f"sgd has refit={self.refit!r}; it must be true or false.")
        self._trials: list[Trial] = []

    @classmethod
    def accepts(
        cls, model: type[Model], loss: type[Loss], regularizer: type[Regularizer]
    ) -> Verdict:
        """Take a matrix of weights, a pair face and a penalty that kernels inline."""
        if model.form != "matrix":
            return Verdict(
                False,
                f"sgd draws queries and documents, and model {model.name!r} has "
                f"{model.form} parameters",
                "model bilinear or diagonal",
            )
        if "pair" not in loss.faces:
            return Verdict(
                False,
                f"loss {loss.name!r} is no function of a margin (no pair face)",
                "loss hinge or warp",
            )
        if not Penalty.inlined(regularizer):
            return Verdict(
                False,
                f"regularizer {regularizer.name!r} has no form that kernels apply to a matrix "
                "while it is trained",
                "regularizer l1, l2 or group-l1",
            )
        return YES

    def turns(self, task: Task) -> Iterator[Turn]:
        """Take the draws of an epoch, once a turn; refitting goes on with as many again."""
        steps = Steps(self, task)
        self._trials = []
        if task.state is not None:
            steps.restore(task.state)
            self._trials = [Trial(*row) for row in task.state["trials"].tolist()]
        elif task.regularizer.wanted_density is not None:
            self._trials = find_strength(task, partial(_pilot, self, task))
        total = self.draws * (2 if self.refit else 1)
        epoch = -(-steps.done // self.epoch)
        while steps.done < total or (not epoch and task.state is None):
            if self.refit and steps.done == self.draws:
                steps.begin_refit()
            limit = self.draws if steps.done < self.draws else total
            count = min(self.epoch, limit - steps.done)
            loss = steps.take(steps.tuples(count))
            epoch += 1
            yield steps.turn(epoch, loss)

    def stream(self, task: Task, history: History = ()) -> SgdStream:
        """Return a training that is fed part by part; draws and rates go on after the history."""
        if self.refit or task.regularizer.wanted_density is not None:
            what = "refit=true" if self.refit else "a wanted density"
            raise CombinationError(
                f"{what} needs the end of a training, and partial_fit has none; leave it out."
            )
        steps = Steps(self, task)
        epoch = 0
        if history:
            epoch = int(history[-1]["epoch"])
            steps.skip(int(history[-1].get("draws", 0)))
        return SgdStream(steps, epoch)

    def notes(self) -> dict[str, Any]:
        """Return the strengths that were tried for a wanted density."""
        if not self._trials:
            return {}
        return {"density search": [trial._asdict() for trial in self._trials]}


class Steps:
    """The steps of one training: the weights, what they are trained on, and how far it has come.

    Attributes
    ----------
    done : int
        Steps taken so far, refitting included.
    refitting : bool
    """

    def __init__(self, solver: SGD, task: Task) -> None:
        self.solver, self.task = solver, task
        self.model = cast(Bilinear, task.model)
        self.data = cast(Matching, task.data)
        self.loss = cast(PairLoss, task.loss)
        self.done, self.refitting = 0, False
        self._lists: tuple[Matching, MatchLists] | None = None
        self.objects = self.model.objects(self.data)
        self.penalty = Penalty(task.regularizer, self.model)
        self.weights = self.penalty.begin(task.kernel, self.model)
        self.rank_weights = _rank_weights(self.loss, self.data.n_documents)

    def skip(self, done: int) -> None:
        """Go on as after so many steps that led to the weights of the model."""
        self.done = done
        self.weights.clock[Clock.STEP] = done
        since = done % self.solver.every
        due = rates(self.solver.schedule, self.solver.rate, done - since + 1, since)
        self.weights.clock[Clock.RATES] = due.sum()

    def feed(self, data: Matching) -> None:
        """Go on with other data; features that are new get their rows and columns."""
        if self.penalty.group is not None and not self.model.knows(data):
            raise CombinationError(
                f"regularizer {self.task.regularizer.name!r} weighs groups by their size, so "
                "no feature can be new; use l1 or l2."
            )
        self.model.follow(self.weights, self.penalty.transposed)
        shape = self.model.weights.shape
        self.model.widen(data)
        if self.model.weights.shape != shape:
            self.weights = self.weights.grown(self.model.weights)
        self.data, self.objects = data, self.model.objects(data)
        self.rank_weights = _rank_weights(self.loss, data.n_documents)

    @property
    def at(self) -> int:
        """Steps since the beginning, or since the refitting began: where draws and rates are."""
        return self.done - (self.solver.draws if self.refitting else 0)

    def begin_refit(self) -> None:
        """Begin again from the result, without a penalty, where nothing new comes into being."""
        self.model.follow(self.weights, self.penalty.transposed)
        weights = self.model.weights
        self.refitting = True
        self.penalty = Penalty(None, self.model)
        self.weights = BilinearWeights(self.task.kernel, weights)

    def tuples(self, count: int) -> Ints:
        """Return the tuples of the coming steps."""
        if not count:
            return np.zeros((0, 2 + self.loss.trials), np.int64)
        if self._lists is None or self._lists[0] is not self.data:
            self._lists = (self.data, match_lists(self.data))
        return self.task.kernel.draw_tuples(
            self._lists[1], self.task.seed, self.at, count, self.loss.trials
        )

    def take(self, tuples: Ints) -> float:
        """Take a step for each tuple; return the mean of their losses, each before its step."""
        solver, penalty = self.solver, self.penalty
        constant = solver.refit_rate if self.refitting and solver.refit_rate else solver.rate
        eta = rates(solver.schedule, constant, self.at + 1, tuples.shape[0])
        common: dict[str, Any] = {
            "every": solver.every,
            **penalty.strengths(),
            "grow": self.model.grows and not self.refitting,
            "transposed": penalty.transposed,
            "threads": self.task.threads,
        }
        batch = solver.batch
        if self.loss.form is not None:
            margins, weights = self.weights.steps(
                self.objects,
                tuples,
                eta,
                form=self.loss.form,
                rank_weights=self.rank_weights,
                batch=1 if batch == "auto" else int(batch),
                hogwild=solver.mode == "hogwild",
                **common,
            )
        else:
            size = PYTHON_BATCH if batch == "auto" else int(batch)
            margins, weights = self._take_in_python(tuples, eta, size, common)
        first = self.done
        self.done += tuples.shape[0]
        with np.errstate(over="ignore", invalid="ignore"):
            losses = weights * self.loss.pair_value(margins)
        finite = np.isfinite(margins) & np.isfinite(losses)
        if not finite.all():
            at = int(np.argmin(finite))
            raise DivergenceError(
                f"the margin is {margins[at]:g} and its loss {losses[at]:g} at step "
                f"{first + 1 + at}; lower the solver's rate ({constant:g}), or scale the "
                "features to unit length."
            )
        return float(losses.mean()) if losses.size else 0.0

    def _take_in_python(
        self, tuples: Ints, eta: Floats, size: int, common: dict[str, Any]
    ) -> tuple[Floats, Floats]:
        """Step with slopes that Python computes, by batches."""
        options = {"transposed": common["transposed"], "threads": common["threads"]}
        margins, weights = np.empty(tuples.shape[0]), np.empty(tuples.shape[0])
        for start in range(0, tuples.shape[0], size):
            part = slice(start, start + size)
            margins[part], weights[part], negatives = self.weights.violations(
                self.objects, tuples[part], rank_weights=self.rank_weights, **options
            )
            chosen = np.column_stack((tuples[part, :2], negatives))
            slopes = weights[part] * self.loss.pair_slope(margins[part])
            self.weights.update(self.objects, chosen, slopes, eta[part], **common)
        return margins, weights

    def turn(self, epoch: int, loss: float) -> Turn:
        """Return what an epoch came to; the model follows."""
        self.model.follow(self.weights, self.penalty.transposed)
        last = self.done >= self.solver.draws * (2 if self.solver.refit else 1)
        if last and not np.isfinite(self.model.weights.data).all():
            raise DivergenceError(
                f"some weights are infinite after step {self.done}; lower the solver's rate "
                f"({self.solver.rate:g}), or scale the features to unit length."
            )
        regularizer = self.task.regularizer
        penalty = 0.0 if self.refitting else self.penalty.value(regularizer, self.model)
        return Turn(
            epoch,
            loss + penalty,
            False,
            self.state,
            {"draws": float(self.done), "loss": loss, "density": self.model.density},
        )

    def state(self) -> State:
        """Return what `restore` takes."""
        return {
            "done": np.array([self.done]),
            "refitting": np.array([int(self.refitting)]),
            "strength": np.array([float(getattr(self.task.regularizer, "strength", 0.0))]),
            "trials": np.array(self.solver._trials, dtype=np.float64).reshape(-1, 2),
            **under("weights", self.weights.state()),
        }

    def restore(self, state: State) -> None:
        """Go back to where `state` was asked."""
        self.done = int(state["done"][0])
        self.refitting = bool(state["refitting"][0])
        if self.task.regularizer.wanted_density is not None:
            self.task.regularizer.settle(float(state["strength"][0]))
        self.penalty = Penalty(None if self.refitting else self.task.regularizer, self.model)
        rows, columns = self.objects.n_query_features, self.objects.n_document_features
        width = rows if self.penalty.transposed else columns
        kept = section(state, "weights")
        self.weights = BilinearWeights.restore(self.task.kernel, width, kept)


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
            count: object = self.steps.solver.draws if draws is None else draws
            if not isinstance(count, numbers.Integral) or count < 0:
                raise PartError(f"draws is {count!r}; it must be a whole number from 0.")
            chosen = self.steps.tuples(int(count))
        else:
            chosen = _as_tuples(tuples, 2 + self.steps.loss.trials, self.steps.data)
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


def _rank_weights(loss: PairLoss, n_documents: int) -> Floats:
    """Return L(rank) up to the largest rank, or one number if it is the same for all."""
    ranks = np.arange(n_documents) if loss.trials > 1 else np.array([max(n_documents - 1, 0)])
    return np.ascontiguousarray(loss.rank_weight(ranks), dtype=np.float64)


def _pilot(solver: SGD, task: Task, strength: float) -> float:
    """Train with a strength, and return the density that it gives."""
    task.regularizer.set_params(strength=strength, density=0.0)
    steps = Steps(solver, task)
    while steps.done < solver.draws:
        steps.take(steps.tuples(min(solver.epoch, solver.draws - steps.done)))
    return steps.weights.n_nonzero / steps.model.n_weights
