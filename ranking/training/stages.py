"""Train models that have stages, such as a cascade (LaSR)."""

from __future__ import annotations

import dataclasses
from itertools import islice
from typing import cast

from ranking.contracts.model import StagedModel
from ranking.training.trainer import Trainer


@dataclasses.dataclass
class StagedTrainer(Trainer):
    """Train a model stage by stage; callbacks begin and end with each stage."""

    _epochs_of_stage: int = 0

    @property
    def _staged_model(self) -> StagedModel:
        return cast(StagedModel, self.model)

    def _next_stage(self) -> bool:
        if not self._staged_model.next_stage(self.data, self.kernel, self.threads):
            return False
        done = int(self.history[-1]["epoch"]) if self.history else 0
        self._epochs_before, self._epochs_of_stage = done, done - self._epochs_before
        self.stopped = self._stopping = ""
        for callback in self.callbacks:
            callback.on_fit_begin(self)
        return True

    def _cross_fit(self) -> None:
        """Train the models that a stage needs, as long as the stage before, without callbacks."""
        for model, data in self._staged_model.cross_fit(self.data, self.kernel, self.threads):
            problem = dataclasses.replace(self.problem(), model=model, data=data)
            for _ in islice(self.solver.run_epochs(problem), self._epochs_of_stage):
                pass
