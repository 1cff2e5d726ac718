"""The default strength of a penalty, which depends on the parameters and the data.

The objective is a mean over positives, and each row of the embeddings takes part in few of them:
the gradient of a row is of the order of 1 / (number of rows), and so is a strength that neither has
no effect nor removes everything. Weights of features have a gradient that does not depend on their
number.
"""

from __future__ import annotations

from typing import cast

from ranking.contracts.solver import TrainingProblem
from ranking.models.factored import Factored

AUTO = ("auto",)
DEFAULT = 0.001
"""The strength for weights of features, and of a regularizer that is not in use."""


def known(strength: float | str) -> float:
    """Return the strength as a number."""
    return DEFAULT if strength == "auto" else float(strength)


def default_strength(problem: TrainingProblem, per_row: float) -> float:
    """Return what "auto" is for a problem; `per_row` is for embeddings, times their number."""
    trained_by_samples = bool({"pairwise", "listwise"} & problem.loss.interfaces)
    if problem.model.form != "factors" or not trained_by_samples:
        return DEFAULT
    model = cast(Factored, problem.model)
    return per_row / float(model.U.shape[0] + model.V.shape[0])
