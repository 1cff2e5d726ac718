"""The settings of SGD with "auto" resolved: steps, sampling and learning rates."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from ranking.contracts.loss import SharedNegativesLoss
from ranking.contracts.regularizer import OrthogonalColumns, kernel_forms
from ranking.contracts.solver import TrainingProblem
from ranking.data.judged_lists import JudgedLists
from ranking.data.matching_data import MatchingData
from ranking.data.triplets import member_values, positive_lists
from ranking.errors import DataError
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.sampling import MAX_COUNT, PositiveLists
from ranking.models.bilinear import Diagonal

if TYPE_CHECKING:
    from ranking_plugins.solvers.sgd import SGD

EPOCHS = 10
"""Passes over the positives, if neither epochs nor max_steps is set."""

NEGATIVES, SHARED_NEGATIVES = 10, 1024
"""Negatives per positive of a listwise loss; and where the positives of a block share them."""

SHARED_BATCH = 1024
"""The default number of positives of a block that share negatives."""

SHARED_RATE = 0.03
"""The learning rate of Adam for embeddings."""

BOUNDARIES = 16
"""The least number of applications of a penalty per epoch, if a kernel's loop does not have it."""

SWEEP_INTERVAL = 100
"""Steps between two applications of a penalty to a matrix, at least if that is a sweep over its
entries; in the loop of a kernel it is none."""

MAX_EVALUATED, MIN_EVALUATED, EVALUATED_SHARE = 16384, 512, 16
"""The loss is reported for a sixteenth of the triplets of an epoch, within these limits."""


@dataclasses.dataclass(frozen=True)
class SgdSettings:
    """The parameters of `SGD` without "auto".

    Attributes
    ----------
    adagrad : bool
        Whether every parameter has its own learning rate, which decreases with its gradients.
    adam : bool
        Whether steps are those of Adam.
    n_negatives : int
        Negatives per positive of a listwise loss.
    evaluation_count : int
        The number of triplets whose mean loss is reported.
    """

    max_steps: int
    steps_per_epoch: int
    prox_interval: int
    learning_rate: float
    refit_learning_rate: float
    schedule: str
    adagrad: bool
    adam: bool
    n_negatives: int
    sampling: str
    evaluation_count: int


def resolve_settings(solver: SGD, problem: TrainingProblem) -> SgdSettings:
    """Resolve "auto": the values of the paper for a matrix, those of recommenders for factors."""
    factors = problem.model.form == "factors"
    steps, epoch, interval = solver.max_steps, solver.steps_per_epoch, solver.prox_interval
    if "auto" in (steps, epoch):
        one_pass = _one_pass(problem)
        epoch = one_pass if epoch == "auto" else epoch
        if solver.epochs != "auto":
            steps = int(solver.epochs) * int(epoch)
        elif steps == "auto":
            steps = EPOCHS * one_pass
    if interval == "auto" and takes_whole_lists(problem):
        interval = 1
    elif interval == "auto":
        interval = -(-int(epoch) // BOUNDARIES)
        if not factors:
            in_loop = "matrix" in kernel_forms(problem.regularizer)
            interval = SWEEP_INTERVAL if in_loop else min(_steps_per_sweep(problem), interval)
    if shares_negatives(problem):  # whole blocks, which a penalty must not cut
        block = SHARED_BATCH if solver.batch_size == "auto" else int(solver.batch_size)
        interval = -(-int(interval) // block) * block
    rate = _default_rate(problem) if solver.learning_rate == "auto" else float(solver.learning_rate)
    schedule = _default_schedule(problem) if solver.schedule == "auto" else solver.schedule
    sampling = (
        ("positives" if factors else "queries") if solver.sampling == "auto" else solver.sampling
    )
    adagrad, adam = schedule == "adagrad", schedule == "adam"
    return SgdSettings(
        int(steps),
        int(epoch),
        int(interval),
        rate,
        solver.refit_learning_rate or rate,
        "constant" if adagrad or adam else schedule,
        adagrad,
        adam,
        _n_negatives(solver, problem),
        sampling,
        min(
            _n_pairs(problem), max(MIN_EVALUATED, min(MAX_EVALUATED, int(epoch) // EVALUATED_SHARE))
        ),
    )


def takes_whole_lists(problem: TrainingProblem) -> bool:
    """Return whether a step takes a whole judged list: for a listwise loss."""
    return problem.model.form == "vector" and "pairwise" not in problem.loss.interfaces


def _steps_per_sweep(problem: TrainingProblem) -> int:
    """Return the steps that read about as many entries as the matrix or vector of weights has.

    The more often a penalty is applied, the closer training comes to the minimum. A sweep that
    applies it takes as long as these steps.
    """
    data = problem.data
    if isinstance(data, JudgedLists):
        width = data.features.shape[1]
        stored = data.features.nnz / max(data.n_rows, 1) if sp.issparse(data.features) else width
        return _interval(width, 2.0 * stored)
    queries, documents = (
        rows.nnz / max(rows.shape[0], 1) for rows in (data.query_rows, data.document_rows)
    )
    n_features = data.query_feature_ids.size, data.document_feature_ids.size
    if isinstance(problem.model, Diagonal):
        return _interval(min(n_features), 2.0 * min(queries, documents))
    return _interval(n_features[0] * n_features[1], 2.0 * queries * documents)


def _interval(entries: int, read: float) -> int:
    return max(SWEEP_INTERVAL, -(-entries // max(int(read), 1)))


def shares_negatives(problem: TrainingProblem) -> bool:
    """Return whether the positives of a block share their negatives."""
    return problem.model.name == "factored" and isinstance(problem.loss, SharedNegativesLoss)


def _n_negatives(solver: SGD, problem: TrainingProblem) -> int:
    if solver.n_negatives != "auto":
        return int(solver.n_negatives)
    return SHARED_NEGATIVES if shares_negatives(problem) else NEGATIVES


def _default_schedule(problem: TrainingProblem) -> str:
    if shares_negatives(problem):
        return "adam"
    return "adagrad" if problem.model.form == "factors" else "inverse-sqrt"


def _one_pass(problem: TrainingProblem) -> int:
    """Return the number of steps of an epoch for "auto"."""
    if problem.model.form == "factors":
        return _n_positives(cast(MatchingData, problem.data))
    if takes_whole_lists(problem):
        return min(max(cast(JudgedLists, problem.data).n_queries, 1000), 10_000)
    return 10_000


def _default_rate(problem: TrainingProblem) -> float:
    """Return C for "auto".

    Embeddings of a fixed scale start as long as they end: steps rotate them and cannot outgrow
    their random start, so they have to be longer.
    """
    if problem.model.form != "factors":
        return 200.0
    if shares_negatives(problem):
        return SHARED_RATE
    return 0.3 if isinstance(problem.regularizer, OrthogonalColumns) else 0.05


def _n_positives(data: MatchingData) -> int:
    return max(int(data.n_relevant.sum()) if data.labels is None else data.n_queries, 1)


def _n_pairs(problem: TrainingProblem) -> int:
    """Return the number of queries and positives, or of judged rows."""
    if isinstance(problem.data, JudgedLists):
        return max(problem.data.n_rows, 1)
    return max(int(problem.data.n_relevant.sum()), 1)


def sampling_lists(data: MatchingData, solver: SGD, sampling: str) -> PositiveLists:
    """Return the positives to sample from, with their frequencies and weights."""
    lists = positive_lists(data)
    queries = lists.queries
    if solver.negatives == "any":
        lists = dataclasses.replace(lists, any_negative=True)
    if solver.weighting == "relevance":
        values = member_values(data, lists).astype(np.float32)
        lists = dataclasses.replace(lists, member_weights=values)
    if sampling == "positives":
        sizes = np.diff(lists.member_ptr)[lists.list_of[queries]]
        counts = sizes - (lists.own_document[queries] >= 0)
        return dataclasses.replace(lists, query_sums=_cumulative(counts, sampling))
    if sampling == "weighted":
        counts = _integers(member_values(data, lists))
        ends = np.concatenate(([0], np.cumsum(counts)))
        sums = ends[1:] - np.repeat(ends[lists.member_ptr[:-1]], np.diff(lists.member_ptr))
        totals = ends[lists.member_ptr[1:]] - ends[lists.member_ptr[:-1]]
        return dataclasses.replace(
            lists,
            member_sums=sums,
            query_sums=_cumulative(totals[lists.list_of[queries]], sampling),
        )
    return lists


def _cumulative(counts: Ints, sampling: str) -> Ints:
    sums = np.cumsum(counts)
    if sums[-1] > MAX_COUNT:
        raise DataError(
            f"sampling={sampling} has {sums[-1]} pairs, and the limit is {MAX_COUNT}; "
            "use sampling=queries."
        )
    return sums


def _integers(values: Floats) -> Ints:
    """Return whole numbers in proportion to the values; values that are whole are themselves."""
    counts = np.rint(values)
    if np.any(counts != values):
        scale = (MAX_COUNT // 2 - values.size) / values.sum()
        counts = np.maximum(np.rint(scale * values), 1.0)
    return counts.astype(np.int64)
