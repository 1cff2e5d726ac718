"""Cascade: train a factored model, then stages that look at the lists of the stage before."""

from __future__ import annotations

import dataclasses

from ranking.data.inputs import Trainable
from ranking.errors import CombinationError
from ranking.models.factored import Factored
from ranking.models.structured import Structured
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.resolve import create_part
from ranking.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class Cascade(Fitter):
    """Train the plan's factored model as stage 0 of a cascade (LaSR), and the stages after it.

    Parameters
    ----------
    plan : TrainingPlan
        The base, with a factored model; loss, regularizer, solver and callbacks serve every stage.
    stages, k, inference, beam, init, folds
        As in `ranking.models.structured.Structured`.
    """

    plan: TrainingPlan
    stages: int = 1
    k: int = 20
    inference: str = "iterative"
    beam: int = 4
    init: str = "scratch"
    folds: int = 0

    def trainer(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> Trainer:
        """Return the training of all stages."""
        model = "factored" if self.plan.model == "auto" else self.plan.model
        base = create_part("model", model, Factored)
        if isinstance(base, Structured):
            raise CombinationError("the base of a cascade is a cascade already; give its stages.")
        names = [field.name for field in dataclasses.fields(self) if field.name != "plan"]
        options = {name: getattr(self, name) for name in names}
        cascade = Structured(base.dimensions, base.biases, base.init_scale, **options)
        plan = dataclasses.replace(self.plan, model=cascade)
        return plan.trainer(data, valid, exclude_seen=exclude_seen)
