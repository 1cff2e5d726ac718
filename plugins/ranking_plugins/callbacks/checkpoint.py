"""Checkpoints: store the run on disk, so that at most the current epoch can be lost."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any, ClassVar

from ranking._utils.tensors import Tensors, section, under
from ranking.contracts.callback import Callback, Snapshot, TrainingRun
from ranking.contracts.parameters import number
from ranking.contracts.solver import EpochResult
from ranking.errors import PartError
from ranking.io.schema import CHECKPOINT_VERSION, check_checkpoint
from ranking.io.tensors import read_tensors, write_tensors


@dataclasses.dataclass
class Checkpoint(Callback):
    """Write the run to a file between epochs, atomically.

    Epochs shorter than `every` share a write, so that small problems are not slowed by the disk.

    Parameters
    ----------
    path : str or Path
        The file.
    every : float
        Minimal number of seconds between two writes.
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

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Write, unless the last write was less than `every` seconds ago."""
        if time.monotonic() - self._written >= self.every:
            self.write(run)
        return False

    def on_fit_end(self, run: TrainingRun) -> None:
        """Write the end of the run; after an error, the last good epoch stays on disk."""
        if run.stopped and run.history:
            self.write(run)

    def write(self, run: TrainingRun) -> None:
        """Write the run, and the state of an outer loop (a search) in `outer_...`."""
        snapshot = run.snapshot()
        tensors = snapshot.tensors | under("outer", self.outer_tensors)
        write_tensors(
            Path(self.path),
            tensors,
            {"checkpoint": CHECKPOINT_VERSION, "run": snapshot.facts, "outer": self.outer_facts},
        )
        self._written = time.monotonic()

    def read(self) -> Snapshot:
        """Read the run and the state of the outer loop."""
        tensors, facts = read_tensors(Path(self.path))
        check_checkpoint(Path(self.path), facts)
        snapshot = Snapshot(tensors, facts["run"])
        self.outer_facts, self.outer_tensors = facts["outer"], section(tensors, "outer")
        return snapshot
