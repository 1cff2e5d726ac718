"""Working sets of coordinate descent: all features, active ones, or induced ones.

A working set is swept until the objective stops decreasing; then it may grow. Training has
converged if it does not.
"""

from __future__ import annotations

import dataclasses
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import CoordinateProblem
from ranking.contracts.regularizer import EntryPenalty

Ints = NDArray[np.int64]


class Working(Protocol):
    """A working set; `columns` is its whole state."""

    columns: Ints

    def expand(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Grow the set after it has converged; return False if nothing is left to do.

        Parameters
        ----------
        least : float
            A decrease of the objective that is not worth a step.
        """

    def shrink(self, problem: CoordinateProblem) -> None:
        """Shrink the set after a sweep that decreased the objective."""


@dataclasses.dataclass
class Everything:
    """All features in every sweep."""

    columns: Ints

    def expand(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Return False: all features have been swept."""
        return False

    def shrink(self, problem: CoordinateProblem) -> None:
        """Keep the set."""


@dataclasses.dataclass
class Active:
    """The features with non-zero weights, and all features whenever those have converged."""

    columns: Ints

    def expand(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Return to all features, unless those were swept last."""
        all_swept = self.columns.size == problem.weights.size
        self.columns = np.arange(problem.weights.size)
        return not all_swept

    def shrink(self, problem: CoordinateProblem) -> None:
        """Keep the features with non-zero weights after a sweep over all."""
        if self.columns.size == problem.weights.size:
            self.columns = np.flatnonzero(problem.weights)


@dataclasses.dataclass
class Induced:
    """The induced features so far; whenever they have converged, the best `top` are added.

    The best are those with the largest guaranteed decrease of the objective by one step. When no
    guarantee exceeds `least`, training has converged.
    """

    columns: Ints
    top: int

    def expand(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Add the best features."""
        available = np.ones(problem.weights.size, dtype=bool)
        available[self.columns] = False
        others = np.flatnonzero(available)
        decrease = problem.decrease(others, penalty)
        helpful = np.flatnonzero(decrease > least)
        added = others[helpful[np.argsort(-decrease[helpful], kind="stable")[: self.top]]]
        self.columns = np.sort(np.concatenate([self.columns, added]))
        return added.size > 0

    def shrink(self, problem: CoordinateProblem) -> None:
        """Keep the set."""
