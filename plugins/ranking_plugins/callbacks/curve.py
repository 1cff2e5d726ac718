"""Learning curves: metrics on the validation data after each epoch."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from ranking.contracts.callback import Callback, TrainingRun
from ranking.contracts.solver import EpochResult
from ranking.errors import PartError
from ranking.metrics.evaluation import mean
from ranking.metrics.parse import parse_metric


@dataclasses.dataclass
class Curve(Callback):
    """Evaluate the model on the validation data after each epoch.

    The values go into the history, and so into the model file, from which `ranking report` reads.

    Parameters
    ----------
    metrics : str
        Joined by ``+``, such as ``map+pair-error``.
    """

    name: ClassVar[str] = "curve"

    metrics: str = "map+pair-error"

    def _setup(self) -> None:
        self._metrics = [parse_metric(word) for word in self.metrics.split("+")]

    def on_fit_begin(self, run: TrainingRun) -> None:
        """Refuse to run without validation data."""
        if run.valid is None:
            raise PartError("curve needs validation data: give fit(valid=...) or --valid.")

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Evaluate the model and record the values."""
        values = run.validate(self._metrics)
        run.history[-1] |= {name: mean(column) for name, column in values.items()}
        return False
