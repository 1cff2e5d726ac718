"""A loss of lists, as SGD takes it: a match against several documents that do not match.

Such a loss does not change when all scores of a list move alike. So the list of a match and of
what it is set against is known by its margins z_j = f(q, d+) - f(q, d_j), and the slope of a margin
is that of the score of d_j, with its sign turned.
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
"""The largest sum of a list's slopes, as a share of their sizes, that rounding could explain."""

ROUNDING = 1e-12
"""And beside it: slopes that are differences of numbers near 1, as of a softmax, are so exact."""


def list_losses(problem: TrainingProblem, margins: Floats) -> Floats:
    """Return the loss of each list; a row of margins is a list."""
    scores, grades = _scores(margins), _grades(margins)
    functions = _functions(problem.loss)
    if functions is not None:
        lists = GradedScores(_pointer(scores), scores.ravel(), np.tile(grades, scores.shape[0]))
        return problem.kernel.native.listwise_values(functions, lists, problem.threads)
    loss = cast(ListwiseLoss, problem.loss)
    return np.array([loss.listwise_value(row, grades) for row in scores])


def margin_slopes(problem: TrainingProblem, margins: Floats) -> Floats:
    """Return the derivative of each list's loss with respect to each of its margins."""
    scores, grades = _scores(margins), _grades(margins)
    functions = _functions(problem.loss)
    if functions is not None:
        lists = GradedScores(_pointer(scores), scores.ravel(), np.tile(grades, scores.shape[0]))
        flat = problem.kernel.native.listwise_slopes(functions, lists, problem.threads)
        found = flat.reshape(scores.shape)
    else:
        loss = cast(ListwiseLoss, problem.loss)
        found = np.array([loss.listwise_slopes(row, grades) for row in scores]).reshape(
            scores.shape
        )
    if not np.isfinite(found).all():
        at = int(np.argmin(np.isfinite(found).all(axis=1)))
        raise DivergenceError(
            f"loss {problem.loss.name!r} has slopes {found[at]} at scores {scores[at]}; lower the "
            "solver's rate, or scale the features to unit length, unless it is the loss that is "
            "at fault."
        )
    sums, sizes = found.sum(axis=1), np.abs(found).sum(axis=1)
    balanced = np.abs(sums) <= UNBALANCED * sizes + ROUNDING
    if not balanced.all():
        raise CombinationError(
            f"the slopes of loss {problem.loss.name!r} add to {sums[np.argmin(balanced)]:g}, so it "
            "changes when all scores move alike, and sgd cannot take it by margins; take a "
            "loss that compares scores."
        )
    return -found[:, 1:]


def _functions(loss: Loss) -> ListwiseFunctions | None:
    return loss.native if isinstance(loss.native, ListwiseFunctions) else None


def _pointer(scores: Floats) -> Ints:
    pointer: Ints = scores.shape[1] * np.arange(scores.shape[0] + 1)
    return pointer


def _grades(margins: Floats) -> Floats:
    return np.concatenate(([1.0], np.zeros(margins.shape[1])))


def _scores(margins: Floats) -> Floats:
    return np.concatenate((np.zeros((margins.shape[0], 1)), -margins), axis=1)


def as_pairs(tuples: Ints) -> Ints:
    """Return a tuple of one document that does not match for each that there is."""
    n = tuples.shape[1] - 2
    return np.column_stack((np.repeat(tuples[:, :2], n, axis=0), tuples[:, 2:].ravel()))
