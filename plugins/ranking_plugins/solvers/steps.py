"""The steps of one SGD training, whatever the model's parameters are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ranking._utils.tensors import section, under
from ranking.contracts.loss import ListwiseLoss, PairwiseLoss
from ranking.contracts.regularizer import DensityTarget
from ranking.contracts.solver import EpochResult, State, TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.errors import DivergenceError
from ranking.kernels.contract import BUILTIN_FORMS
from ranking.kernels.sampling import PositiveLists, TripletSampler
from ranking_plugins.solvers.list_steps import list_losses
from ranking_plugins.solvers.plan import lists_of, settle
from ranking_plugins.solvers.schedules import rates

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Source: TypeAlias = Ints | TripletSampler
"""Tuples, or what a kernel draws them from."""


class Steps(ABC):
    """The parameters in training, what they are trained on, and how far it has come.

    Attributes
    ----------
    plan : Plan
    done : int
        Steps taken so far, refitting included.
    refitting : bool
    apart : bool
        Whether the penalty is paid between two calls of a kernel, and not in its loop.
    """

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        self.solver, self.problem = solver, problem
        self.plan = settle(solver, problem)
        self.data = cast(MatchingData, problem.data)
        self.loss = cast(PairwiseLoss, problem.loss)
        self.lists_loss = (
            None if "pairwise" in problem.loss.interfaces else cast(ListwiseLoss, problem.loss)
        )
        self.done, self.refitting, self.apart = 0, False, False
        self._lists: tuple[MatchingData, PositiveLists] | None = None

    @property
    def total(self) -> int:
        """Steps in all, refitting included."""
        return self.plan.max_steps * (2 if self.solver.refit else 1)

    @property
    def at(self) -> int:
        """Steps since the beginning, or since the refitting began: where draws and rates are."""
        return self.done - (self.plan.max_steps if self.refitting else 0)

    @abstractmethod
    def skip(self, done: int) -> None:
        """Go on as after so many steps that led to the parameters of the model."""

    @abstractmethod
    def feed(self, data: MatchingData) -> None:
        """Go on with other data; features that are new get their parameters."""

    @abstractmethod
    def begin_refit(self) -> None:
        """Begin again from the result, without a penalty."""

    @abstractmethod
    def draw(self, count: int) -> Source:
        """Return the tuples of the coming steps."""

    @property
    def trials(self) -> int:
        """How many documents that do not match a tuple has."""
        return self.solver.n_negatives if self.lists_loss else self.loss.trials

    @abstractmethod
    def step(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each tuple; return margins and violation weights.

        For a loss of lists, margins are a row a tuple, and weights are 1.
        """

    @abstractmethod
    def follow(self) -> None:
        """Let the model have the parameters as they are now."""

    @abstractmethod
    def penalty_value(self) -> float:
        """Return the penalty of the model's parameters."""

    @abstractmethod
    def finite(self) -> bool:
        """Say whether the model's parameters are finite."""

    @abstractmethod
    def arrays(self) -> State:
        """Return the parameters in training, for `restore_arrays`."""

    @abstractmethod
    def restore_arrays(self, arrays: State) -> None:
        """Go on with parameters that `arrays` returned."""

    def lists(self) -> PositiveLists:
        """Return what can be drawn."""
        if self._lists is None or self._lists[0] is not self.data:
            self._lists = (self.data, lists_of(self.data, self.solver, self.plan.sampling))
        return self._lists[1]

    def parts(self, count: int) -> Iterator[tuple[int, int, float]]:
        """Cut the coming steps at boundaries; with each part, the rates that are due after it.

        Boundaries are counted from the beginning of an epoch. Its end is one, and so is that of
        the last, so that they do not depend on how a run is cut.
        """
        if not self.apart:
            yield 0, count, 0.0
            return
        at, stop = self.at, self.at + count
        while at < stop:
            epoch, within = divmod(at, self.plan.steps_per_epoch)
            last = within - within % self.plan.prox_interval
            boundary = epoch * self.plan.steps_per_epoch + min(
                last + self.plan.prox_interval, self.plan.steps_per_epoch
            )
            if at < self.plan.max_steps:
                boundary = min(boundary, self.plan.max_steps)
            end = min(boundary, stop)
            due = 0.0
            if end == boundary:
                first = epoch * self.plan.steps_per_epoch + last
                due = float(
                    rates(self.plan.schedule, self.plan.learning_rate, first + 1, end - first).sum()
                )
            yield at - self.at, end - self.at, due
            at = end

    def owed(self) -> float:
        """Return the rates since the last boundary, for which a penalty is not paid yet."""
        since = self.at % self.plan.steps_per_epoch % self.plan.prox_interval
        if self.at == self.plan.max_steps:
            return 0.0
        return float(
            rates(self.plan.schedule, self.plan.learning_rate, self.at - since + 1, since).sum()
        )

    def take(self, source: Source) -> float:
        """Take a step for each tuple; return the mean of their losses, each before its step."""
        constant = self.plan.refit_learning_rate if self.refitting else self.plan.learning_rate
        count = source.count if isinstance(source, TripletSampler) else source.shape[0]
        eta = rates(self.plan.schedule, constant, self.at + 1, count)
        margins, weights = self.step(source, eta)
        first = self.done
        self.done += count
        with np.errstate(over="ignore", invalid="ignore"):
            if self.lists_loss is not None:
                losses = list_losses(self.problem, margins)
                margins = margins.min(axis=1)
            else:
                losses = weights * self.loss.pairwise_value(margins)
            finite = np.isfinite(margins) & np.isfinite(losses)
            # A matrix takes what is not a number for 0: no margin would show such a slope.
            if self._may_be_wrong and (self.problem.model.form == "matrix" or not finite.all()):
                slopes = self.loss.pairwise_slope(margins)
                finite &= np.isfinite(slopes)
        if not finite.all():
            at = int(np.argmin(finite))
            slope = f": its slope is {slopes[at]:g}" if self._may_be_wrong else ""
            raise DivergenceError(
                f"the margin is {margins[at]:g} and its loss {losses[at]:g} at step "
                f"{first + 1 + at}, in epoch {(first + at) // self.plan.steps_per_epoch + 1}; lower the "
                f"solver's rate ({constant:g}), or scale the features to unit length"
                f"{self._doubt}{slope}."
            )
        return float(losses.mean()) if losses.size else 0.0

    @property
    def _may_be_wrong(self) -> bool:
        """Whether slopes come from a loss of margins that no kernel inlines."""
        return self.lists_loss is None and self.loss.form not in BUILTIN_FORMS

    @property
    def _doubt(self) -> str:
        """What else a divergence may come from."""
        return f", unless loss {self.problem.loss.name!r} is at fault" if self._may_be_wrong else ""

    def turn(self, epoch: int, loss: float) -> EpochResult:
        """Return what an epoch came to; the model follows."""
        self.follow()
        # A matrix is made to be looked at, which takes its time; vectors are there.
        looked_at = self.done >= self.total or self.problem.model.form == "factors"
        if looked_at and not self.finite():
            raise DivergenceError(
                f"some weights are infinite after step {self.done}, in epoch {epoch}; lower the "
                f"solver's rate ({self.plan.learning_rate:g}), or scale the features to unit length"
                f"{self._doubt}."
            )
        penalty = 0.0 if self.refitting else self.penalty_value()
        measures = {
            "steps": float(self.done),
            "loss": loss,
            "density": self.problem.model.density,
        }
        return EpochResult(epoch, loss + penalty, False, self.state, measures)

    def state(self) -> State:
        """Return what `restore` takes."""
        strength: Any = getattr(self.problem.regularizer, "strength", 0.0)
        return {
            "done": np.array([self.done]),
            "refitting": np.array([int(self.refitting)]),
            "strength": np.array([float(strength)]),
            "trials": np.array(self.solver.trials, dtype=np.float64).reshape(-1, 2),
            **under("weights", self.arrays()),
        }

    def restore(self, state: State) -> None:
        """Go back to where `state` was asked."""
        self.done = int(state["done"][0])
        self.refitting = bool(state["refitting"][0])
        regularizer = self.problem.regularizer
        if isinstance(regularizer, DensityTarget) and regularizer.target_density is not None:
            regularizer.set_strength(float(state["strength"][0]))
        self.restore_arrays(section(state, "weights"))


def rank_weights(loss: PairwiseLoss, n_documents: int) -> Floats:
    """Return L(rank) up to the largest rank, or one number if it is the same for all."""
    ranks = np.arange(n_documents) if loss.trials > 1 else np.array([max(n_documents - 1, 0)])
    return np.ascontiguousarray(loss.rank_weight(ranks), dtype=np.float64)
