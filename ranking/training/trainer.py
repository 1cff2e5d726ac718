"""`Trainer`: one training, from the first epoch to the last, with callbacks between epochs."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np

from ranking._utils.tensors import History, Tensors, pack_history, section, under, unpack_history
from ranking.contracts.callback import Callback, Snapshot
from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.metric import Metric
from ranking.contracts.model import Model
from ranking.contracts.part import Part
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import (
    Compatibility,
    EpochResult,
    Solver,
    TrainingProblem,
)
from ranking.data.exclusions import Pairs, find_exclusions
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import (
    CombinationError,
    ConvergenceWarning,
    DataError,
    DivergenceError,
    ModelFileError,
    PartError,
    RankingError,
    TrainingWarning,
)
from ranking.io.result import TrainingResult
from ranking.io.schema import PARTS
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluation import Values, evaluate_model
from ranking.registry.compatibility import refuse_misfit
from ranking.registry.guard import ours, refuse, watched
from ranking.registry.manager import default_engine, get_registry
from ranking.registry.origin import described
from ranking.training.description import describe
from ranking.training.signals import DeferredInterrupts

__all__ = ["History", "Snapshot", "Trainer", "TrainingResult"]


ROUNDING = 1e-9
"""The share by which a loss may be above that of zero scores through rounding alone."""

NEGLIGIBLE = 1e-5
"""An objective that has fallen to this share of the first one counts as 0, and as converged: on
data that are separated without error it falls for ever."""


AnyPart = TypeVar("AnyPart", bound=Part)


@dataclasses.dataclass
class Trainer:
    """Train a model on data, epoch by epoch.

    Attributes
    ----------
    valid : JudgedLists, MatchingData or None
        Validation data, for callbacks.
    exclude_seen : bool
        Whether positives of the training data are left out of the lists that are validated.
    history : list of dict
        One row per epoch; see `ranking._utils.tensors.History`.
    stopped : str
        Why training ended: "converged", "max_epochs", "interrupted", or a callback's name.
    is_trial : bool
        Whether this is one training of a search, whose best model is taken: only that is warned of.
    """

    model: Model
    loss: Loss
    regularizer: Regularizer
    solver: Solver
    data: JudgedLists | MatchingData
    kernel: Kernel
    threads: int = 1
    seed: int = 0
    valid: JudgedLists | MatchingData | None = None
    exclude_seen: bool = False
    callbacks: Sequence[Callback] = ()
    engine: Engine = dataclasses.field(default_factory=default_engine)
    history: History = dataclasses.field(default_factory=list)
    stopped: str = ""
    is_trial: bool = False
    _stopping: str = ""
    _epoch_result: EpochResult | None = None
    _resumed_state: Tensors | None = None
    _epochs_before: int = 0
    _exclusions: Pairs | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not work together, with the reason and what would work."""
        kinds = type(self.model), type(self.loss), type(self.regularizer)
        compatibility: Any = self.solver.accepts(*kinds)
        if not isinstance(compatibility, Compatibility):
            part = described("solver", self.solver)
            refuse(part, "accepts", f"answered {type(compatibility).__name__}, not a Compatibility")
        refuse_misfit(self.model, self.loss, self.regularizer, self.solver)
        if not (self.engine.here or self.solver.spreads(type(self.loss))):
            raise CombinationError(
                f"engine {self.engine.name!r} has nothing to do: solver {self.solver.name!r} with "
                f"loss {self.loss.name!r} trains in one process. Leave the engine out; those that "
                f"use it are {_distributed_cells()}."
            )
        problem = self.problem()
        self.loss = _with_auto_values(self.loss, problem)
        self.regularizer = _with_auto_values(self.regularizer, problem)
        names = [callback.name for callback in self.callbacks]
        if len(set(names)) < len(names):
            raise PartError(f"two callbacks have the same name: {', '.join(names)}; keep one.")
        if self.threads > 1 and self.kernel.describe()["threads"] == "none":
            warnings.warn(
                f"kernel {self.kernel.name!r} was built without threads and runs on one; "
                "install the Rust kernel, or rebuild with OpenMP.",
                stacklevel=4,
            )

    def train(self, resume: Snapshot | None = None) -> None:
        """Train until the solver has converged, a callback stops it, or Ctrl-C.

        Ctrl-C ends training after the current epoch: `KeyboardInterrupt` is raised, and the model
        holds the last complete epoch. A second Ctrl-C stops at once, and nothing is kept.
        """
        with self.watched():
            self._train(resume)

    def watched(self) -> AbstractContextManager[None]:
        """Check what third-party parts return; see `ranking.registry.guard`."""
        callbacks = [("callback", callback) for callback in self.callbacks]
        return watched([("loss", self.loss), ("regularizer", self.regularizer), *callbacks])

    def _train(self, resume: Snapshot | None) -> None:
        for callback in self.callbacks:
            callback.on_fit_begin(self)
        state = None if resume is None else self._restore(resume)
        if self.stopped:
            state = None  # it belongs to a stage that has ended: the next one starts from scratch
        with DeferredInterrupts() as interrupts:
            while not self.stopped or self._next_stage():
                try:
                    if state is None:
                        self._cross_fit()
                    self._run_epochs(self.problem(state), interrupts)
                except KeyboardInterrupt:
                    # One that was not deferred came within an epoch: nothing of it is kept.
                    self.stopped = "" if interrupts.count > 1 else "interrupted"
                    raise
                finally:
                    self.model.synchronize()
                    for callback in self.callbacks:
                        callback.on_fit_end(self)
                state = None
        if not self.is_trial:
            self.warn_of_result()

    def warn_of_result(self) -> None:
        """Warn of a model that cannot be of use, and why."""
        self._warn_if_removed()
        self._warn_if_useless()

    def _warn_if_removed(self) -> None:
        """Warn if the penalty has set all weights, or all embeddings, to 0."""
        took_steps = bool(self.history) and self.history[-1].get("steps", 1) > 0
        if self.regularizer.name == "none" or not took_steps:
            return
        if getattr(self.model, "has_embeddings", self.model.density > 0.0):
            return
        what = "embeddings" if self.model.form == "factors" else "weights"
        warnings.warn(
            f"{self.regularizer.spec()} sets all {what} to 0; reduce its strength.",
            TrainingWarning,
            stacklevel=5,
        )

    def _warn_if_useless(self) -> None:
        """Warn if the loss on judged lists is above that of a model whose scores are all 0."""
        loss: Any = self.loss
        if not isinstance(self.data, JudgedLists) or "pairwise" not in loss.interfaces:
            return
        ranks = np.array([1, 10])
        if not self.history or np.ptp(loss.rank_weight(ranks)) > 0:
            return
        zero = float(loss.pairwise_value(np.zeros(1))[0])
        row: dict[str, Any] = self.history[-1]
        last = float(row.get("loss", row.get("objective", math.nan)))
        if math.isfinite(zero) and last > zero * (1.0 + ROUNDING):
            warnings.warn(
                f"the loss is {last:.4g}, above {zero:.4g}, that of a model whose scores are all "
                "0: the model is of no use. Scale the features (StandardScaler), train for more "
                "epochs, or use a smaller learning_rate or strength.",
                TrainingWarning,
                stacklevel=5,
            )

    def problem(self, state: Tensors | None = None) -> TrainingProblem:
        """Return what the solver is given."""
        return TrainingProblem(
            self.model,
            self.loss,
            self.regularizer,
            self.data,
            self.kernel,
            self.threads,
            self.seed,
            state,
            self.engine,
        )

    def _next_stage(self) -> bool:
        """Begin the next stage, if the model has one; see `ranking.training.stages`."""
        return False

    def _cross_fit(self) -> None:
        """Train the models that a stage needs before it begins."""

    def _run_epochs(self, problem: TrainingProblem, interrupts: DeferredInterrupts) -> None:
        if self._stopping:  # the process was killed after the last epoch, before it could end
            self.stopped = self._stopping
            return
        result: Any
        for result in self._epochs(problem):
            if not isinstance(result, EpochResult):
                part = described("solver", self.solver)
                refuse(part, "run_epochs", f"yielded {type(result).__name__}, not an EpochResult")
            # Epochs are counted through all stages.
            epoch = dataclasses.replace(result, epoch=result.epoch + self._epochs_before)
            self.record(epoch)
            self._stopping = "converged" if epoch.converged else ""
            for callback in self.callbacks:
                # The first reason counts, and a checkpoint that comes later knows it.
                if callback.on_epoch_end(self, epoch):
                    self._stopping = self._stopping or callback.name
            if self._stopping:
                self.stopped = self._stopping
                return
            interrupts.release()
        self.stopped = "max_epochs"
        if self.solver.expects_convergence:
            self._warn_of_last_epoch()

    def _warn_of_last_epoch(self) -> None:
        """Warn that training has not converged."""
        objectives = [row["objective"] for row in self.history[-2:]]
        if abs(objectives[-1]) <= NEGLIGIBLE * abs(self.history[0]["objective"]):
            return
        fell = (
            f" by {objectives[0] - objectives[1]:.3g} to {objectives[1]:.6g}"
            if len(objectives) > 1
            else f" to {objectives[0]:.6g}"
        )
        warnings.warn(
            f"training stopped after {self.history[-1]['epoch']} epochs before it converged: the "
            f"last epoch decreased the objective{fell}. Raise max_epochs or tolerance of solver "
            f"{self.solver.name!r}, scale the features, or set tolerance=0 for a fixed number of "
            "epochs.",
            ConvergenceWarning,
            stacklevel=2,
        )

    def _epochs(self, problem: TrainingProblem) -> Iterator[Any]:
        """Yield the epochs; a resumed solver that cannot begin has a damaged state."""
        epochs = iter(self.solver.run_epochs(problem))
        if problem.state is not None:
            try:
                first = next(epochs, None)
            except RankingError:
                raise
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise ModelFileError(
                    f"the checkpoint has no usable state of the solver ({type(error).__name__}: "
                    f"{error}); delete it and train from the start."
                ) from error
            if first is None:
                return
            yield first
        yield from epochs

    def validate(self, metrics: Sequence[Metric]) -> Values:
        """Evaluate the model on the validation data."""
        assert self.valid is not None
        if self._exclusions is None and self.exclude_seen:
            if isinstance(self.data, JudgedLists) or isinstance(self.valid, JudgedLists):
                raise DataError(
                    "exclude_seen is for queries and documents, and these are judged rows; leave "
                    "it out."
                )
            self._exclusions = find_exclusions(self.valid, self.data, but_relevant=True)
        return evaluate_model(
            self.model, metrics, self.valid, self.kernel, self.threads, self._exclusions
        )

    def record(self, result: EpochResult) -> None:
        """Append an epoch to the history; raise `DivergenceError` unless it is finite."""
        self._epoch_result = result
        self.history.append(
            {"epoch": result.epoch, "objective": result.objective, **result.measures}
        )
        if not math.isfinite(result.objective):
            raise DivergenceError(
                f"training diverged at epoch {result.epoch}: the objective is {result.objective}; "
                f"the largest absolute feature is {_largest_feature(self.data):.3g}: scale the "
                "features, try a smaller learning_rate, or a larger strength of the regularizer."
                f"{self._third_party_parts()}"
            )

    def _third_party_parts(self) -> str:
        """Name third-party parts, which may have caused what went wrong."""
        parts = (("loss", self.loss), ("regularizer", self.regularizer), ("solver", self.solver))
        names = [described(kind, part) for kind, part in parts if not ours(part)]
        return f" The cause may also be {' or '.join(names)}." if names else ""

    def resolved_parts(self) -> dict[str, Part]:
        """Return the parts by kind, with the values that were used instead of "auto"."""
        problem = self.problem()
        parts: dict[str, Part] = {kind: getattr(self, kind) for kind in PARTS}
        return {
            kind: dataclasses.replace(part, **part.auto_values(problem))
            for kind, part in parts.items()
        }

    def resolved_specs(self) -> dict[str, str]:
        """Return the spec of each part, with the values that were used instead of "auto"."""
        return {kind: part.spec() for kind, part in self.resolved_parts().items()}

    @property
    def finished(self) -> bool:
        """Whether at least one epoch is complete."""
        return bool(self.history)

    def result(self) -> TrainingResult:
        """Return what training has produced so far."""
        self.model.synchronize()
        return TrainingResult(
            self.model,
            self.loss,
            self.regularizer,
            self.solver,
            self.kernel,
            list(self.history),
            self.stopped,
            describe(self),
        )

    def snapshot(self) -> Snapshot:
        """Return everything that `train(resume=...)` needs to continue bit for bit."""
        state = self._resumed_state if self._epoch_result is None else self._epoch_result.state()
        if state is None:
            raise RuntimeError("there is no snapshot before the first epoch.")
        tensors = under("model", self.model.tensors()) | under("solver", state)
        tensors |= under("history", pack_history(self.history))
        callbacks: dict[str, Any] = {}
        for callback in self.callbacks:
            own = callback.state()
            arrays = {k: v for k, v in own.items() if isinstance(v, np.ndarray)}
            tensors |= under(f"callback/{callback.name}", arrays)
            callbacks[callback.name] = {k: v for k, v in own.items() if k not in arrays}
        facts = {
            "stopped": "" if self.stopped == "interrupted" else self.stopped,
            "ending": self._stopping,
            "callbacks": callbacks,
            "epochs before": self._epochs_before,
        }
        return Snapshot(tensors, facts)

    def _restore(self, snapshot: Snapshot) -> Tensors:
        """Restore a snapshot; raise `ModelFileError` if it does not fit this training."""
        try:
            self.model.restore(section(snapshot.tensors, "model"))
            self.history = unpack_history(section(snapshot.tensors, "history"))
            self.stopped = snapshot.facts["stopped"]
            self._stopping = snapshot.facts.get("ending", "")
            self._epochs_before = int(snapshot.facts.get("epochs before", 0))
            for callback in self.callbacks:
                values = snapshot.facts["callbacks"].get(callback.name, {})
                arrays = section(snapshot.tensors, f"callback/{callback.name}")
                callback.restore({**values, **arrays})
        except RankingError:
            raise
        except Exception as error:
            raise ModelFileError(
                f"the checkpoint does not fit this training ({type(error).__name__}: {error}); "
                "delete it and train from the start."
            ) from error
        # A training that is resumed after its last epoch ends without another.
        self._resumed_state = section(snapshot.tensors, "solver")
        return self._resumed_state


def _with_auto_values(part: AnyPart, problem: TrainingProblem) -> AnyPart:
    """Return a part with the values that the data lead to instead of "auto"."""
    values = part.auto_values(problem)
    return dataclasses.replace(part, **values) if values else part


def _distributed_cells() -> str:
    """Return the solvers and losses that use an engine."""
    registry = get_registry()
    losses = [registry.find("loss", name).load() for name in registry.names("loss")]
    solvers = [registry.find("solver", name).load() for name in registry.names("solver")]
    return ", ".join(
        f"solver {solver.name!r} with loss {loss.name!r}"
        for solver in solvers
        for loss in losses
        if solver.spreads(loss)
    )


def _largest_feature(data: JudgedLists | MatchingData) -> float:
    matrices = (
        (data.features,) if isinstance(data, JudgedLists) else (data.query_rows, data.document_rows)
    )
    values = (matrix if isinstance(matrix, np.ndarray) else matrix.data for matrix in matrices)
    return max(float(np.abs(each).max(initial=0.0)) for each in values)
