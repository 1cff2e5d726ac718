"""`Run`: one training, from the first epoch to the last, watched by callbacks."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any

import numpy as np

from ranking.contracts.callback import Callback
from ranking.contracts.engine import Engine
from ranking.contracts.loss import Loss
from ranking.contracts.metric import Metric
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import (
    Compatibility,
    EpochResult,
    Solver,
    TrainingProblem,
    default_engine,
)
from ranking.data.exclusions import Pairs, known_pairs
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.errors import (
    CombinationError,
    DataError,
    DivergenceError,
    ModelFileError,
    PartError,
)
from ranking.io.tensors import Tensors
from ranking.kernels.kernel import Kernel
from ranking.metrics.evaluate import Values
from ranking.metrics.model_evaluation import measure
from ranking.registry import get_registry
from ranking.registry.compatibility import refuse_misfit
from ranking.registry.guard import ours, refuse, watched
from ranking.registry.origin import described
from ranking.training.signals import DeferredInterrupts

History = list[dict[str, Any]]
"""A row per epoch: ``epoch``, ``objective``, and what callbacks measured."""


def pack_history(history: History) -> Tensors:
    """Return a history as one array per column; NaN where a row lacks it."""
    names = dict.fromkeys(name for row in history for name in row)
    return {name: np.array([row.get(name, np.nan) for row in history], float) for name in names}


def unpack_history(columns: Tensors) -> History:
    """Take back what `pack_history` returned, or raise `ModelFileError`."""
    epochs = columns.get("epoch", np.zeros(0))
    for name, column in columns.items():
        if column.dtype != np.float64 or column.ndim != 1 or column.shape != epochs.shape:
            raise ModelFileError(f"the history is damaged: {name} must be a number for each epoch.")
    if not np.isfinite(epochs).all():
        raise ModelFileError("the history is damaged: epochs must be finite.")
    rows: History = [{} for _ in epochs]
    for name in ["epoch", "objective", *sorted(set(columns) - {"epoch", "objective"})]:
        for row, value in zip(rows, columns.get(name, ()), strict=False):
            if not np.isnan(value):
                row[name] = int(value) if name == "epoch" else float(value)
    return rows


def section(tensors: Tensors, prefix: str) -> Tensors:
    """Return the tensors under a prefix, without it."""
    start = prefix + "/"
    return {k[len(start) :]: v for k, v in tensors.items() if k.startswith(start)}


def under(prefix: str, tensors: Tensors) -> Tensors:
    """Return the tensors with a prefix."""
    return {f"{prefix}/{name}": tensor for name, tensor in tensors.items()}


@dataclasses.dataclass
class Snapshot:
    """A run between two epochs: what a checkpoint keeps.

    Attributes
    ----------
    tensors : dict of arrays
        ``model/...``, ``solver/...``, ``history/...`` and ``callback/<name>/...``.
    facts : dict
        JSON values: how the run stopped, and the callbacks' own.
    """

    tensors: Tensors
    facts: dict[str, Any]


@dataclasses.dataclass
class Run:
    """One training.

    Attributes
    ----------
    valid : JudgedLists, MatchingData or None
        Validation data, for callbacks.
    exclude_known : bool
        Whether matches of the training data are left out of the lists that are validated.
    history : list of dict
        See `History`.
    stopped : str
        Why the run ended: "converged", "max_epochs", "interrupted", or an callback's name.
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
    exclude_known: bool = False
    callbacks: Sequence[Callback] = ()
    engine: Engine = dataclasses.field(default_factory=default_engine)
    history: History = dataclasses.field(default_factory=list)
    stopped: str = ""
    _ending: str = ""
    _turn: EpochResult | None = None
    _resumed: Tensors | None = None
    _before: int = 0
    _last: int = 0
    _barred: Pairs | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not work together, with the reason and what would."""
        kinds = type(self.model), type(self.loss), type(self.regularizer)
        compatibility: Any = self.solver.accepts(*kinds)
        if not isinstance(compatibility, Compatibility):
            whose = described("solver", self.solver)
            refuse(
                whose, "accepts", f"answered {type(compatibility).__name__}, not a Compatibility"
            )
        refuse_misfit(self.model, self.loss, self.regularizer, self.solver)
        if not (self.engine.here or self.solver.spreads(type(self.loss))):
            raise CombinationError(
                f"engine {self.engine.name!r} has nothing to do: solver {self.solver.name!r} with "
                f"loss {self.loss.name!r} trains in one process. Leave the engine out; those that "
                f"use it are {_spreading()}."
            )
        names = [callback.name for callback in self.callbacks]
        if len(set(names)) < len(names):
            raise PartError(f"two callbacks have the same name: {', '.join(names)}; keep one.")
        if self.threads > 1 and self.kernel.describe()["threads"] == "none":
            warnings.warn(
                f"kernel {self.kernel.name!r} was built without threads and runs on one; "
                "install the Rust kernel, or rebuild with OpenMP.",
                stacklevel=3,
            )

    def go(self, resume: Snapshot | None = None) -> None:
        """Train until the solver has converged, an callback stops it, or Ctrl-C.

        Ctrl-C ends the run after the epoch that it comes in: `KeyboardInterrupt` is raised on, and
        the model holds the last whole epoch. A second one does not wait, and nothing is kept.
        """
        with self.watched():
            self._go(resume)

    def watched(self) -> AbstractContextManager[None]:
        """Watch the parts that others wrote; see `ranking.registry.guard`."""
        callbacks = [("callback", callback) for callback in self.callbacks]
        return watched([("loss", self.loss), ("regularizer", self.regularizer), *callbacks])

    def _go(self, resume: Snapshot | None) -> None:
        for callback in self.callbacks:
            callback.on_fit_begin(self)
        state = None if resume is None else self._restore(resume)
        if self.stopped:
            state = None  # of a stage that has ended: the next one begins anew
        with DeferredInterrupts() as held:
            while not self.stopped or self._advance():
                try:
                    if state is None:
                        self._rehearse()
                    self._turns(self._task(state), held)
                except KeyboardInterrupt:
                    # One that was not held came in the middle of an epoch: nothing of it is kept.
                    self.stopped = "" if held.asked > 1 else "interrupted"
                    raise
                finally:
                    for callback in self.callbacks:
                        callback.on_fit_end(self)
                state = None

    def _task(
        self, state: Tensors | None, model: Model | None = None, data: MatchingData | None = None
    ) -> TrainingProblem:
        return TrainingProblem(
            model or self.model,
            self.loss,
            self.regularizer,
            data or self.data,
            self.kernel,
            self.threads,
            self.seed,
            state,
            self.engine,
        )

    def _advance(self) -> bool:
        """Begin the next stage of a model that has one; callbacks then begin anew."""
        if not self.model.next_stage(self.data, self.kernel, self.threads):
            return False
        done = int(self.history[-1]["epoch"]) if self.history else 0
        self._before, self._last = done, done - self._before
        self.stopped = self._ending = ""
        for callback in self.callbacks:
            callback.on_fit_begin(self)
        return True

    def _rehearse(self) -> None:
        """Train what a stage asks before it begins, unseen by callbacks."""
        for model, data in self.model.cross_fit(self.data, self.kernel, self.threads):
            for _ in islice(self.solver.run_epochs(self._task(None, model, data)), self._last):
                pass

    def _turns(self, problem: TrainingProblem, held: DeferredInterrupts) -> None:
        if self._ending:  # the run was killed after its last epoch, before it could end
            self.stopped = self._ending
            return
        number: Any
        for number in self.solver.run_epochs(problem):
            if not isinstance(number, EpochResult):
                whose = described("solver", self.solver)
                refuse(whose, "turns", f"yielded {type(number).__name__}, not a EpochResult")
            # Epochs are counted through all stages.
            turn = dataclasses.replace(number, epoch=number.epoch + self._before)
            self.record(turn)
            self._ending = "converged" if turn.converged else ""
            for callback in self.callbacks:
                # What is asked first counts, and a checkpoint that comes later knows of it.
                if callback.on_epoch_end(self, turn):
                    self._ending = self._ending or callback.name
            if self._ending:
                self.stopped = self._ending
                return
            held.release()
        self.stopped = "max_epochs"

    def validate(self, metrics: Sequence[Metric]) -> Values:
        """Measure the model on the validation data."""
        assert self.valid is not None
        if self._barred is None and self.exclude_known:
            if isinstance(self.data, JudgedLists) or isinstance(self.valid, JudgedLists):
                raise DataError(
                    "exclude_known is for queries and documents, and these are judged rows; leave "
                    "it out."
                )
            self._barred = known_pairs(self.valid, self.data, but_relevant=True)
        return measure(self.model, metrics, self.valid, self.kernel, self.threads, self._barred)

    def record(self, turn: EpochResult) -> None:
        """Take note of an epoch; one that left the finite numbers ends the run."""
        self._turn = turn
        self.history.append({"epoch": turn.epoch, "objective": turn.objective, **turn.measures})
        if not math.isfinite(turn.objective):
            raise DivergenceError(
                f"the objective is {turn.objective} after epoch {turn.epoch}; the largest "
                f"absolute feature is {_largest(self.data):.3g}: scale the features, or raise "
                f"the regularizer's strength.{self._others()}"
            )

    def _others(self) -> str:
        """Name the parts of other people, who may have a share in what went wrong."""
        parts = (("loss", self.loss), ("regularizer", self.regularizer), ("solver", self.solver))
        told = [described(kind, part) for kind, part in parts if not ours(part)]
        return f" Or it is the doing of {' or '.join(told)}." if told else ""

    def snapshot(self) -> Snapshot:
        """Return everything that `go(resume=...)` needs to go on bit for bit."""
        state = self._resumed if self._turn is None else self._turn.state()
        if state is None:
            raise RuntimeError("a run has no snapshot before its first epoch.")
        tensors = under("model", self.model.tensors()) | under("solver", state)
        tensors |= under("history", pack_history(self.history))
        told: dict[str, Any] = {}
        for callback in self.callbacks:
            state = callback.state()
            arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
            tensors |= under(f"callback/{callback.name}", arrays)
            told[callback.name] = {k: v for k, v in state.items() if k not in arrays}
        ended = "" if self.stopped == "interrupted" else self.stopped
        facts = {
            "stopped": ended,
            "ending": self._ending,
            "callbacks": told,
            "epochs before": self._before,
        }
        return Snapshot(tensors, facts)

    def _restore(self, snapshot: Snapshot) -> Tensors:
        self.model.restore(section(snapshot.tensors, "model"))
        self.history = unpack_history(section(snapshot.tensors, "history"))
        self.stopped = snapshot.facts["stopped"]
        self._ending = snapshot.facts.get("ending", "")
        self._before = int(snapshot.facts.get("epochs before", 0))
        for callback in self.callbacks:
            told = snapshot.facts["callbacks"].get(callback.name, {})
            arrays = section(snapshot.tensors, f"callback/{callback.name}")
            callback.restore({**told, **arrays})
        # A run that is resumed after its last epoch ends without another.
        self._resumed = section(snapshot.tensors, "solver")
        return self._resumed


def _spreading() -> str:
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


def _largest(data: JudgedLists | MatchingData) -> float:
    sides = (
        (data.features,) if isinstance(data, JudgedLists) else (data.query_rows, data.document_rows)
    )
    values = (side if isinstance(side, np.ndarray) else side.data for side in sides)
    return max(float(np.abs(side).max(initial=0.0)) for side in values)
