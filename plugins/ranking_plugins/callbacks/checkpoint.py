"""Checkpoints: a run on disk, so that a kill loses at most the current epoch."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any, ClassVar

from ranking._utils.tensors import Tensors, section, under
from ranking.contracts.callback import Callback
from ranking.contracts.parameters import number
from ranking.contracts.solver import EpochResult
from ranking.errors import ModelFileError, PartError
from ranking.io.tensors import read_tensors, write_tensors
from ranking.training.trainer import Snapshot, Trainer


@dataclasses.dataclass
class Checkpoint(Callback):
    """Writes the run to a file between epochs, atomically.

    Epochs shorter than a second share a write, so that small problems are not slowed by the disk.

    Parameters
    ----------
    path : str or Path
        The file.
    every : float
        Seconds between two writes at least.
    """

    name: ClassVar[str] = "checkpoint"

    path: str | Path = ""
    every: float = number(1.0, minimum=0.0)

    def _setup(self) -> None:
        if not str(self.path):
            raise PartError("checkpoint needs a file: checkpoint:path=run.checkpoint.")
        self.outer_facts: dict[str, Any] = {}
        self.outer_tensors: Tensors = {}
        self._written = float("-inf")

    def on_epoch_end(self, run: Trainer, result: EpochResult) -> bool:
        """Write, unless the last write was a moment ago."""
        if time.monotonic() - self._written >= self.every:
            self.write(run)
        return False

    def on_fit_end(self, run: Trainer) -> None:
        """Write how the run ended; one that broke off with an error keeps its last good epoch."""
        if run.stopped and run.history:
            self.write(run)

    def write(self, run: Trainer) -> None:
        """Write the run, and what an outer loop (a search) has left in `outer_...`."""
        snapshot = run.snapshot()
        tensors = snapshot.tensors | under("outer", self.outer_tensors)
        write_tensors(
            Path(self.path),
            tensors,
            {"checkpoint": 1, "run": snapshot.facts, "outer": self.outer_facts},
        )
        self._written = time.monotonic()

    def read(self) -> Snapshot:
        """Return the run that was written, and take back what the outer loop had left."""
        tensors, facts = read_tensors(Path(self.path))
        if facts.get("checkpoint") != 1:
            raise ModelFileError(f"{self.path} is not a checkpoint of this version; start anew.")
        snapshot = Snapshot(tensors, facts["run"])
        self.outer_facts, self.outer_tensors = facts["outer"], section(tensors, "outer")
        return snapshot
