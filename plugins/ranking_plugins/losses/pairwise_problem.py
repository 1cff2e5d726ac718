"""Pairwise losses on judged lists for coordinate descent.

The loss is the mean, over the rows i with lower-graded rows in their query, of the mean of
``phi(m_i - m_j)`` over those rows j, where m = X w. `sgd` samples from the same pairs.

**A sweep.** At the scores m let s be the slopes of the loss, and let H be a matrix with ``x' H x =
sum c_ij kappa_ij (x_i - x_j)**2`` over all pairs. A sweep takes the exact minimum of

    s'X(v - w) + 1/2 (v - w)'X'HX(v - w) + penalty(v)

along one weight of v after the other. Along feature x it has the slope g = x'(s + HX(v - w)) and
the curvature h = x'Hx, so the weight becomes ``soft(h v - g, l1) / (h + l2)``. Then the step v - w
is halved until the objective itself has decreased. That terminates: the objective is convex and
has the same slope in this direction as the model, which is lower at v.

**The curvature.** kappa is the second derivative of phi at each pair, plus a damping for all
pairs (Levenberg): it is halved after a full step and multiplied by four after a halved one. It
never exceeds `bend`, the largest second derivative: H then bounds the loss from above, and a full
step decreases it. This is the method of newGLMNET (Yuan, Ho and Lin, 2012) for pairs instead of
rows.

**The hinge** has a kink, and where many pairs are at their kinks, no single weight can improve
although several together could. So it is smoothed: with the gap u = 1 - z and delta = `SMOOTHING`,

    phi(z) = 0 if u <= 0, u**2 / (2 delta) if u <= delta, else u - delta / 2,

which is below max(0, u) by at most delta / 2. So the hinge at the solution is at most delta / 2
above its minimum, and usually much less, since most pairs are far from the kink.

**Sorting.** phi of the hinge and of its square are polynomials of two scores within windows of a
sorted list, so pairs are not enumerated (:mod:`ranking_plugins.losses.sorted_pairs`). For the
logistic loss they are, a block at a time.

The code is NumPy on one thread, for all kernels. A step along a feature reads only the lists in
which the feature occurs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import PartError
from ranking.kernels.contract import PairwiseForm
from ranking_plugins.losses.sorted_pairs import Groups, Sorted, Windows, running, spans
from ranking_plugins.regularizers.soft import soft

if TYPE_CHECKING:
    from ranking.contracts.loss import PairwiseLoss
    from ranking.data.judged_lists import JudgedLists

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 0.1
"""delta: the gap below which the smoothed hinge is quadratic."""

BLOCK = 1 << 20
"""Pairs whose logistic loss is computed at a time."""

HALVINGS = 40
"""The maximal number of halvings of a step; a smaller step is below rounding."""

BEND = {
    PairwiseForm.HINGE: 1.0 / SMOOTHING,
    PairwiseForm.SQUARED_HINGE: 2.0,
    PairwiseForm.LOGISTIC: 0.25,
}
"""The largest second derivative of phi."""

LEAST = 2.0**-10
"""The smallest damping, as a share of `BEND`, so that steps stay finite without curvature."""

FIRST = {PairwiseForm.HINGE: 0.05, PairwiseForm.SQUARED_HINGE: LEAST, PairwiseForm.LOGISTIC: 1.0}
"""The initial damping, as a share of `BEND`. At weights 0 all gaps are 1, where a curvature of 1/2
bounds the hinge: (1 + u)**2 / 4 touches it there from above."""


class Point(NamedTuple):
    """The loss at some scores: its value, the slope of each row, and the curved windows."""

    value: float
    slopes: Array
    order: Sorted
    windows: Windows


def hinge_point(groups: Groups, scores: Array, form: PairwiseForm) -> Point:
    """Compute the smoothed or the squared hinge by windows."""
    order = Sorted.of(groups, scores)
    a, end = order.beyond(1.0), order.end()
    smooth = form == PairwiseForm.HINGE
    b = order.beyond(1.0 - SMOOTHING) if smooth else end
    bend = BEND[form]
    windows = order.windows(a, b)
    u, low, c = 1.0 - order.high, order.low, groups.weights
    first, second = running(low), running(low * low)
    count, s1, s2 = b - a, first[b] - first[a], second[b] - second[a]
    values = 0.5 * bend * (count * u * u + 2.0 * u * s1 + s2)
    slopes = bend * (count * u + s1)
    pulled = bend * (windows.covering(u) + windows.cover * low)
    if smooth:
        far = end - b
        values = values + far * (u - 0.5 * SMOOTHING) + first[end] - first[b]
        slopes = slopes + far
        pulled = pulled + order.windows(b, end).cover
    rows = windows.by_row(-c * slopes, pulled, groups.n_rows)
    return Point(max(float((c * values).sum()), 0.0), rows, order, windows)


def dense_point(groups: Groups, scores: Array, loss: PairwiseLoss) -> Point:
    """Compute a loss with curvature everywhere, by all pairs; windows are empty."""
    order = Sorted.of(groups, scores)
    value, rows = 0.0, np.zeros(groups.n_rows)
    begin = groups.bottom_ptr[groups.top_group]
    sizes = np.diff(groups.bottom_ptr)[groups.top_group]
    ends = np.cumsum(sizes)
    at = 0
    while at < sizes.size:
        before = ends[at - 1] if at else 0
        stop = max(at + 1, int(np.searchsorted(ends, before + BLOCK, side="right")))
        part = slice(at, stop)
        better = np.repeat(groups.tops[part], sizes[part])
        worse = groups.bottoms[spans(begin[part], sizes[part])]
        weights = np.repeat(groups.weights[part], sizes[part])
        margins = scores[better] - scores[worse]
        value += float((weights * loss.pairwise_value(margins)).sum())
        slopes = weights * loss.pairwise_slope(margins)
        rows += np.bincount(better, slopes, groups.n_rows)
        rows -= np.bincount(worse, slopes, groups.n_rows)
        at = stop
    nothing = order.begin()
    return Point(value, rows, order, order.windows(nothing, nothing))


class PairProblem:
    """A pairwise loss on one data set along its features.

    Implements :class:`ranking.contracts.loss.CoordinateProblem`.

    Parameters
    ----------
    curvature : {"newton", "popoviciu"}
        The curvature of each pair plus a damping, or the largest curvature for all pairs.
    """

    def __init__(
        self,
        loss: PairwiseLoss,
        form: PairwiseForm,
        data: JudgedLists,
        weights: Array,
        curvature: str,
    ) -> None:
        if curvature not in ("newton", "popoviciu"):
            raise PartError(
                f"curvature is {curvature!r}; for a pairwise loss it must be newton or popoviciu."
            )
        self.loss, self.form, self.newton = loss, form, curvature == "newton"
        self.groups, self.row_queries = Groups.of(data), data.row_groups
        self.features: Any = (
            sp.csc_array(data.features)
            if sp.issparse(data.features)
            else np.asfortranarray(data.features)
        )
        self.bend = BEND[form]
        self.damping = self.bend * (FIRST[form] if self.newton else 1.0)
        self.weights = weights.copy()
        self.margins = np.zeros(data.n_rows)
        for column in np.flatnonzero(weights):
            rows, values = self._column(column)
            self.margins[rows] += values * weights[column]
        self.scratch = np.zeros(data.n_rows)
        self.point = self._point(self.margins)

    def _point(self, margins: Array) -> Point:
        if self.form == PairwiseForm.LOGISTIC:
            return dense_point(self.groups, margins, self.loss)
        return hinge_point(self.groups, margins, self.form)

    def _column(self, column: int | np.integer[Any]) -> tuple[Any, Array]:
        """Return the rows in which a feature is not 0 (all if it is dense), and its values."""
        if isinstance(self.features, np.ndarray):
            return slice(None), self.features[:, column].astype(np.float64)
        entries = slice(*self.features.indptr[column : column + 2])
        return self.features.indices[entries], self.features.data[entries].astype(np.float64)

    def _curvature(
        self, rows: Any, values: Array, inner: float, outer: float
    ) -> tuple[Any, Array, float]:
        """Return the rows in which Hx of a feature x is not 0, the values of Hx there, and x'Hx."""
        windows = self.point.windows
        if not isinstance(rows, slice):
            windows = self.point.order.part(windows, np.unique(self.row_queries[rows]))
        self.scratch[rows] = values
        at_top, at_bottom, curvature = windows.quadratic(self.scratch, inner, outer)
        self.scratch[rows] = 0.0
        if isinstance(rows, slice):
            product = windows.by_row(at_top, at_bottom, self.groups.n_rows)
            return rows, product, curvature
        affected, first = np.unique(
            np.concatenate((windows.tops, windows.bottoms)), return_inverse=True
        )
        added = np.bincount(first, np.concatenate((at_top, at_bottom)), affected.size)
        return affected, added.astype(np.float64, copy=False), curvature

    def value(self) -> float:
        """Return the loss at the current weights."""
        return self.point.value

    def slopes(self, columns: Ints) -> tuple[Array, Array]:
        """Return the gradient along each of these features, and a bound of the curvature."""
        gradient, curvature = np.zeros(columns.size), np.zeros(columns.size)
        for position, column in enumerate(columns):
            rows, values = self._column(column)
            if values.size:
                gradient[position] = (values * self.point.slopes[rows]).sum()
                curvature[position] = self._curvature(rows, values, 0.0, self.bend)[2]
        return gradient, curvature

    def decrease(self, columns: Ints, penalty: EntryPenalty) -> Array:
        """Return the guaranteed decrease of a step along features of weight 0.

        A parabola with curvature h lies above the loss, so it is (|g| - l1)**2 / (2 (h + l2)).
        """
        gradient, curvature = self.slopes(columns)
        pull = np.maximum(np.abs(gradient) - penalty.l1, 0.0)
        total = curvature + penalty.l2
        return np.where(total > 0.0, pull * pull / (2.0 * np.where(total > 0.0, total, 1.0)), 0.0)

    def sweep(self, columns: Ints, penalty: EntryPenalty) -> None:
        """Take one step along each of these features; together they decrease the objective."""
        weights, change = self._minimize_model(columns, penalty)
        step = weights - self.weights
        if not step.any():
            return
        objective = self.point.value + _penalty(self.weights, penalty)
        share = 1.0
        for _ in range(HALVINGS):
            candidate = weights if share == 1.0 else self.weights + share * step
            margins = self.margins + share * change
            point = self._point(margins)
            if point.value + _penalty(candidate, penalty) <= objective:
                self.weights[:], self.margins, self.point = candidate, margins, point
                break
            share *= 0.5
        if self.newton:
            damping = self.damping * (0.5 if share == 1.0 else 4.0)
            self.damping = min(max(damping, LEAST * self.bend), self.bend)

    def _minimize_model(self, columns: Ints, penalty: EntryPenalty) -> tuple[Array, Array]:
        """Return the weights after a sweep on the quadratic model, and the change of the scores."""
        inner = self.bend if self.newton and self.form != PairwiseForm.LOGISTIC else 0.0
        weights, slopes = self.weights.copy(), self.point.slopes.copy()
        change = np.zeros(slopes.size)
        for column in columns:
            rows, values = self._column(column)
            gradient, weight = (values * slopes[rows]).sum(), weights[column]
            if abs(gradient + penalty.l2 * weight) <= penalty.l1 and weight == 0.0:
                continue
            affected, product, h = self._curvature(rows, values, inner, self.damping)
            if not h + penalty.l2 > 0.0:
                continue
            target = np.array([h * weight - gradient])
            better = float(soft(target, penalty.l1)[0]) / (h + penalty.l2)
            step = better - weight
            if step == 0.0:
                continue
            weights[column] = better
            change[rows] += step * values
            slopes[affected] += step * product
        return weights, change

    def state(self) -> dict[str, Array]:
        """Return weights, scores and the damping."""
        return {
            "weights": self.weights.copy(),
            "margins": self.margins.copy(),
            "damping": np.array([self.damping]),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Restore weights, scores and damping."""
        self.weights[:], self.margins = state["weights"], state["margins"].copy()
        self.damping = float(state["damping"][0])
        self.point = self._point(self.margins)


def _penalty(weights: Array, penalty: EntryPenalty) -> float:
    squares = float((weights * weights).sum())
    return penalty.l1 * float(np.abs(weights).sum()) + 0.5 * penalty.l2 * squares
