"""The values that SGD uses where a parameter is "auto", for the model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from ranking.contracts.solver import TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking_plugins.preference_pairs import LowerRows
from ranking_plugins.solvers.bilinear_steps import PYTHON_BATCH
from ranking_plugins.solvers.factored_steps import factored_batch_size
from ranking_plugins.solvers.linear_steps import estimate_rate
from ranking_plugins.solvers.settings import (
    SHARED_BATCH,
    SgdSettings,
    resolve_settings,
    shares_negatives,
    takes_whole_lists,
)

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD


def sgd_auto_values(solver: SGD, problem: TrainingProblem) -> dict[str, Any]:
    """Return the value of each parameter that is "auto"; `epochs` is replaced by `max_steps`."""
    settings = resolve_settings(solver, problem)
    values: dict[str, Any] = {
        "max_steps": settings.max_steps,
        "learning_rate": _learning_rate(solver, problem, settings),
        "schedule": _schedule(settings),
        "sampling": "positives" if problem.model.form == "vector" else settings.sampling,
        "prox_interval": settings.prox_interval,
        "batch_size": _batch_size(problem, settings),
        "n_negatives": settings.n_negatives,
        "steps_per_epoch": settings.steps_per_epoch,
    }
    if solver.epochs != "auto":
        del values["max_steps"]
    return {name: value for name, value in values.items() if getattr(solver, name) == "auto"}


def _schedule(settings: SgdSettings) -> str:
    if settings.adam:
        return "adam"
    return "adagrad" if settings.adagrad else settings.schedule


def _learning_rate(solver: SGD, problem: TrainingProblem, settings: SgdSettings) -> float:
    if problem.model.form != "vector" or solver.learning_rate != "auto":
        return settings.learning_rate
    rows = cast(JudgedLists, problem.data)
    return estimate_rate(rows, LowerRows.of(rows), problem)


def _batch_size(problem: TrainingProblem, settings: SgdSettings) -> int:
    """Return the batch size; of a cascade, that of its last stage."""
    loss = problem.loss
    if shares_negatives(problem):
        return SHARED_BATCH
    if problem.model.form == "factors":
        data = cast(MatchingData, problem.data)
        plain = data.queries is data.documents is None and not getattr(problem.model, "stage", 0)
        listwise = "pairwise" not in loss.interfaces
        return factored_batch_size(plain, listwise, settings.steps_per_epoch)
    if takes_whole_lists(problem):
        return 1
    native = "pairwise" in loss.interfaces and getattr(loss, "form", None) is not None
    return 1 if native and loss.positives[0] == 1 else PYTHON_BATCH
