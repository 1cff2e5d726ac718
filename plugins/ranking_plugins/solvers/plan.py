"""What SGD does if it is left to choose: how many draws, from what, at which rates."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np

from ranking.contracts.solver import Task
from ranking.data.matching import Matching
from ranking.data.tuples import match_lists, member_values
from ranking.errors import DataError
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.match_lists import MOST, MatchLists

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

PASSES = 10
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

    draws: int
    epoch: int
    every: int
    rate: float
    refit_rate: float
    schedule: str
    adagrad: bool
    draw: str


def settle(solver: SGD, task: Task) -> Plan:
    """Fill in what is "auto": a matrix takes the paper's, factors what recommenders take."""
    factors = task.model.form == "factors"
    draws, epoch, every = solver.draws, solver.epoch, solver.every
    if "auto" in (draws, epoch):
        a_pass = _matches(cast(Matching, task.data)) if factors else 10_000
        epoch = a_pass if epoch == "auto" else epoch
        draws = (PASSES * a_pass if factors else 100_000) if draws == "auto" else draws
    if every == "auto":
        in_loop = not factors and "matrix" in task.regularizer.inlined
        every = 100 if in_loop else -(-int(epoch) // BOUNDARIES)
    rate = (0.05 if factors else 200.0) if solver.rate == "auto" else float(solver.rate)
    schedule = ("adagrad" if factors else "sqrt") if solver.schedule == "auto" else solver.schedule
    draw = ("pairs" if factors else "queries") if solver.draw == "auto" else solver.draw
    adagrad = schedule == "adagrad"
    return Plan(
        int(draws),
        int(epoch),
        int(every),
        rate,
        solver.refit_rate or rate,
        "fixed" if adagrad else schedule,
        adagrad,
        draw,
    )


def _matches(data: Matching) -> int:
    return max(int(data.n_relevant.sum()) if data.labels is None else data.n_queries, 1)


def lists_of(data: Matching, solver: SGD, draw: str) -> MatchLists:
    """Return what can be drawn, how often, and how much it counts."""
    lists = match_lists(data)
    drawn = lists.queries
    if solver.negatives == "others":
        lists = dataclasses.replace(lists, any_other=True)
    if solver.weights == "relevance":
        values = member_values(data, lists).astype(np.float32)
        lists = dataclasses.replace(lists, member_weights=values)
    if draw == "pairs":
        sizes = np.diff(lists.list_ptr)[lists.list_of[drawn]]
        spare = sizes - (lists.itself[drawn] >= 0)
        return dataclasses.replace(lists, query_sums=_summed(spare, draw))
    if draw == "relevance":
        counts = _whole(member_values(data, lists))
        ends = np.concatenate(([0], np.cumsum(counts)))
        sums = ends[1:] - np.repeat(ends[lists.list_ptr[:-1]], np.diff(lists.list_ptr))
        totals = ends[lists.list_ptr[1:]] - ends[lists.list_ptr[:-1]]
        return dataclasses.replace(
            lists, member_sums=sums, query_sums=_summed(totals[lists.list_of[drawn]], draw)
        )
    return lists


def _summed(counts: Ints, draw: str) -> Ints:
    sums = np.cumsum(counts)
    if sums[-1] > MOST:
        raise DataError(
            f"draw={draw} has {sums[-1]} to choose from, and more than {MOST} cannot be told "
            "apart; take draw=queries."
        )
    return sums


def _whole(values: Floats) -> Ints:
    counts = np.rint(values)
    if np.any(counts != values):
        raise DataError(
            f"draw=relevance draws a match as often as it counts, and {values[counts != values][0]}"
            " is no whole number; take weights=relevance instead."
        )
    return counts.astype(np.int64)
