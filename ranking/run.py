"""`Run`: one training, from the first epoch to the last, watched by observers."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.observer import Observer
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Solver, Task, Turn
from ranking.data.judged import Judged
from ranking.errors import CombinationError, DivergenceError
from ranking.files import Tensors
from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class Snapshot:
    """A run between two epochs: what a checkpoint keeps.

    Attributes
    ----------
    tensors : dict of arrays
        ``model/...``, ``solver/...`` and ``observer/<name>/...``.
    facts : dict
        JSON values: the history and the observers' own.
    """

    tensors: Tensors
    facts: dict[str, Any]

    def section(self, prefix: str) -> Tensors:
        """Return the tensors of one section, without its prefix."""
        start = prefix + "/"
        return {k[len(start) :]: v for k, v in self.tensors.items() if k.startswith(start)}


@dataclasses.dataclass
class Run:
    """One training.

    Attributes
    ----------
    valid : Judged or None
        Validation data, for observers.
    history : list of dict
        A row per epoch: ``epoch``, ``objective``, and what observers add.
    stopped : str
        Why the run ended: "converged", "max_epochs", "interrupted", or an observer's name.
    """

    model: Model
    loss: Loss
    regularizer: Regularizer
    solver: Solver
    data: Judged
    kernel: Kernel
    threads: int = 1
    seed: int = 0
    valid: Judged | None = None
    observers: Sequence[Observer] = ()
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    stopped: str = ""
    _turn: Turn | None = None

    def __post_init__(self) -> None:
        """Refuse parts that do not work together, with the reason and what would."""
        verdict = self.solver.accepts(type(self.model), type(self.loss), type(self.regularizer))
        if not verdict.works:
            raise CombinationError(
                f"{self.model.name} x {self.loss.name} x {self.regularizer.name} x "
                f"{self.solver.name} does not work: {verdict.reason}. Try {verdict.instead}."
            )
        if self.threads > 1 and self.kernel.describe()["threads"] == "none":
            warnings.warn(
                f"kernel {self.kernel.name!r} was built without threads and runs on one; "
                "install the Rust kernel, or rebuild with OpenMP.",
                stacklevel=3,
            )

    def go(self, resume: Snapshot | None = None) -> None:
        """Train until the solver has converged, an observer stops it, or Ctrl-C.

        After `KeyboardInterrupt`, which is raised on, the model holds the last whole epoch.
        """
        for observer in self.observers:
            observer.start(self)
        state = None if resume is None else self._restore(resume)
        if self.stopped:
            return
        task = Task(
            self.model,
            self.loss,
            self.regularizer,
            self.data,
            self.kernel,
            self.threads,
            self.seed,
            state,
        )
        try:
            for turn in self.solver.turns(task):
                self._turn = turn
                self._record(turn)
                asked = [observer.name for observer in self.observers if observer.turn(self, turn)]
                if turn.converged:
                    self.stopped = "converged"
                elif asked:
                    self.stopped = asked[0]
                if self.stopped:
                    break
            else:
                self.stopped = "max_epochs"
        except KeyboardInterrupt:
            self.stopped = "interrupted"
            raise
        finally:
            for observer in self.observers:
                observer.finish(self)

    def _record(self, turn: Turn) -> None:
        self.history.append({"epoch": turn.epoch, "objective": turn.objective})
        if not math.isfinite(turn.objective):
            raise DivergenceError(
                f"the objective is {turn.objective} after epoch {turn.epoch}; the largest "
                f"absolute feature is {_largest(self.data):.3g}: scale the features, or raise "
                "the regularizer's strength."
            )

    def snapshot(self) -> Snapshot:
        """Return everything that `go(resume=...)` needs to go on bit for bit."""
        if self._turn is None:
            raise RuntimeError("a run has no snapshot before its first epoch.")
        tensors = {f"model/{k}": v for k, v in self.model.tensors().items()}
        tensors.update({f"solver/{k}": v for k, v in self._turn.state().items()})
        told: dict[str, Any] = {}
        for observer in self.observers:
            state = observer.state()
            arrays = {k: v for k, v in state.items() if isinstance(v, np.ndarray)}
            tensors.update({f"observer/{observer.name}/{k}": v for k, v in arrays.items()})
            told[observer.name] = {k: v for k, v in state.items() if k not in arrays}
        ended = "" if self.stopped == "interrupted" else self.stopped
        facts = {"history": self.history, "stopped": ended, "observers": told}
        return Snapshot(tensors, facts)

    def _restore(self, snapshot: Snapshot) -> Tensors:
        self.model.restore(snapshot.section("model"))
        self.history = list(snapshot.facts["history"])
        self.stopped = snapshot.facts["stopped"]
        for observer in self.observers:
            told = snapshot.facts["observers"].get(observer.name, {})
            observer.restore({**told, **snapshot.section(f"observer/{observer.name}")})
        return snapshot.section("solver")


def _largest(data: Judged) -> float:
    values = data.features if isinstance(data.features, np.ndarray) else data.features.data
    return float(np.abs(values).max(initial=0.0))
