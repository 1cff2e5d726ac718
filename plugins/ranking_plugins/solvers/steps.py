"""The steps of SGD, independent of the form of the parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

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
from ranking_plugins.losses.sampled_ranks import rank_losses
from ranking_plugins.losses.whole_lists import SupportsWholeLists
from ranking_plugins.solvers.listwise_steps import check_shift_invariance
from ranking_plugins.solvers.schedules import learning_rates
from ranking_plugins.solvers.settings import MIN_EVALUATED, resolve_settings, sampling_lists

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Source: TypeAlias = Ints | TripletSampler
"""Triplets, or the sampler from which a kernel samples them."""

EVALUATION_SEED = 0x6A09E667F3BCC908
"""Added to the seed for the triplets at which the loss is reported."""


class Steps(ABC):
    """The parameters in training, the data, and the number of steps taken.

    Attributes
    ----------
    settings : SgdSettings
    steps_taken : int
        Including the steps of the refit.
    refitting : bool
    prox_between_calls : bool
        Whether the penalty is applied between calls of the kernel, not in its loop.
    """

    shift_invariant: ClassVar[bool] = True
    """Whether a listwise loss must not depend on the level of the scores."""

    def __init__(self, solver: SGD, problem: TrainingProblem) -> None:
        self.solver, self.problem = solver, problem
        self.settings = resolve_settings(solver, problem)
        self.data = cast(MatchingData, problem.data)
        self.loss = cast(PairwiseLoss, problem.loss)
        self.listwise = (
            None if "pairwise" in problem.loss.interfaces else cast(ListwiseLoss, problem.loss)
        )
        whole = problem.model.form == "vector" and isinstance(problem.loss, SupportsWholeLists)
        if self.listwise is not None and not whole and self.shift_invariant:
            check_shift_invariance(problem.loss, self.settings.n_negatives)
        self.steps_taken, self.refitting, self.prox_between_calls = 0, False, False
        self._lists: tuple[MatchingData, PositiveLists] | None = None

    @property
    def total_steps(self) -> int:
        """The total number of steps, including those of the refit."""
        return self.settings.max_steps * (2 if self.solver.refit else 1)

    @property
    def position(self) -> int:
        """The number of steps since the start, or since the start of the refit."""
        return self.steps_taken - (self.settings.max_steps if self.refitting else 0)

    @abstractmethod
    def resume_after(self, done: int) -> None:
        """Continue as if the parameters of the model were the result of `done` steps."""

    @abstractmethod
    def set_data(self, data: MatchingData) -> None:
        """Continue with other data; add parameters for new features."""

    @abstractmethod
    def begin_refit(self) -> None:
        """Restart from the result, without a penalty."""

    @abstractmethod
    def sample(self, count: int) -> Source:
        """Return the triplets of the next steps."""

    @abstractmethod
    def evaluation_sample(self, count: int) -> Source:
        """Return the triplets at which the loss is reported, the same in every epoch."""

    @abstractmethod
    def margins(self, source: Source) -> tuple[Floats, Floats]:
        """Return margins and violation weights at the current parameters, which stay.

        For a listwise loss, return the loss of each list, and 1.
        """

    @property
    def n_negatives(self) -> int:
        """The number of negatives of a triplet."""
        return self.settings.n_negatives if self.listwise else self.loss.trials

    @abstractmethod
    def _take_steps(self, source: Source, eta: Floats) -> tuple[Floats, Floats]:
        """Take a step for each triplet; return margins and violation weights.

        For a listwise loss, return the loss of each list, and 1.
        """

    @abstractmethod
    def update_model(self) -> None:
        """Copy the current parameters to the model."""

    def apply_pending_penalty(self) -> None:  # noqa: B027 - not all steps have a pending penalty
        """Apply the penalty of the steps since the last boundary to the model."""

    @abstractmethod
    def penalty_value(self) -> float:
        """Return the penalty of the parameters of the model."""

    @abstractmethod
    def finite(self) -> bool:
        """Return whether the parameters of the model are finite."""

    @abstractmethod
    def arrays(self) -> State:
        """Return the parameters in training, for `restore_arrays`."""

    @abstractmethod
    def restore_arrays(self, arrays: State) -> None:
        """Restore what `arrays` returned."""

    def positive_lists(self) -> PositiveLists:
        """Return the positives to sample from."""
        if self._lists is None or self._lists[0] is not self.data:
            self._lists = (
                self.data,
                sampling_lists(self.data, self.solver, self.settings.sampling),
            )
        return self._lists[1]

    def segments(self, count: int) -> Iterator[tuple[int, int, float]]:
        """Split the next steps at the boundaries where the penalty is applied.

        Yields start, stop, and the sum of the learning rates since the previous boundary (0 if stop
        is not a boundary). Boundaries are counted from the start of an epoch, and every epoch ends
        with one, so that they do not depend on where a run is interrupted.
        """
        if not self.prox_between_calls:
            yield 0, count, 0.0
            return
        at, stop = self.position, self.position + count
        while at < stop:
            epoch, within = divmod(at, self.settings.steps_per_epoch)
            last = within - within % self.settings.prox_interval
            boundary = epoch * self.settings.steps_per_epoch + min(
                last + self.settings.prox_interval, self.settings.steps_per_epoch
            )
            if at < self.settings.max_steps:
                boundary = min(boundary, self.settings.max_steps)
            end = min(boundary, stop)
            due = 0.0
            if end == boundary:
                first = epoch * self.settings.steps_per_epoch + last
                due = float(
                    learning_rates(
                        self.settings.schedule, self.settings.learning_rate, first + 1, end - first
                    ).sum()
                )
            yield at - self.position, end - self.position, due
            at = end

    def pending_rate(self) -> float:
        """Return the sum of the learning rates since the last boundary."""
        since = self.position % self.settings.steps_per_epoch % self.settings.prox_interval
        if self.position == self.settings.max_steps:
            return 0.0
        return float(
            learning_rates(
                self.settings.schedule,
                self.settings.learning_rate,
                self.position - since + 1,
                since,
            ).sum()
        )

    def train(self, source: Source) -> None:
        """Take a step for each triplet."""
        constant = (
            self.settings.refit_learning_rate if self.refitting else self.settings.learning_rate
        )
        count = source.count if isinstance(source, TripletSampler) else source.shape[0]
        eta = learning_rates(self.settings.schedule, constant, self.position + 1, count)
        margins, weights = self._take_steps(source, eta)
        first = self.steps_taken
        self.steps_taken += count
        with np.errstate(over="ignore", invalid="ignore"):
            losses = self._losses(margins, weights)
            finite = np.isfinite(margins) & np.isfinite(losses)
            # A matrix replaces NaN by 0, so such a slope does not show in the margins.
            if self._is_custom and (self.problem.model.form == "matrix" or not finite.all()):
                slopes = self.loss.pairwise_slope(margins)
                finite &= np.isfinite(slopes)
        if not finite.all():
            at = int(np.argmin(finite))
            slope = f": its slope is {slopes[at]:g}" if self._is_custom else ""
            epoch = (first + at) // self.settings.steps_per_epoch + 1
            values_at_step = f"the margin is {margins[at]:g} and its loss {losses[at]:g}"
            if self.listwise:
                values_at_step = f"the loss of a list is {losses[at]:g}, or a slope is not finite,"
            raise DivergenceError(
                f"{values_at_step} at step "
                f"{first + 1 + at}, in epoch {epoch}; use a smaller learning_rate "
                f"({constant:g}), or scale the features to unit length"
                f"{self._hint}{slope}."
            )

    def _losses(self, margins: Floats, weights: Floats) -> Floats:
        """Return the loss of each triplet; those of lists are given."""
        if self.listwise is not None:
            return margins
        losses: Floats = weights * self.loss.pairwise_value(margins.astype(np.float64, copy=False))
        return losses

    def mean_loss(self, source: Source) -> float:
        """Return the mean loss of triplets at the current parameters."""
        losses = self.losses(source)
        return float(losses.mean()) if losses.size else 0.0

    def losses(self, source: Source) -> Floats:
        """Return the loss of each triplet at the current parameters, as it is reported."""
        with np.errstate(over="ignore", invalid="ignore"):
            if not self.searches:
                return self._losses(*self.margins(source))
            triplets = self.with_one_positive(source)
            margins = self.all_margins(triplets)
            losses = rank_losses(self.loss, margins, self.n_ranked(triplets))
            if self.solver.weighting == "relevance":
                pairs = self.data.relevance[triplets[:, 0], triplets[:, 1]]
                losses *= np.asarray(pairs).ravel()
            return losses

    @property
    def searches(self) -> bool:
        """Whether steps sample negatives until one violates the margin."""
        return self.listwise is None and self.loss.trials > 1

    @abstractmethod
    def with_one_positive(self, source: Source) -> Ints:
        """Return triplets of query, positive and all negatives; of several positives, one."""

    @abstractmethod
    def all_margins(self, triplets: Ints) -> Floats:
        """Return the margins to the negatives of each triplet at the current parameters."""

    def n_ranked(self, triplets: Ints) -> int | Ints:
        """Return the number of negatives of each positive."""
        return self.data.n_documents - 1

    @property
    def evaluation_count(self) -> int:
        """The number of triplets, or lists, at which the loss is reported."""
        count = self.settings.evaluation_count
        if self.searches:
            return max(count // self.n_negatives, min(count, MIN_EVALUATED))
        return max(count // self.n_negatives, 1) if self.listwise else count

    @property
    def _is_custom(self) -> bool:
        """Whether the slopes come from a pairwise loss that is not built into the kernels."""
        return self.listwise is None and self.loss.form not in BUILTIN_FORMS

    @property
    def _hint(self) -> str:
        """Another possible reason for a divergence, for messages."""
        custom = self._is_custom or (self.listwise and self.problem.loss.native is not None)
        return f", unless loss {self.problem.loss.name!r} is wrong" if custom else ""

    def epoch_result(self, epoch: int, evaluated: Source) -> EpochResult:
        """Update the model and return the result of an epoch.

        Parameters
        ----------
        evaluated : array or TripletSampler
            The triplets whose mean loss is reported, at the parameters after the epoch.
        """
        self.update_model()
        # Embeddings are checked after every epoch; a matrix, which has to be copied, at the end.
        checked = self.steps_taken >= self.total_steps or self.problem.model.form == "factors"
        if checked:
            self.problem.model.synchronize()
        if checked and not self.finite():
            raise DivergenceError(
                f"some weights are infinite after step {self.steps_taken}, in epoch {epoch}; use a "
                f"smaller learning_rate ({self.settings.learning_rate:g}), or scale the features "
                "to unit length"
                f"{self._hint}."
            )
        loss, penalty = self.mean_loss(evaluated), 0.0
        if not self.refitting:
            self.apply_pending_penalty()
            penalty = self.penalty_value()
        measures = {
            "steps": float(self.steps_taken),
            "loss": loss,
            "density": self.problem.model.density,
        }
        return EpochResult(epoch, loss + penalty, False, self.state, measures)

    def state(self) -> State:
        """Return the state for `restore`."""
        strength: Any = getattr(self.problem.regularizer, "strength", 0.0)
        return {
            "done": np.array([self.steps_taken]),
            "refitting": np.array([int(self.refitting)]),
            "strength": np.array([float(strength)]),
            "trials": np.array(self.solver.density_trials, dtype=np.float64).reshape(-1, 2),
            **under("weights", self.arrays()),
        }

    def restore(self, state: State) -> None:
        """Restore what `state` returned."""
        self.steps_taken = int(state["done"][0])
        self.refitting = bool(state["refitting"][0])
        regularizer = self.problem.regularizer
        if isinstance(regularizer, DensityTarget) and regularizer.target_density is not None:
            regularizer.set_strength(float(state["strength"][0]))
        self.restore_arrays(section(state, "weights"))


def rank_weights(loss: PairwiseLoss, n_documents: int) -> Floats:
    """Return L(rank) up to the largest rank, or one number if it is constant."""
    ranks = np.arange(n_documents) if loss.trials > 1 else np.array([max(n_documents - 1, 0)])
    return np.ascontiguousarray(loss.rank_weight(ranks), dtype=np.float64)


def evaluation_seed(problem: TrainingProblem) -> int:
    """Return the seed of the triplets at which the loss is reported."""
    return (problem.seed + EVALUATION_SEED) % 2**64
