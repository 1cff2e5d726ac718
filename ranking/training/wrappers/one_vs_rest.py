"""One-vs-rest: one binary classifier per document."""

from __future__ import annotations

import dataclasses

from ranking.data.inputs import Trainable
from ranking.training.fitter import Fitter
from ranking.training.plan import TrainingPlan
from ranking.training.trainer import Trainer


@dataclasses.dataclass(frozen=True)
class OneVsRest(Fitter):
    """Train one linear classifier per document: its queries against all others.

    The classifiers share the queries, so solver ``one-vs-rest`` trains them together: one pass over
    the queries serves all documents. The result is one bilinear model.

    Parameters
    ----------
    plan : TrainingPlan
        The base: loss hinge or logistic, regularizer l2. Its model and solver are replaced.
    max_iterations : int
        Of L-BFGS for each document (logistic), or passes over the queries (hinge).
    tolerance : float
        Largest entry of the gradient at the end.
    """

    plan: TrainingPlan
    max_iterations: int = 200
    tolerance: float = 1e-5

    def trainer(
        self, data: Trainable, valid: Trainable | None = None, *, exclude_seen: bool = False
    ) -> Trainer:
        """Return the training of all classifiers."""
        solver = f"one-vs-rest:max_iterations={self.max_iterations},tolerance={self.tolerance}"
        plan = dataclasses.replace(self.plan, model="bilinear", solver=solver)
        return plan.trainer(data, valid, exclude_seen=exclude_seen)
