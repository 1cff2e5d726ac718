"""Early stopping on validation data, with the best parameters at the end."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from ranking.contracts.callback import Callback, TrainingRun
from ranking.contracts.parameters import integer
from ranking.contracts.solver import EpochResult
from ranking.errors import DataError, PartError
from ranking.metrics.evaluation import mean
from ranking.metrics.parse import parse_metric


@dataclasses.dataclass
class EarlyStopping(Callback):
    """Stop when the metric has not improved for `patience` epochs.

    At the end the model has the parameters of the best epoch (the first of equal ones).

    Parameters
    ----------
    metric : str
        Any metric, such as ``ndcg@10``.
    patience : int
        Number of epochs without improvement after which the run stops.
    """

    name: ClassVar[str] = "early-stopping"

    metric: str = "ndcg@10"
    patience: int = integer(5, minimum=1)

    def _setup(self) -> None:
        self._metric = parse_metric(self.metric)
        self._reset()

    def _reset(self) -> None:
        self.best_value = float("nan")
        self.best_epoch = 0
        self._best: dict[str, np.ndarray[Any, Any]] = {}

    def on_fit_begin(self, run: TrainingRun) -> None:
        """Reset the state; refuse to run without validation data."""
        self._reset()
        if run.valid is None:
            raise PartError("early-stopping needs validation data: give fit(valid=...) or --valid.")

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Evaluate, store the best parameters, and return whether to stop."""
        values = run.validate([self._metric])
        value = mean(values[self._metric.spelled()])
        if np.isnan(value):
            raise DataError(
                f"{self._metric.spelled()} skips every query of the validation data; "
                "choose another metric or other data."
            )
        run.history[-1][self._metric.spelled()] = value
        if self._better(value):
            self.best_value, self.best_epoch = value, result.epoch
            self._best = {name: tensor.copy() for name, tensor in run.model.tensors().items()}
        return result.epoch - self.best_epoch >= self.patience

    def _better(self, value: float) -> bool:
        if np.isnan(self.best_value):
            return True
        if self._metric.higher_is_better:
            return value > self.best_value
        return value < self.best_value

    def on_fit_end(self, run: TrainingRun) -> None:
        """Restore the best parameters."""
        if self._best:
            run.model.restore(self._best)

    def state(self) -> dict[str, Any]:
        """Return the best epoch so far."""
        value = None if np.isnan(self.best_value) else self.best_value
        return {"value": value, "epoch": self.best_epoch, **self._best}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the best epoch so far."""
        state = dict(state)
        value = state.pop("value", None)
        self.best_value = float("nan") if value is None else value
        self.best_epoch = state.pop("epoch", 0)
        self._best = state
