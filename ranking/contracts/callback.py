"""The contract of a callback: called between epochs, never inside a kernel."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.contracts.solver import EpochResult
    from ranking.training.trainer import Trainer


@dataclasses.dataclass
class Callback(Part):
    """Observe a training run; all methods are optional."""

    def on_fit_begin(self, run: Trainer) -> None:
        """Prepare before the first epoch; a resumed run calls `restore` next."""

    def on_epoch_end(self, run: Trainer, result: EpochResult) -> bool:
        """Handle the end of an epoch; return True to stop the run."""
        return False

    def on_fit_end(self, run: Trainer) -> None:
        """Clean up after the last epoch, also when the run was interrupted."""

    def state(self) -> dict[str, Any]:
        """Return the state that a resumed run passes to `restore`: JSON values and arrays."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
