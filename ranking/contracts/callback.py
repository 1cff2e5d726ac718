"""The contract of a callback: called between epochs, never inside a kernel."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ranking._utils.tensors import History, Tensors
from ranking.contracts.part import Part

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ranking.contracts.loss import Loss
    from ranking.contracts.metric import Metric
    from ranking.contracts.model import Model
    from ranking.contracts.regularizer import Regularizer
    from ranking.contracts.solver import EpochResult, Solver


@dataclasses.dataclass
class Snapshot:
    """State of a training between two epochs, as a checkpoint stores it.

    Attributes
    ----------
    tensors : dict of arrays
        ``model/...``, ``solver/...``, ``history/...`` and ``callback/<name>/...``.
    facts : dict
        JSON values: why the training stopped, and the state of callbacks.
    """

    tensors: Tensors
    facts: dict[str, Any]


class TrainingRun(Protocol):
    """The training that a callback observes.

    Attributes
    ----------
    data, valid : JudgedLists or MatchingData
        Training data, and validation data or None.
    history : list of dict
        One row per epoch, to which a callback may add columns.
    stopped : str
        Why training ended; empty while it runs.
    """

    model: Model
    loss: Loss
    regularizer: Regularizer
    solver: Solver
    kernel: Any
    threads: int
    seed: int
    history: History
    stopped: str

    @property
    def data(self) -> Any:
        """The training data."""

    @property
    def valid(self) -> Any:
        """The validation data, or None."""

    def validate(self, metrics: Sequence[Metric]) -> dict[str, NDArray[Any]]:
        """Evaluate the model on the validation data: one value per query and metric."""

    def snapshot(self) -> Snapshot:
        """Return everything that is needed to continue bit for bit."""

    def result(self) -> Any:
        """Return what training has produced so far, as a `TrainingResult`."""


@dataclasses.dataclass
class Callback(Part):
    """Observe a training run; all methods are optional."""

    def on_fit_begin(self, run: TrainingRun) -> None:
        """Prepare before the first epoch; a resumed run calls `restore` next."""

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Handle the end of an epoch; return True to stop the run."""
        return False

    def on_fit_end(self, run: TrainingRun) -> None:
        """Clean up after the last epoch, also when the run was interrupted."""

    def state(self) -> dict[str, Any]:
        """Return the state that a resumed run passes to `restore`: JSON values and arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
