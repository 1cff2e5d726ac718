"""`TrainingResult`: the parts of a finished training, its history and its description."""

from __future__ import annotations

import dataclasses
from typing import Any

from ranking._utils.tensors import History
from ranking.contracts.loss import Loss
from ranking.contracts.model import Model
from ranking.contracts.regularizer import Regularizer
from ranking.contracts.solver import Solver
from ranking.kernels.kernel import Kernel


@dataclasses.dataclass(frozen=True)
class TrainingResult:
    """What a training produced.

    Attributes
    ----------
    model : Model
        Trained.
    loss, regularizer, solver : Part or None
        As they were used. None if they come from a file whose plugin is not installed here.
    kernel : Kernel
    history : list of dict
        One row per epoch.
    stopped : str
        Why training ended.
    description : dict
        JSON values for the model file: the resolved settings, never "auto".
    report : Any
        What a wrapper reports besides, such as the trials of a search; None for a plain training.
    """

    model: Model
    loss: Loss | None
    regularizer: Regularizer | None
    solver: Solver | None
    kernel: Kernel
    history: History
    stopped: str
    description: dict[str, Any]
    report: Any = None

    @property
    def objective(self) -> float:
        """Mean loss plus penalty after the last epoch; NaN without a history."""
        return float(self.history[-1].get("objective", "nan")) if self.history else float("nan")

    @property
    def n_epochs(self) -> int:
        """Number of epochs."""
        return int(self.history[-1]["epoch"]) if self.history else 0

    @property
    def n_features(self) -> int:
        """Features of the training data; those of the documents, if queries have their own."""
        return int(self.description["training"]["features"])
