"""The contract of an callback: called between epochs, never inside a kernel."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.contracts.solver import EpochResult
    from ranking.training.trainer import Run


@dataclasses.dataclass
class Callback(Part):
    """Watches a run; every method may be left as it is."""

    def on_fit_begin(self, run: Run) -> None:
        """Get ready, before the first epoch: forget any earlier run. A resume then restores."""

    def on_epoch_end(self, run: Run, result: EpochResult) -> bool:
        """Look at an epoch that has ended; return True to stop the run."""
        return False

    def on_fit_end(self, run: Run) -> None:
        """Tidy up after the last epoch, also when the run was interrupted."""

    def state(self) -> dict[str, Any]:
        """Return what a resumed run must give back to `restore`: JSON values and arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` returned."""
