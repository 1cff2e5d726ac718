"""Progress on the terminal."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any, ClassVar

from ranking.contracts.callback import Callback, TrainingRun
from ranking.contracts.solver import EpochResult


@dataclasses.dataclass
class Progress(Callback):
    """Show a live line with epoch, objective and the metrics of other callbacks.

    Only on a terminal.

    Parameters
    ----------
    label : str
        The start of the line.
    """

    name: ClassVar[str] = "progress"

    label: str = "training"

    def _setup(self) -> None:
        self._status: Any = None

    def on_fit_begin(self, run: TrainingRun) -> None:
        """Open the line."""
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status(self.label)
            self._status.start()

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Show the last row of the history."""
        if self._status is not None:
            row = [f"{key} {value:.6g}" for key, value in run.history[-1].items()]
            self._status.update(f"{self.label}: {', '.join(row)}")
        return False

    def on_fit_end(self, run: TrainingRun) -> None:
        """Close the line."""
        if self._status is not None:
            self._status.stop()
            self._status = None
