"""The squared error of grades: linear regression on judged rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ranking.contracts.loss import Array, CoordinateProblem, Loss, LossInterface
from ranking.contracts.parameters import choice
from ranking.kernels.contract import Ints
from ranking.kernels.domination import Columns
from ranking_plugins.losses.list_problem import ListProblem
from ranking_plugins.losses.row_columns import root_mean_squares

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class SquaredGrades(Loss):
    """Mean over all rows of ``(grade - b - f)**2``, at the best intercept b.

    The intercept orders nothing, so it is not part of the model: grades and scores are compared
    after their means are taken out.

    Parameters
    ----------
    intercept : {"global", "query"}
        One b for all rows, as in regression on single documents, or one for each query; then the
        loss compares documents of one query only, as the other losses do.
    """

    name: ClassVar[str] = "squared-grades"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"coordinate"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": "the loss is the error of single scores, not a function of a margin; with "
        "margins it would be the squared error of differences of grades",
        "listwise": "all rows share one intercept, so the loss is not a sum over lists",
        "linear": "the loss is not linear in the scores",
    }

    intercept: str = choice("global", "global", "query")

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> SquaredRows:
        """Prepare all rows."""
        ptr = data.group_ptr if self.intercept == "query" else data.group_ptr[[0, -1]]
        return SquaredRows(np.asarray(data.grades, np.float64), np.asarray(ptr, np.int64))

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> CoordinateProblem:
        """Prepare the data by columns."""
        return ListProblem(self.whole_lists(data, kernel), data, weights, kernel, curvature)


@dataclasses.dataclass(frozen=True)
class SquaredRows:
    """All rows in the groups that share an intercept.

    Implements :class:`ranking_plugins.losses.whole_lists.WholeLists`.
    """

    grades: Array
    list_ptr: Ints

    @cached_property
    def rows(self) -> Ints:
        """All rows of the data."""
        return np.arange(self.grades.size)

    @cached_property
    def sizes(self) -> Ints:
        """The number of rows of each group."""
        return np.diff(self.list_ptr)

    @cached_property
    def shares(self) -> Array:
        """The share of the rows of each group."""
        shares: Array = self.sizes / self.grades.size
        return shares

    def value(self, scores: Array, threads: int) -> float:
        """Return the mean squared error."""
        return self.slopes(scores)[0]

    def slopes(self, scores: Array) -> tuple[float, Array]:
        """Return the mean squared error, and its derivative with respect to each score."""
        errors = scores - self.grades
        means = np.add.reduceat(errors, self.list_ptr[:-1]) / self.sizes
        errors = errors - np.repeat(means, self.sizes)
        return float(np.square(errors).mean()), 2.0 * errors / errors.size

    def list_slopes(self, at: int, scores: Array) -> tuple[float, Array]:
        """Return the mean squared error of one group, and its derivatives."""
        own = slice(int(self.list_ptr[at]), int(self.list_ptr[at + 1]))
        errors = scores - self.grades[own]
        errors = errors - errors.mean()
        return float(np.square(errors).mean()), 2.0 * errors / errors.size

    def curvature_bounds(self, columns: Columns) -> Array:
        """Return the second derivative along each column, twice its mean square."""
        bounds: Array = 2.0 * root_mean_squares(columns) ** 2
        return bounds
