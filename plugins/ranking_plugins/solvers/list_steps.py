"""A loss of lists, as SGD takes it: a match against several documents that do not match.

Such a loss does not change when all scores of a list move alike. So the list of a match and of
what it is set against is known by its margins z_j = f(q, d+) - f(q, d_j), and the slope of a margin
is that of the score of d_j, with its sign turned.
"""

from __future__ import annotations

import numpy as np

from ranking.contracts.loss import ListLoss
from ranking.errors import CombinationError
from ranking.kernels.contract import Floats, Ints

UNBALANCED = 1e-6
"""The largest sum of a list's slopes, as a share of their sizes, that rounding could explain."""


def list_losses(loss: ListLoss, margins: Floats) -> Floats:
    """Return the loss of each list; a row of margins is a list."""
    grades = _grades(margins)
    return np.array([loss.list_value(_scores(row), grades) for row in margins])


def margin_slopes(loss: ListLoss, margins: Floats) -> Floats:
    """Return the derivative of each list's loss with respect to each of its margins."""
    grades, slopes = _grades(margins), np.empty(margins.shape)
    for row, out in zip(margins, slopes, strict=True):
        found = loss.list_slopes(_scores(row), grades)
        if not abs(found.sum()) <= UNBALANCED * np.abs(found).sum():
            raise CombinationError(
                f"the slopes of loss {getattr(loss, 'name', loss)!r} add to {found.sum():g}, so it "
                "changes when all scores move alike, and sgd cannot take it by margins; take a "
                "loss that compares scores."
            )
        out[:] = -found[1:]
    return slopes


def _grades(margins: Floats) -> Floats:
    return np.concatenate(([1.0], np.zeros(margins.shape[1])))


def _scores(margins: Floats) -> Floats:
    return np.concatenate(([0.0], -margins))


def as_pairs(tuples: Ints) -> Ints:
    """Return a tuple of one document that does not match for each that there is."""
    n = tuples.shape[1] - 2
    return np.column_stack((np.repeat(tuples[:, :2], n, axis=0), tuples[:, 2:].ravel()))
