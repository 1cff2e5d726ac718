"""Listwise losses in SGD: lists of one positive and several sampled negatives.

Such a loss is invariant to a shift of all scores. So a list is determined by its margins
z_j = f(q, d+) - f(q, d_j). Kernels have the domination loss and native ones in their loops; a loss
written in Python is called for all lists of a batch if it is a `MarginListLoss`, else once per
list, which is slow.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from ranking.contracts.loss import (
    ListwiseForm,
    ListwiseLoss,
    Loss,
    MarginListLoss,
    SupportsSampledLists,
)
from ranking.contracts.solver import TrainingProblem
from ranking.errors import CombinationError, DivergenceError
from ranking.kernels.contract import Floats, Ints, ListSlopes
from ranking.kernels.listwise import ListTrainingLoss
from ranking.native import ListwiseFunctions

UNBALANCED = 1e-6
"""The largest sum of the slopes of a list, relative to their sizes, that rounding explains."""

ROUNDING = 1e-12
"""The absolute error of slopes that are differences of numbers near 1, as of a softmax."""


def list_training_loss(loss: Loss) -> ListTrainingLoss | None:
    """Return the loss as kernels have it in their loops, or None if it is written in Python."""
    if isinstance(loss.native, ListwiseFunctions):
        return ListTrainingLoss(ListwiseForm.NATIVE, functions=loss.native)
    if isinstance(loss, SupportsSampledLists):
        return ListTrainingLoss(*loss.sampled_list_form())
    return None


def check_shift_invariance(loss: Loss, n_negatives: int) -> None:
    """Refuse a loss that changes when all scores of a list are shifted."""
    grades = np.concatenate(([1.0], np.zeros(n_negatives)))
    scores = np.cos(np.arange(1.0, n_negatives + 2.0))
    slopes = np.asarray(cast(ListwiseLoss, loss).listwise_slopes(scores, grades))
    total, size = float(slopes.sum()), float(np.abs(slopes).sum())
    if np.isfinite(total) and abs(total) > UNBALANCED * size + ROUNDING:
        raise CombinationError(
            f"the slopes of loss {loss.name!r} add to {total:g}, so it is not invariant to a shift "
            "of all scores, which sgd requires to use margins; use a loss that compares scores."
        )


def list_slopes(problem: TrainingProblem, margins: Floats) -> ListSlopes:
    """Return the loss of each row of margins, and the slopes of the scores of its documents."""
    loss = list_training_loss(problem.loss)
    if loss is not None:
        result = problem.kernel.listwise.slopes(margins, loss, problem.threads)
    else:
        result = _in_python(cast(ListwiseLoss, problem.loss), margins)
    finite = np.isfinite(result.slopes).all(axis=1)
    if not finite.all():
        at = int(np.argmin(finite))
        raise DivergenceError(
            f"loss {problem.loss.name!r} has slopes {result.slopes[at]} at margins {margins[at]}; "
            "use a smaller learning_rate, or scale the features to unit length, unless the loss is "
            "wrong."
        )
    return result


def _in_python(loss: ListwiseLoss, margins: Floats) -> ListSlopes:
    """Call the loss for all lists if it takes margins, else once per list."""
    if isinstance(loss, MarginListLoss):
        below = -loss.margin_slopes(margins)
        return ListSlopes(loss.margin_values(margins), np.column_stack((-below.sum(axis=1), below)))
    scores = np.concatenate((np.zeros((margins.shape[0], 1)), -margins), axis=1)
    grades = np.concatenate(([1.0], np.zeros(margins.shape[1])))
    losses, slopes = np.empty(scores.shape[0]), np.empty(scores.shape)
    for at, row in enumerate(scores):
        losses[at] = loss.listwise_value(row, grades)
        slopes[at] = loss.listwise_slopes(row, grades)
    slopes[:, 0] = -slopes[:, 1:].sum(axis=1)
    return ListSlopes(losses, slopes)


def split_negatives(triplets: Ints) -> Ints:
    """Return one triplet per negative."""
    n = triplets.shape[1] - 2
    return np.column_stack((np.repeat(triplets[:, :2], n, axis=0), triplets[:, 2:].ravel()))
