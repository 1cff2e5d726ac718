"""The domination loss: each document against all documents that it must outrank.

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

from ranking.contracts.loss import ListwiseForm, Loss, LossInterface, SampledListForm
from ranking.contracts.parameters import choice, integer, number
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import DataError, PartError
from ranking.kernels.contract import LANES, CoordinateState
from ranking.kernels.domination import LayeredLists, SparseColumns
from ranking.kernels.validation import read_only
from ranking_plugins.losses.columns import by_column
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
from ranking_plugins.losses.whole_lists import DominationLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.domination import Columns
    from ranking.kernels.kernel import Kernel

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ARRAY = "given"
"""The word for an array in a spec."""

FIRST_RADIUS = 0.1
"""The longest first step along a feature, times its range: correlated features then share the
weight in the first epoch."""

ROWS_FOR_THREADS = 250_000
"""The number of rows from which on several threads are faster; the result is the same."""


@dataclasses.dataclass
class Domination(Loss):
    """Mean over dominating documents i of ``log(1 + sum_j exp(f_j - f_i + Delta_ij))``, j below i.

    Documents of the lowest grade of a list dominate nothing; with K grades there are K layers, each
    against all layers below it. The mean is weighted by omega_i; since it is a mean, the strength
    of a regularizer does not depend on the amount of data.

    Parameters
    ----------
    queries : {"separate", "pooled"}
        Whether documents are compared within their query, or all with all (as in the LETOR
        experiments of the paper).
    weights : {"one", "gain", "query"} or array
        The weight omega of a dominating document: 1; its gain 2**grade - 1; such that every query
        has the same weight; or one value per row of the input.
    margin : {"none", "grade", "log", "layers"} or array
        The margin between two documents, Delta_ij = s_i - s_j: s is slope * grade + offset, or
        slope * log(grade) + offset, and 0 for documents that dominate nothing; or one value per
        row. "layers" is Delta_ij = the margin of the grade of i in `boundaries`.
    slope, offset : float
        Of the margins by grade.
    boundaries : str or sequence of float
        For margin="layers": the margins of documents of grade 1, 2, ... to all below them, as in
        ``"0.5+1"``.
    negatives : float
        The share of the documents of the lowest grade that are sampled, at least one per list.
        Their weights are increased, so that the loss stays about the same.
    seed : int
        The seed of that sample.
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
            elif value not in (*words, ARRAY):
                raise PartError(
                    f"domination has {name}={value!r}; it must be an array or one of "
                    f"{', '.join(words)}."
                )
        if not isinstance(self.weights, str) and np.any(self.weights < 0.0):
            raise PartError("domination has negative weights; they must be >= 0.")
        self._boundaries = parse_boundaries(self.boundaries) if self.margin_is("layers") else ()

    def margin_is(self, kind: str) -> bool:
        """Return whether the margin is of this kind."""
        return isinstance(self.margin, str) and self.margin == kind

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the hyper-parameters by name; boundaries as text."""
        boundaries = "+".join(map(repr, self._boundaries)) or self.boundaries
        return {**super().get_params(deep), "boundaries": boundaries}

    def spec(self) -> str:
        """Return the part as on the command line; arrays as ``given``."""
        described = copy.copy(self)
        for name in ("weights", "margin"):
            if not isinstance(getattr(self, name), str):
                setattr(described, name, ARRAY)
        return super(Domination, described).spec()

    def idle(self) -> set[str]:
        """Return the parameters that the kind of margin and the sample do not use."""
        idle = set() if self.margin_is("grade") or self.margin_is("log") else {"slope", "offset"}
        idle |= set() if self.margin_is("layers") else {"boundaries"}
        return idle | (set() if self.negatives < 1.0 else {"negatives", "seed"})

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the loss of one list: a weighted sum, not a mean."""
        terms, _, omega = self._terms(scores, grades)
        return float((omega * np.logaddexp(0.0, terms)).sum())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score."""
        terms, below, omega = self._terms(scores, grades)
        lost = omega * np.exp(-np.logaddexp(0.0, -terms))  # omega times the probability to lose
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(below), below - terms[:, None], -np.inf)
        pushed: Array = (lost[:, None] * np.exp(share)).sum(axis=0)
        return pushed - lost

    def sampled_list_form(self) -> SampledListForm:
        """Return weight and margin of a positive of grade 1 against negatives of grade 0."""
        return SampledListForm(ListwiseForm.DOMINATION, *self._of_pairs())

    def margin_values(self, margins: Array) -> Array:
        """Return the loss of each list of one positive, from its margins."""
        omega, top, total, _ = self._shares(margins)
        return omega * (top + np.log(total))[:, 0]

    def margin_slopes(self, margins: Array) -> Array:
        """Return the derivative with respect to each margin: minus the share of the negative."""
        return -self.margin_curvatures(margins)

    def margin_curvatures(self, margins: Array) -> Array:
        """Return the shares p_j: the second derivative is diag(p) - p p'."""
        omega, _, total, parts = self._shares(margins)
        shares: Array = parts * (omega / total)
        return shares

    def _shares(self, margins: Array) -> tuple[float, Array, Array, Array]:
        """Return omega, the largest exponent, and sum and terms of the exponentials below it."""
        omega, delta = self._of_pairs()
        below = delta - margins
        top = np.maximum(below.max(axis=1, keepdims=True), 0.0)
        parts = np.exp(below - top)
        return omega, top, np.exp(-top) + parts.sum(axis=1, keepdims=True), parts

    def _of_pairs(self) -> tuple[float, float]:
        """Return omega and Delta of a positive (grade 1) against negatives (grade 0)."""
        grades, above = np.array([1.0, 0.0]), np.array([True, False])
        omega = self._omega(grades, above, np.zeros(2, np.int64))
        own, other = self._margins(grades, above)
        return float(omega[0]), float(own[0] - other[1])

    def _terms(self, scores: Array, grades: Array) -> tuple[Array, Array, Array]:
        """Return log sum_j exp(below_ij) for each item i, below_ij = f_j - f_i + Delta_ij, omega.

        Documents that i does not dominate are -inf in `below`; so is the term of a document that
        dominates none.
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
        if isinstance(self.weights, str) and self.weights != ARRAY:
            return weights_by_grade(self.weights, grades, above, query)
        return self._row_values("weights", row_order)

    def _margins(
        self, grades: Array, above: Flags, row_order: Ints | None = None
    ) -> tuple[Array, Array]:
        """Return s of each row as a dominating and as a dominated row: Delta_ij = s_i - s'_j."""
        if self.margin_is("none"):
            return (np.zeros(grades.size),) * 2
        if self.margin_is("layers"):
            return boundary_margins(self._boundaries, grades, above), np.zeros(grades.size)
        if isinstance(self.margin, str) and self.margin != ARRAY:
            own = margins_by_grade(self.margin, grades, above, self.slope, self.offset)
        else:
            own = self._row_values("margin", row_order)
        return own, own

    def _row_values(self, name: str, row_order: Ints | None) -> Array:
        """Return the values of an array for each row of the data; a single list has none."""
        values = getattr(self, name)
        if isinstance(values, str) or row_order is None:
            raise PartError(
                f"domination has {name}=given, but no array; use Domination({name}=array) for "
                "judged lists."
            )
        return reorder_values(name, values, row_order)

    def layout(self, data: JudgedLists, kernel: Kernel) -> Layout:
        """Return the rows of the lists of the kernel, with their weights and offsets."""
        group_ptr = data.group_ptr if self.queries == "separate" else data.group_ptr[[0, -1]]
        grades = data.grades
        above = dominating(grades, group_ptr)
        omega = self._omega(grades, above, data.row_groups, data.row_order)
        own, other = self._margins(grades, above, data.row_order)
        whole = Layout(np.arange(data.n_rows), group_ptr, grades, omega, other)
        if self.negatives < 1.0:
            numbers = kernel.random.uniform(self.seed, 0, data.n_rows)
            whole = sampled(whole, numbers, above, self.negatives)
        return whole if own is other else by_layer(whole, own)

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> DominationLists:
        """Prepare the lists for steps that take one list each."""
        layout = self.layout(data, kernel)
        lists = self._normalized_lists(data, layout, 1)
        return DominationLists(kernel, lists, self._offsets(layout, 1))

    def _offsets(self, layout: Layout, pad: int) -> Array:
        """Return what is subtracted from the score of each row of the lists."""
        lists = LayeredLists.build(layout.group_ptr, layout.grades, layout.omega, pad=pad)
        return lists.take(layout.offset)

    def _normalized_lists(self, data: JudgedLists, layout: Layout, pad: int) -> LayeredLists:
        """Return the lists of a layout: rows of the data, and weights that add up to 1."""
        lists = LayeredLists.build(layout.group_ptr, layout.grades, layout.omega, pad=pad)
        if lists.n_lists == 0:
            raise DataError(
                f"no query has two different grades ({data.n_queries} queries, "
                f"{data.n_rows} rows), so there is nothing to rank; check the grades."
            )
        total = lists.omega.sum()
        if not total > 0.0:
            raise DataError(
                "every dominating document has weight 0, so there is nothing to learn; check the "
                "weights, and with weights=gain the grades."
            )
        return dataclasses.replace(
            lists,
            omega=read_only(lists.omega / total),
            source=read_only(np.where(lists.source >= 0, layout.rows[lists.source], -1)),
        )

    def coordinate_problem(
        self, data: JudgedLists, weights: Array, kernel: Kernel, threads: int, curvature: str
    ) -> DominationProblem:
        """Prepare the data by layers and columns."""
        return DominationProblem(self, data, weights, kernel, threads, curvature)


class DominationProblem:
    """The domination loss on one data set along its features.

    Implements :class:`ranking.contracts.loss.CoordinateProblem`.

    Parameters
    ----------
    curvature : {"newton", "popoviciu", "paper"}
        The bound of the second derivative along a feature: the current curvature within a radius
        where that is a bound, else Popoviciu's; Popoviciu's, a quarter of the squared range
        (max - min); or that of the paper, the largest square.
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
            raise PartError(f"curvature is {curvature!r}; it must be newton, popoviciu or paper.")
        sparse = sp.issparse(data.features)
        layout = loss.layout(data, kernel)
        pad = 1 if sparse else LANES
        self.lists = loss._normalized_lists(data, layout, pad)
        self.features = by_column(data, self.lists)
        self.kernel, self.newton = kernel, curvature == "newton"
        self.threads = threads if self.lists.n_rows >= ROWS_FOR_THREADS else 1
        popoviciu, paper, reach, peak = kernel.domination.bounds(
            self.features, self.lists, threads=threads
        )
        self.bounds = np.stack([paper if curvature == "paper" else popoviciu, reach, peak])
        # A feature that is constant within every list has no effect on the order.
        self.weights = np.where(self.bounds[0] > 0.0, weights, 0.0)
        self.margins = _margins(self.features, self.weights) - loss._offsets(layout, pad)
        self.radius = FIRST_RADIUS / np.where(reach > 0.0, reach, 1.0)
        self._subset: tuple[Ints, Columns] = (np.full(1, -1), self.features)

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

        Few features are copied first, so that validation and caches process only those.
        """
        if 2 * columns.size > self.weights.size:
            self._sweep(self.features, self.weights, self.radius, self.bounds, columns, penalty)
            return
        selected = np.unique(columns)
        if not np.array_equal(selected, self._subset[0]):
            self._subset = selected, _columns(self.features, selected)
        weights, radius = self.weights[selected], self.radius[selected]
        bounds = np.ascontiguousarray(self.bounds[:, selected])
        positions = np.searchsorted(selected, columns)
        self._sweep(self._subset[1], weights, radius, bounds, positions, penalty)
        self.weights[selected], self.radius[selected] = weights, radius

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
        """Restore weights, margins and radii."""
        self.weights[:] = state["weights"]
        self.margins[:] = state["margins"]
        self.radius[:] = state["radius"]


def _columns(features: Columns, selected: Ints) -> Columns:
    """Return some columns as a copy."""
    if not isinstance(features, SparseColumns):
        return np.asfortranarray(features[:, selected])
    starts, ends = features.indptr[selected], features.indptr[selected + 1]
    entries = np.concatenate(
        [np.arange(0), *(np.arange(s, e) for s, e in zip(starts, ends, strict=True))]
    )
    indptr = np.concatenate([[0], np.cumsum(ends - starts)]).astype(features.indptr.dtype)
    shape = (features.shape[0], selected.size)
    return SparseColumns(indptr, features.indices[entries], features.data[entries], shape)


def _margins(features: Columns, weights: Array) -> Array:
    """Return features @ weights by columns: the same bits for every BLAS."""
    margins = np.zeros(features.shape[0])
    for column in np.flatnonzero(weights):
        if isinstance(features, SparseColumns):
            entries = slice(features.indptr[column], features.indptr[column + 1])
            margins[features.indices[entries]] += features.data[entries] * weights[column]
        else:
            margins += features[:, column] * weights[column]
    return margins
