"""The domination loss: an item against everything that it must outrank.

Stevens, Efficient Coordinate Descent for Ranking with Domination Loss (MIT, 2010).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.loss import Face, Loss
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import DataError, PartError
from ranking.kernels.contract import LANES
from ranking.kernels.lists import Lists

if TYPE_CHECKING:
    from ranking.data.judged import Judged
    from ranking.kernels.kernel import Columns, Kernel

Array = NDArray[np.float64]
FIRST_RADIUS = 0.1
"""Longest first step along a feature, times its range: correlated features then share a weight
in the first epoch, instead of the first of them taking all of it."""

ROWS_FOR_THREADS = 250_000
"""Below this a step along a feature is over before other threads have woken up; the result is the
same either way."""

TILE = 4096
"""Rows that are transposed at a time, so that both sides stay in cache."""


@dataclasses.dataclass
class Domination(Loss):
    """Mean over dominating items i of ``log(1 + sum_j exp(f_j - f_i))``, j graded below i.

    Items of the lowest grade of a list dominate nothing; with K grades there are K layers, each
    against all that are below it. The mean makes the strength of a regularizer independent of the
    amount of data.

    Parameters
    ----------
    queries : {"apart", "pooled"}
        Whether items are compared within their query, or all items with all (as in the paper's
        LETOR experiments).
    """

    name: ClassVar[str] = "domination"
    faces: ClassVar[frozenset[Face]] = frozenset({"list", "coordinate"})

    queries: Literal["apart", "pooled"] = "apart"

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.queries not in ("apart", "pooled"):
            raise PartError(f"domination has queries={self.queries!r}; say apart or pooled.")

    def list_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list: a sum, not a mean."""
        terms, _ = self._terms(scores, grades)
        return float(np.logaddexp(0.0, terms).sum())

    def list_slopes(self, scores: Array, grades: Array) -> Array:
        """Return its derivative: an item is pushed up by its own term, down by those above it."""
        terms, above = self._terms(scores, grades)
        lost = np.exp(-np.logaddexp(0.0, -terms))  # probability that an item loses
        with np.errstate(invalid="ignore"):
            share = np.where(above, scores[None, :] - (terms + scores)[:, None], -np.inf)
        pushed: Array = (lost[:, None] * np.exp(share)).sum(axis=0)
        return pushed - lost

    @staticmethod
    def _terms(scores: Array, grades: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Return log sum_j exp(f_j - f_i) for each item i (-inf if it dominates nothing)."""
        above = grades[:, None] > grades[None, :]
        below = np.where(above, scores[None, :] - scores[:, None], -np.inf)
        return np.logaddexp.reduce(below, axis=1, initial=-np.inf), above

    def coordinate_problem(
        self, data: Judged, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> DominationProblem:
        """Lay the data out by layers and columns."""
        return DominationProblem(self, data, weights, kernel, threads, curvature)


class DominationProblem:
    """The domination loss over one data set, seen along its features.

    Implements :class:`ranking.contracts.loss.CoordinateProblem`.

    Parameters
    ----------
    curvature : {"newton", "popoviciu", "paper"}
        What bounds the second derivative along a feature: the current curvature within a radius
        where that is a bound, else Popoviciu's; Popoviciu's, a quarter of the squared range
        (max - min); or the paper's, the largest square.
    """

    def __init__(
        self,
        loss: Domination,
        data: Judged,
        weights: Array,
        kernel: Kernel,
        threads: int,
        curvature: str,
    ) -> None:
        if curvature not in ("newton", "popoviciu", "paper"):
            raise PartError(f"curvature is {curvature!r}; say newton, popoviciu or paper.")
        sparse = sp.issparse(data.features)
        groups = data.group_ptr if loss.queries == "apart" else data.group_ptr[[0, -1]]
        lists = Lists.build(groups, data.grades, np.ones(data.n_rows), pad=1 if sparse else LANES)
        if lists.n_lists == 0:
            raise DataError(
                f"no query has two different grades ({data.n_queries} queries, "
                f"{data.n_rows} rows), so there is nothing to rank; check the grades."
            )
        self.lists = dataclasses.replace(lists, omega=lists.omega / lists.omega.sum())
        self.features = _by_column(data, self.lists)
        self.kernel, self.newton = kernel, curvature == "newton"
        self.threads = threads if self.lists.n_rows >= ROWS_FOR_THREADS else 1
        popoviciu, paper, reach, peak = kernel.domination_bounds(
            self.features, self.lists, threads=threads
        )
        self.bounds = np.stack([paper if curvature == "paper" else popoviciu, reach, peak])
        # A feature that does not vary within any list cannot order anything.
        self.weights = np.where(self.bounds[0] > 0.0, weights, 0.0)
        self.margins = _margins(self.features, self.weights)
        self.radius = FIRST_RADIUS / np.where(reach > 0.0, reach, 1.0)

    def value(self) -> float:
        """Return the loss at the current weights."""
        return self.kernel.domination_value(self.lists, self.margins, threads=self.threads)

    def slopes(self, columns: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return gradient and second derivative along each of these features."""
        return self.kernel.domination_slopes(
            self.features, self.lists, self.margins, columns, threads=self.threads
        )

    def sweep(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> None:
        """Take one step along each of these features."""
        self.kernel.domination_sweep(
            self.features,
            self.lists,
            self.margins,
            self.weights,
            self.radius,
            self.bounds,
            columns,
            l1=penalty.l1,
            l2=penalty.l2,
            newton=self.newton,
            threads=self.threads,
        )

    def state(self) -> dict[str, Array]:
        """Return weights, margins and radii."""
        return {
            "weights": self.weights.copy(),
            "margins": self.margins.copy(),
            "radius": self.radius.copy(),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Go back to weights, margins and radii."""
        self.weights[:] = state["weights"]
        self.margins[:] = state["margins"]
        self.radius[:] = state["radius"]


def _by_column(data: Judged, lists: Lists) -> Columns:
    """Return the features in the layout's order of rows, column by column."""
    features = data.features
    if isinstance(features, sp.csr_array):
        columns = sp.csc_array(features[lists.source])
        columns.sort_indices()
        return columns
    laid_out = np.zeros((lists.n_rows, features.shape[1]), dtype=features.dtype, order="F")
    for start in range(0, lists.n_rows, TILE):
        source = lists.source[start : start + TILE]
        tile = features[source]
        tile[source < 0] = 0.0
        laid_out[start : start + TILE] = tile
    return laid_out


def _margins(features: Columns, weights: Array) -> Array:
    """Return features @ weights, column after column: the same bits whatever BLAS there is."""
    margins = np.zeros(features.shape[0])
    for column in np.flatnonzero(weights):
        if isinstance(features, sp.csc_array):
            entries = slice(features.indptr[column], features.indptr[column + 1])
            margins[features.indices[entries]] += features.data[entries] * weights[column]
        else:
            margins += features[:, column] * weights[column]
    return margins
