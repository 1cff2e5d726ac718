"""What SGD does if it is left to choose: how many draws, from what, at which rates."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np

from ranking.contracts.solver import Task
from ranking.data.matching import Matching
from ranking.data.tuples import match_lists
from ranking.kernels.match_lists import MatchLists

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

PASSES = 10
"""Over the matches, for a model whose vectors have to be found from nothing."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The parameters of `SGD` with nothing left open.

    Attributes
    ----------
    adagrad : bool
        Whether every parameter has a rate of its own, which falls with its gradients.
    """

    draws: int
    epoch: int
    rate: float
    refit_rate: float
    schedule: str
    adagrad: bool
    pairs: bool


def settle(solver: SGD, task: Task) -> Plan:
    """Fill in what is "auto": a matrix takes the paper's, factors what recommenders take."""
    factors = task.model.form == "factors"
    data = cast(Matching, task.data)
    draws, epoch = solver.draws, solver.epoch
    if "auto" in (draws, epoch):
        matches = int(data.n_relevant.sum()) if data.labels is None else data.n_queries
        a_pass = max(matches, 1) if factors else 10_000
        epoch = a_pass if epoch == "auto" else epoch
        draws = (PASSES * a_pass if factors else 100_000) if draws == "auto" else draws
    rate = (0.05 if factors else 200.0) if solver.rate == "auto" else float(solver.rate)
    schedule = ("adagrad" if factors else "sqrt") if solver.schedule == "auto" else solver.schedule
    adagrad = schedule == "adagrad"
    return Plan(
        int(draws),
        int(epoch),
        rate,
        solver.refit_rate or rate,
        "fixed" if adagrad else schedule,
        adagrad,
        factors if solver.draw == "auto" else solver.draw == "pairs",
    )


def lists_of(data: Matching, pairs: bool) -> MatchLists:
    """Return what can be drawn: each query alike, or each pair of a query and its document."""
    lists = match_lists(data)
    if not pairs:
        return lists
    sizes = np.diff(lists.list_ptr)[lists.list_of[lists.queries]]
    spare = sizes - (lists.itself[lists.queries] >= 0)
    # A query that is listed as often as it has documents is drawn as often.
    return dataclasses.replace(lists, queries=np.repeat(lists.queries, spare))
