"""What SGD does if it is left to choose: how many draws, from what, at which rates."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np

from ranking.contracts.regularizer import kernel_forms
from ranking.contracts.solver import TrainingProblem
from ranking.data.matching_data import MatchingData
from ranking.data.triplets import member_values, positive_lists
from ranking.errors import DataError
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.sampling import MAX_COUNT, PositiveLists

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

EPOCHS = 10
"""Over the matches, for a model whose vectors have to be found from nothing."""

BOUNDARIES = 16
"""In an epoch, for a penalty that no kernel has in its loop."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The parameters of `SGD` with nothing left open.

    Attributes
    ----------
    adagrad : bool
        Whether every parameter has a rate of its own, which falls with its gradients.
    """

    max_steps: int
    steps_per_epoch: int
    prox_interval: int
    learning_rate: float
    refit_learning_rate: float
    schedule: str
    adagrad: bool
    sampling: str


def settle(solver: SGD, problem: TrainingProblem) -> Plan:
    """Fill in what is "auto": a matrix takes the paper's, factors what recommenders take."""
    factors = problem.model.form == "factors"
    steps, epoch, every = solver.max_steps, solver.steps_per_epoch, solver.prox_interval
    if "auto" in (steps, epoch):
        a_pass = _matches(cast(MatchingData, problem.data)) if factors else 10_000
        epoch = a_pass if epoch == "auto" else epoch
        if solver.epochs != "auto":
            steps = int(solver.epochs) * int(epoch)
        elif steps == "auto":
            steps = EPOCHS * a_pass
    if every == "auto":
        in_loop = not factors and "matrix" in kernel_forms(problem.regularizer)
        every = 100 if in_loop else -(-int(epoch) // BOUNDARIES)
    rate = (
        (0.05 if factors else 200.0)
        if solver.learning_rate == "auto"
        else float(solver.learning_rate)
    )
    schedule = (
        ("adagrad" if factors else "inverse-sqrt") if solver.schedule == "auto" else solver.schedule
    )
    draw = ("positives" if factors else "queries") if solver.sampling == "auto" else solver.sampling
    adagrad = schedule == "adagrad"
    return Plan(
        int(steps),
        int(epoch),
        int(every),
        rate,
        solver.refit_learning_rate or rate,
        "constant" if adagrad else schedule,
        adagrad,
        draw,
    )


def _matches(data: MatchingData) -> int:
    return max(int(data.n_relevant.sum()) if data.labels is None else data.n_queries, 1)


def lists_of(data: MatchingData, solver: SGD, draw: str) -> PositiveLists:
    """Return what can be drawn, how often, and how much it counts."""
    lists = positive_lists(data)
    drawn = lists.queries
    if solver.negatives == "any":
        lists = dataclasses.replace(lists, any_negative=True)
    if solver.weighting == "relevance":
        values = member_values(data, lists).astype(np.float32)
        lists = dataclasses.replace(lists, member_weights=values)
    if draw == "positives":
        sizes = np.diff(lists.member_ptr)[lists.list_of[drawn]]
        spare = sizes - (lists.own_document[drawn] >= 0)
        return dataclasses.replace(lists, query_sums=_summed(spare, draw))
    if draw == "weighted":
        counts = _whole(member_values(data, lists))
        ends = np.concatenate(([0], np.cumsum(counts)))
        sums = ends[1:] - np.repeat(ends[lists.member_ptr[:-1]], np.diff(lists.member_ptr))
        totals = ends[lists.member_ptr[1:]] - ends[lists.member_ptr[:-1]]
        return dataclasses.replace(
            lists, member_sums=sums, query_sums=_summed(totals[lists.list_of[drawn]], draw)
        )
    return lists


def _summed(counts: Ints, draw: str) -> Ints:
    sums = np.cumsum(counts)
    if sums[-1] > MAX_COUNT:
        raise DataError(
            f"sampling={draw} has {sums[-1]} to choose from, and more than {MAX_COUNT} cannot be told "
            "apart; take sampling=queries."
        )
    return sums


def _whole(values: Floats) -> Ints:
    counts = np.rint(values)
    if np.any(counts != values):
        raise DataError(
            f"sampling=weighted draws a match as often as it counts, and {values[counts != values][0]}"
            " is no whole number; take weighting=relevance instead."
        )
    return counts.astype(np.int64)
