"""The domination loss: an item against everything that it must outrank.

Stevens, Efficient Coordinate Descent for Ranking with Domination Loss (MIT, 2010).
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.loss import Loss, LossInterface
from ranking.contracts.parameters import choice, integer, number
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import DataError, PartError
from ranking.kernels.contract import LANES, CoordinateState
from ranking.kernels.domination import LayeredLists, SparseColumns
from ranking.kernels.validation import read_only
from ranking_plugins.losses.emphasis import (
    MARGINS,
    WEIGHTS,
    boundary_margins,
    dominating,
    margins_by_grade,
    parse_boundaries,
    reorder_values,
    validate_values,
    weights_by_grade,
)
from ranking_plugins.losses.layout import Layout, by_layer, sampled

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.domination import Columns
    from ranking.kernels.kernel import Kernel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

GIVEN = "given"
"""How an array is spelled in a spec."""

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
    """Mean over dominating items i of ``log(1 + sum_j exp(f_j - f_i + Delta_ij))``, j below i.

    Items of the lowest grade of a list dominate nothing; with K grades there are K layers, each
    against all that are below it. The mean is weighted by omega_i; being a mean, it makes the
    strength of a regularizer independent of the amount of data.

    Parameters
    ----------
    queries : {"separate", "pooled"}
        Whether items are compared within their query, or all items with all (as in the paper's
        LETOR experiments).
    weights : {"one", "gain", "query"} or array
        The weight omega of a dominating item: 1; its gain 2**grade - 1; such that every query has
        the same weight; or one value for each row of the data, as they were given.
    margin : {"none", "grade", "log", "layers"} or array
        By how much an item must stand above another, Delta_ij = s_i - s_j: s is slope * grade +
        offset, or slope * log(grade) + offset, and 0 for items that dominate nothing; or one
        value for each row. "layers" is Delta_ij = the margin of i's grade in `boundaries`.
    slope, offset : float
        Of the margins by grade.
    boundaries : str or sequence of float
        For margin="layers": the margin that items of grade 1, 2, ... have to all below them, as
        in ``"0.5+1"``.
    negatives : float
        The share of the items of the lowest grade that are kept, at least one a list. Those kept
        stand for the others, so that the loss stays about the same.
    seed : int
        Which of them are kept.
    """

    name: ClassVar[str] = "domination"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise", "coordinate"})

    queries: Literal["separate", "pooled"] = choice("separate", "separate", "pooled")
    weights: str | Array = "one"
    margin: str | Array | None = "none"
    slope: float = number(1.0)
    offset: float = number(0.0)
    boundaries: str | Sequence[float] = ""
    negatives: float = number(1.0, above=0.0, maximum=1.0)
    seed: int = integer(0, minimum=0)

    def _setup(self) -> None:
        if self.margin is None:  # as a spec reads the word none
            self.margin = "none"
        for name, words in (("weights", WEIGHTS), ("margin", MARGINS)):
            value = getattr(self, name)
            if not isinstance(value, str):
                setattr(self, name, validate_values(name, value))
            elif value not in (*words, GIVEN):
                raise PartError(
                    f"domination has {name}={value!r}; say {', '.join(words)}, or give an array."
                )
        if not isinstance(self.weights, str) and np.any(self.weights < 0.0):
            raise PartError("domination has weights below 0; a weight is 0 or more.")
        self._boundaries = parse_boundaries(self.boundaries) if self.margin_is("layers") else ()

    def margin_is(self, kind: str) -> bool:
        """Say whether the margin is of this kind."""
        return isinstance(self.margin, str) and self.margin == kind

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name; boundaries as they are spelled."""
        boundaries = "+".join(map(repr, self._boundaries)) or self.boundaries
        return {**super().get_params(deep), "boundaries": boundaries}

    def spec(self) -> str:
        """Spell the part: arrays as ``given``."""
        told = copy.copy(self)
        for name in ("weights", "margin"):
            if not isinstance(getattr(self, name), str):
                setattr(told, name, GIVEN)
        return super(Domination, told).spec()

    def idle(self) -> set[str]:
        """Return what the kind of margin and a whole sample leave without effect."""
        idle = set() if self.margin_is("grade") or self.margin_is("log") else {"slope", "offset"}
        idle |= set() if self.margin_is("layers") else {"boundaries"}
        return idle | (set() if self.negatives < 1.0 else {"negatives", "seed"})

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list: a weighted sum, not a mean."""
        terms, _, omega = self._terms(scores, grades)
        return float((omega * np.logaddexp(0.0, terms)).sum())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return its derivative: an item is pushed up by its own term, down by those above it."""
        terms, below, omega = self._terms(scores, grades)
        lost = omega * np.exp(-np.logaddexp(0.0, -terms))  # omega times the probability to lose
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(below), below - terms[:, None], -np.inf)
        pushed: Array = (lost[:, None] * np.exp(share)).sum(axis=0)
        return pushed - lost

    def _terms(self, scores: Array, grades: Array) -> tuple[Array, Array, Array]:
        """Return log sum_j exp(below_ij) for each item i, below_ij = f_j - f_i + Delta_ij, omega.

        What i does not dominate is -inf in `below`; so is the term of an item without any.
        """
        one_list = np.array([0, grades.size])
        above = dominating(grades, one_list)
        omega = np.where(above, self._omega(grades, above, np.zeros(grades.size, np.int64)), 0.0)
        own, other = self._margins(grades, above)
        below = np.where(
            grades[:, None] > grades[None, :],
            (scores - other)[None, :] - (scores - own)[:, None],
            -np.inf,
        )
        return np.logaddexp.reduce(below, axis=1, initial=-np.inf), below, omega

    def _omega(
        self, grades: Array, above: Flags, query: Ints, row_order: Ints | None = None
    ) -> Array:
        """Return the weight of each row."""
        if isinstance(self.weights, str) and self.weights != GIVEN:
            return weights_by_grade(self.weights, grades, above, query)
        return self._given("weights", row_order)

    def _margins(
        self, grades: Array, above: Flags, row_order: Ints | None = None
    ) -> tuple[Array, Array]:
        """Return s of each row as a dominating and as a dominated one: Delta_ij = s_i - s'_j."""
        if self.margin_is("none"):
            return (np.zeros(grades.size),) * 2
        if self.margin_is("layers"):
            return boundary_margins(self._boundaries, grades, above), np.zeros(grades.size)
        if isinstance(self.margin, str) and self.margin != GIVEN:
            own = margins_by_grade(self.margin, grades, above, self.slope, self.offset)
        else:
            own = self._given("margin", row_order)
        return own, own

    def _given(self, name: str, row_order: Ints | None) -> Array:
        """Return what was given for each row, for all data; a single list has no such rows."""
        values = getattr(self, name)
        if isinstance(values, str) or row_order is None:
            raise PartError(
                f"domination has {name}=given, and there is no array of them here; give "
                f"Domination({name}=array) to a ranker of judged rows."
            )
        return reorder_values(name, values, row_order)

    def layout(self, data: JudgedLists, kernel: Kernel) -> Layout:
        """Return the rows as the kernel's lists take them: which, in which lists, how weighted."""
        group_ptr = data.group_ptr if self.queries == "separate" else data.group_ptr[[0, -1]]
        grades = data.grades
        above = dominating(grades, group_ptr)
        omega = self._omega(grades, above, data.row_groups, data.row_order)
        own, other = self._margins(grades, above, data.row_order)
        whole = Layout(np.arange(data.n_rows), group_ptr, grades, omega, other)
        if self.negatives < 1.0:
            draws = kernel.random.uniform(self.seed, 0, data.n_rows)
            whole = sampled(whole, draws, above, self.negatives)
        return whole if own is other else by_layer(whole, own)

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
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
        data: JudgedLists,
        weights: Array,
        kernel: Kernel,
        threads: int,
        curvature: str,
    ) -> None:
        if curvature not in ("newton", "popoviciu", "paper"):
            raise PartError(f"curvature is {curvature!r}; say newton, popoviciu or paper.")
        sparse = sp.issparse(data.features)
        laid = loss.layout(data, kernel)
        lists = LayeredLists.build(
            laid.group_ptr, laid.grades, laid.omega, pad=1 if sparse else LANES
        )
        if lists.n_lists == 0:
            raise DataError(
                f"no query has two different grades ({data.n_queries} queries, "
                f"{data.n_rows} rows), so there is nothing to rank; check the grades."
            )
        total = lists.omega.sum()
        if not total > 0.0:
            raise DataError(
                "every dominating item has weight 0, so there is nothing to learn; check the "
                "weights, and with weights=gain the grades."
            )
        self.lists = dataclasses.replace(
            lists,
            omega=read_only(lists.omega / total),
            source=read_only(np.where(lists.source >= 0, laid.rows[lists.source], -1)),
        )
        self.features = _by_column(data, self.lists)
        self.kernel, self.newton = kernel, curvature == "newton"
        self.threads = threads if self.lists.n_rows >= ROWS_FOR_THREADS else 1
        popoviciu, paper, reach, peak = kernel.domination.bounds(
            self.features, self.lists, threads=threads
        )
        self.bounds = np.stack([paper if curvature == "paper" else popoviciu, reach, peak])
        # A feature that does not vary within any list cannot order anything.
        self.weights = np.where(self.bounds[0] > 0.0, weights, 0.0)
        self.margins = _margins(self.features, self.weights) - lists.take(laid.offset)
        self.radius = FIRST_RADIUS / np.where(reach > 0.0, reach, 1.0)
        self._taken: tuple[Ints, Columns] = (np.full(1, -1), self.features)

    def value(self) -> float:
        """Return the loss at the current weights."""
        return self.kernel.domination.value(self.lists, self.margins, threads=self.threads)

    def slopes(self, columns: NDArray[np.int64]) -> tuple[Array, Array]:
        """Return gradient and second derivative along each of these features."""
        return self.kernel.domination.slopes(
            self.features, self.lists, self.margins, columns, threads=self.threads
        )

    def decrease(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> Array:
        """Return the guaranteed decrease of a step along features of weight 0.

        With G the gradient less l1 (or 0), a step t decreases the objective by G t less a bound
        on the curvature's share, beta t**2 / 2 or h (exp(R t) - R t - 1) / R**2, and less
        l2 t**2 / 2. The first is best at G / (beta + l2); the second, without l2, at
        log(1 + a) / R, a = G R / h, where it comes to ((1 + a) log(1 + a) - a) h / R**2.
        """
        gradient, h = self.slopes(columns)
        beta, reach = self.bounds[0, columns], self.bounds[1, columns]
        pull = np.maximum(np.abs(gradient) - penalty.l1, 0.0)
        helps = (beta > 0.0) & (pull > 0.0)
        safe = np.where(helps, beta, 1.0)
        quadratic = pull * pull / (2.0 * (safe + penalty.l2))
        h, reach = np.where(helps & (h > 0.0), h, safe), np.where(helps, reach, 1.0)
        a = pull * reach / h
        t = np.log1p(a) / reach
        newton = ((1.0 + a) * np.log1p(a) - a) * h / (reach * reach) - 0.5 * penalty.l2 * t * t
        return np.where(helps, np.maximum(quadratic, newton), 0.0)

    def sweep(self, columns: NDArray[np.int64], penalty: EntryPenalty) -> None:
        """Take one step along each of these features.

        A few features are taken out first, so that checks and caches see them alone.
        """
        if 2 * columns.size > self.weights.size:
            self._sweep(self.features, self.weights, self.radius, self.bounds, columns, penalty)
            return
        chosen = np.unique(columns)
        if not np.array_equal(chosen, self._taken[0]):
            self._taken = chosen, _taken(self.features, chosen)
        weights, radius = self.weights[chosen], self.radius[chosen]
        bounds = np.ascontiguousarray(self.bounds[:, chosen])
        places = np.searchsorted(chosen, columns)
        self._sweep(self._taken[1], weights, radius, bounds, places, penalty)
        self.weights[chosen], self.radius[chosen] = weights, radius

    def _sweep(
        self,
        features: Columns,
        weights: Array,
        radius: Array,
        bounds: Array,
        columns: NDArray[np.int64],
        penalty: EntryPenalty,
    ) -> None:
        self.kernel.domination.sweep(
            features,
            self.lists,
            CoordinateState(self.margins, weights, radius, bounds),
            columns,
            penalty=penalty,
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


def _by_column(data: JudgedLists, lists: LayeredLists) -> Columns:
    """Return the features in the layout's order of rows, column by column."""
    features = data.features
    if isinstance(features, sp.csr_array):
        columns = sp.csc_array(features[lists.source])
        columns.sort_indices()
        return SparseColumns.of(columns)
    laid_out = np.zeros((lists.n_rows, features.shape[1]), dtype=features.dtype, order="F")
    for start in range(0, lists.n_rows, TILE):
        source = lists.source[start : start + TILE]
        tile = features[source]
        tile[source < 0] = 0.0
        laid_out[start : start + TILE] = tile
    return laid_out


def _taken(features: Columns, chosen: Ints) -> Columns:
    """Return some columns."""
    if not isinstance(features, SparseColumns):
        return np.asfortranarray(features[:, chosen])
    starts, ends = features.indptr[chosen], features.indptr[chosen + 1]
    entries = np.concatenate(
        [np.arange(0), *(np.arange(s, e) for s, e in zip(starts, ends, strict=True))]
    )
    indptr = np.concatenate([[0], np.cumsum(ends - starts)]).astype(features.indptr.dtype)
    shape = (features.shape[0], chosen.size)
    return SparseColumns(indptr, features.indices[entries], features.data[entries], shape)


def _margins(features: Columns, weights: Array) -> Array:
    """Return features @ weights, column after column: the same bits whatever BLAS there is."""
    margins = np.zeros(features.shape[0])
    for column in np.flatnonzero(weights):
        if isinstance(features, SparseColumns):
            entries = slice(features.indptr[column], features.indptr[column + 1])
            margins[features.indices[entries]] += features.data[entries] * weights[column]
        else:
            margins += features[:, column] * weights[column]
    return margins
