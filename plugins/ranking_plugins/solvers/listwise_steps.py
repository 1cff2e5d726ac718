"""Listwise losses in SGD: lists of one positive and several sampled negatives.

Such a loss is invariant to a shift of all scores. So a list is determined by its margins
z_j = f(q, d+) - f(q, d_j), and the slope of a margin is minus that of the score of d_j.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ranking.contracts.loss import ListwiseLoss, Loss
from ranking.contracts.solver import TrainingProblem
from ranking.errors import CombinationError, DivergenceError
from ranking.kernels.contract import Floats, GradedScores, Ints
from ranking.native import ListwiseFunctions

UNBALANCED = 1e-6
"""The largest sum of the slopes of a list, relative to their sizes, that rounding explains."""

ROUNDING = 1e-12
"""The absolute error of slopes that are differences of numbers near 1, as of a softmax."""


def listwise_losses(problem: TrainingProblem, margins: Floats) -> Floats:
    """Return the loss of each list; each row of margins is a list."""
    scores, grades = _scores(margins), _grades(margins)
    functions = _functions(problem.loss)
    if functions is not None:
        lists = GradedScores(_pointer(scores), scores.ravel(), np.tile(grades, scores.shape[0]))
        return problem.kernel.native.listwise_values(functions, lists, problem.threads)
    loss = cast(ListwiseLoss, problem.loss)
    return np.array([loss.listwise_value(row, grades) for row in scores])


def margin_slopes(problem: TrainingProblem, margins: Floats) -> Floats:
    """Return the derivative of the loss of each list with respect to each of its margins."""
    scores, grades = _scores(margins), _grades(margins)
    functions = _functions(problem.loss)
    if functions is not None:
        lists = GradedScores(_pointer(scores), scores.ravel(), np.tile(grades, scores.shape[0]))
        flat = problem.kernel.native.listwise_slopes(functions, lists, problem.threads)
        slopes = flat.reshape(scores.shape)
    else:
        loss = cast(ListwiseLoss, problem.loss)
        slopes = np.array([loss.listwise_slopes(row, grades) for row in scores]).reshape(
            scores.shape
        )
    if not np.isfinite(slopes).all():
        at = int(np.argmin(np.isfinite(slopes).all(axis=1)))
        raise DivergenceError(
            f"loss {problem.loss.name!r} has slopes {slopes[at]} at scores {scores[at]}; use a "
            "smaller learning_rate, or scale the features to unit length, unless the loss is wrong."
        )
    sums, sizes = slopes.sum(axis=1), np.abs(slopes).sum(axis=1)
    balanced = np.abs(sums) <= UNBALANCED * sizes + ROUNDING
    if not balanced.all():
        raise CombinationError(
            f"the slopes of loss {problem.loss.name!r} add to {sums[np.argmin(balanced)]:g}, so it "
            "is not invariant to a shift of all scores, which sgd requires to use margins; use a "
            "loss that compares scores."
        )
    return -slopes[:, 1:]


def _functions(loss: Loss) -> ListwiseFunctions | None:
    return loss.native if isinstance(loss.native, ListwiseFunctions) else None


def _pointer(scores: Floats) -> Ints:
    pointer: Ints = scores.shape[1] * np.arange(scores.shape[0] + 1)
    return pointer


def _grades(margins: Floats) -> Floats:
    return np.concatenate(([1.0], np.zeros(margins.shape[1])))


def _scores(margins: Floats) -> Floats:
    return np.concatenate((np.zeros((margins.shape[0], 1)), -margins), axis=1)


def split_negatives(triplets: Ints) -> Ints:
    """Return one triplet per negative."""
    n = triplets.shape[1] - 2
    return np.column_stack((np.repeat(triplets[:, :2], n, axis=0), triplets[:, 2:].ravel()))
