"""Which features coordinate descent goes over next: all, the active ones, or induced ones.

A *working set* is swept until the objective stands still; then it may change. Training has
converged when it does not.
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
    """A working set; `columns` is all that a resumed run needs to know of it."""

    columns: Ints

    def settled(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Change the set after it stands still; return False if nothing is left to do.

        Parameters
        ----------
        least : float
            A decrease of the objective that does not count.
        """

    def moved(self, problem: CoordinateProblem) -> None:
        """Change the set after a sweep that decreased the objective."""


@dataclasses.dataclass
class Everything:
    """All features, always."""

    columns: Ints

    def settled(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """All have been gone over."""
        return False

    def moved(self, problem: CoordinateProblem) -> None:
        """Stay."""


@dataclasses.dataclass
class Active:
    """The features whose weights are not zero, and all of them once those stand still."""

    columns: Ints

    def settled(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Look at all features again, unless that was just done."""
        looked = self.columns.size == problem.weights.size
        self.columns = np.arange(problem.weights.size)
        return not looked

    def moved(self, problem: CoordinateProblem) -> None:
        """Keep to what is not zero after a look at all features."""
        if self.columns.size == problem.weights.size:
            self.columns = np.flatnonzero(problem.weights)


@dataclasses.dataclass
class Induced:
    """The features that were chosen so far; each time they stand still, the best `top` more.

    The best are those along which one step is guaranteed to decrease the objective the most. When
    none is guaranteed to decrease it by more than `least`, training has converged.
    """

    columns: Ints
    top: int

    def settled(self, problem: CoordinateProblem, penalty: EntryPenalty, least: float) -> bool:
        """Choose some more."""
        open_to_choice = np.ones(problem.weights.size, dtype=bool)
        open_to_choice[self.columns] = False
        others = np.flatnonzero(open_to_choice)
        decrease = problem.decrease(others, penalty)
        helpful = np.flatnonzero(decrease > least)
        chosen = others[helpful[np.argsort(-decrease[helpful], kind="stable")[: self.top]]]
        self.columns = np.sort(np.concatenate([self.columns, chosen]))
        return chosen.size > 0

    def moved(self, problem: CoordinateProblem) -> None:
        """Stay."""
