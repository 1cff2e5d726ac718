"""Pairwise losses on judged lists for coordinate descent.

The loss is the mean, over the rows i with lower-graded rows in their query, of the mean of
``phi(m_i - m_j)`` over those rows j, where m = X w. `sgd` samples from the same pairs.

**A sweep.** At the scores m let s be the slopes of the loss, and let H be a matrix with ``x' H x =
sum c_ij kappa_ij (x_i - x_j)**2`` over all pairs. A sweep minimizes

    s'X(v - w) + 1/2 (v - w)'X'HX(v - w) + penalty(v)

over v. X'HX, the Gram matrix, is computed once, and then coordinate descent needs no rows: along
one weight the model has the slope g, which is kept up to date, and the curvature h, so the weight
becomes ``soft(h v - g, l1) / (h + l2)``. The weights v are accepted if the objective itself
decreases; else the curvature is raised, which shortens the step. That ends, because the objective
is convex and has the same slope in this direction as the model. This is newGLMNET (Yuan, Ho and
Lin, 2012) for pairs instead of rows, with a trust region instead of a line search.

**The curvature.** kappa is the second derivative of phi at each pair, plus a damping for all pairs
(Levenberg and Marquardt): it falls while the model predicts the decrease of the objective well, and
rises when it does not. The same for all pairs at `bend`, the largest second derivative
(curvature="popoviciu"), H bounds the loss from above, and every step decreases it.

**Many rows.** A sample of the lists is enough for X'HX, which only guides the step: value and
slopes are always those of all lists. The sample doubles whenever a step is refused.

**Many features** are swept in blocks, each with its own model and step.

**The hinge** has a kink, and where many pairs are at their kinks, no single weight can improve
although several together could. So it is smoothed: with the gap u = 1 - z and delta = `SMOOTHING`,

    phi(z) = 0 if u <= 0, u**2 / (2 delta) if u <= delta, else u - delta / 2,

which is below max(0, u) by at most delta / 2. So the hinge at the solution is at most delta / 2
above its minimum, and usually much less, since most pairs are far from the kink.

**Third-party losses** need C functions (`ranking.native`) and the attribute `curvature`, a bound of
their second derivative. kappa is then the difference quotient of the slope, at most that bound.

The loops are those of the kernel (:mod:`ranking.kernels.contract.pairwise_lists`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Loss
from ranking.contracts.regularizer import EntryPenalty
from ranking.errors import CombinationError, PartError
from ranking.kernels.contract import PairCurve, PairwiseForm
from ranking.kernels.domination import LayeredLists
from ranking.kernels.pairwise_lists import (
    UNIFORM,
    logistic,
    native,
    smoothed_hinge,
    squared_hinge,
)
from ranking_plugins.losses.columns import by_column
from ranking_plugins.preference_pairs import LowerRows

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel
    from ranking.kernels.native.functions import PairwiseFunctions

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

SMOOTHING = 0.1
"""delta: the gap below which the smoothed hinge is quadratic."""

NARROWEST, WIDEST = 8, 512
"""The limits of the number of features in a block."""

SCRATCH = 1 << 24
"""The largest number of values of a list and a block that are copied at a time."""

WORK = 1 << 28
"""Products per Gram matrix beyond which a sample of the lists is used."""

SAMPLE = 4096
"""The smallest number of rows in a sample."""

TRIALS = 40
"""The maximal number of steps that a sweep tries; a shorter step is below rounding."""

SWEEPS, TOLERANCE = 1000, 1e-8
"""Sweeps over the quadratic model, and the share of its decrease that is not worth another."""

ROUNDING = 2.0**-48
"""A predicted decrease of less than this share of the objective is not worth a step."""

LEAST, MOST = 2.0**-20, 2.0**20
"""The limits of the damping, as a share of `bend`."""

FIRST = 0.05
"""The first damping for the hinge. At weights 0 all gaps are 1, where a curvature of 1/2 bounds the
hinge: (1 + u)**2 / 4 touches it there from above."""

ROWS_FOR_THREADS = 4096
"""The number of rows from which on several threads are faster; the result is the same."""


class Point(NamedTuple):
    """The scores of the rows, the loss there, and its slope by each score."""

    margins: Array
    value: float
    slopes: Array


def is_bounded(loss: type[Loss]) -> bool:
    """Return whether a loss has C functions of a margin and a bound of their second derivative."""
    native_form = getattr(loss, "form", None) == PairwiseForm.NATIVE
    return native_form and loss.curvature is not Loss.curvature


def pair_curve(loss: Loss) -> PairCurve:
    """Return a pairwise loss as the kernel computes it over judged lists."""
    form = getattr(loss, "form", None)
    if form == PairwiseForm.HINGE:
        return smoothed_hinge(SMOOTHING)
    if form == PairwiseForm.SQUARED_HINGE:
        return squared_hinge()
    if form == PairwiseForm.LOGISTIC:
        return logistic()
    if form == PairwiseForm.NATIVE and loss.curvature is not None:
        return native(cast("PairwiseFunctions", loss.native), float(loss.curvature))
    raise CombinationError(
        f"loss {loss.name!r} has a custom slope, and coordinate descent needs a bound of its "
        "second derivative and C functions: derive it from ranking.native.NativePairwiseLoss and "
        "give it the attribute curvature, or use solver sgd."
    )


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
        loss: Loss,
        data: JudgedLists,
        weights: Array,
        kernel: Kernel,
        threads: int,
        curvature: str,
    ) -> None:
        if curvature not in ("newton", "popoviciu"):
            raise PartError(
                f"curvature is {curvature!r}; for a pairwise loss it must be newton or popoviciu."
            )
        self.curve, self.newton = pair_curve(loss), curvature == "newton"
        rows = LowerRows.of(data)
        above = rows.order[rows.better]
        omega = np.zeros(data.n_rows)
        omega[above] = 1.0 / (above.size * rows.below[rows.better])
        self.lists = LayeredLists.build(data.group_ptr, data.grades, omega, pad=1)
        starts = self.lists.layer_ptr[self.lists.list_ptr]
        self.shares = np.add.reduceat((self.lists.omega > 0.0) / above.size, starts[:-1])
        self.features = by_column(data, self.lists)
        self.kernel = kernel.pairwise_lists
        self.threads = threads if data.n_rows >= ROWS_FOR_THREADS else 1
        self.width = int(np.clip(SCRATCH // np.diff(starts).max(), NARROWEST, WIDEST))
        self.damping = FIRST if self.curve.form == PairwiseForm.HINGE else LEAST
        self.sample = 1.0
        self.weights = weights.copy()
        everything = np.arange(weights.size)
        self.point = self._point(
            self.kernel.combination(self.features, everything, self.weights, self.threads)
        )
        self._bounds = np.full(weights.size, np.nan)
        self._uniform: tuple[Ints, Ints, Array] = (np.empty(0, np.int64),) * 2 + (np.empty(0),)

    def _point(self, margins: Array) -> Point:
        """Compute the loss and its slopes at some scores; it is infinite if they are not finite."""
        if not np.isfinite(margins).all():
            return Point(margins, np.inf, margins)
        value, slopes = self.kernel.slopes(self.lists, margins, self.curve, self.threads)
        return Point(margins, max(value, 0.0), slopes)

    def value(self) -> float:
        """Return the loss at the current weights."""
        return self.point.value

    def slopes(self, columns: Ints) -> tuple[Array, Array]:
        """Return the gradient along each of these features, and a bound of the curvature."""
        gradient = self.kernel.products(self.features, columns, self.point.slopes, self.threads)
        missing = np.unique(columns[np.isnan(self._bounds[columns])])
        for block in self._blocks(missing):
            gram = self._gram(UNIFORM, block, np.arange(self.lists.n_lists))
            self._bounds[block] = self.curve.bend * gram.diagonal()
        return gradient, self._bounds[columns]

    def decrease(self, columns: Ints, penalty: EntryPenalty) -> Array:
        """Return the guaranteed decrease of a step along features of weight 0.

        A parabola with curvature h lies above the loss, so it is (|g| - l1)**2 / (2 (h + l2)).
        """
        gradient, curvature = self.slopes(columns)
        pull = np.maximum(np.abs(gradient) - penalty.l1, 0.0)
        total = curvature + penalty.l2
        return np.where(total > 0.0, pull * pull / (2.0 * np.where(total > 0.0, total, 1.0)), 0.0)

    def sweep(self, columns: Ints, penalty: EntryPenalty) -> None:
        """Take a Newton step along these features, block by block; none increases the objective."""
        _, first = np.unique(columns, return_index=True)
        for block in self._blocks(columns[np.sort(first)]):
            self._step(block, penalty)

    def _blocks(self, columns: Ints) -> list[Ints]:
        return [columns[at : at + self.width] for at in range(0, columns.size, self.width)]

    def _step(self, block: Ints, penalty: EntryPenalty) -> None:
        """Minimize the model of a block, with a damping at which the objective decreases."""
        gradient = self.kernel.products(self.features, block, self.point.slopes, self.threads)
        before = self.weights[block]
        if not before.any() and (np.abs(gradient) <= penalty.l1).all():
            return
        selected = self._selected(block.size)
        uniform = self._uniform_gram(block, selected)
        curved = self._gram(self.curve, block, selected) if self._is_curved() else 0.0
        objective = self.point.value + _penalty(self.weights, penalty)
        for _ in range(TRIALS):
            model = curved + (self.damping if self.newton else 1.0) * uniform
            after, slope = before.copy(), gradient.copy()
            self.kernel.descend(model, slope, after, penalty, sweeps=SWEEPS, tolerance=TOLERANCE)
            step = after - before
            predicted = _penalty(before, penalty) - _penalty(after, penalty)
            predicted -= 0.5 * float((step * (gradient + slope)).sum())
            if not predicted > ROUNDING * abs(objective):
                return
            change = self.kernel.combination(self.features, block, step, self.threads)
            point = self._point(self.point.margins + change)
            candidate = self.weights.copy()
            candidate[block] = after
            decrease = objective - (point.value + _penalty(candidate, penalty))
            if decrease >= 0.0:
                self.weights[:], self.point = candidate, point
            self._adapt(decrease / predicted, block.size)
            if decrease >= 0.0:
                return

    def _is_curved(self) -> bool:
        """Return whether pairs have second derivatives: at weights 0, none of the hinge has."""
        return self.newton and (self.curve.upper > 1.0 or bool(self.point.margins.any()))

    def _adapt(self, ratio: float, width: int) -> None:
        """Change the damping after a step with this share of the predicted decrease."""
        factor = 8.0 if ratio < 0.0 else 4.0 if ratio < 0.25 else 0.25 if ratio > 0.75 else 1.0
        self.damping = min(max(self.damping * factor, LEAST), MOST)
        if ratio < 0.0 and self._sampled_rows(width) < self.lists.n_rows:
            self.sample *= 2.0

    def _sampled_rows(self, width: int) -> float:
        return self.sample * max(SAMPLE, 2 * WORK // (width * width))

    def _selected(self, width: int) -> Ints:
        """Return the lists whose curvature the model of so many features has, evenly spread."""
        lists = self.lists
        share = min(1.0, self._sampled_rows(width) / lists.n_rows)
        count = min(lists.n_lists, int(np.ceil(share * lists.n_lists)))
        return np.arange(count) * lists.n_lists // count

    def _gram(self, curve: PairCurve, block: Ints, selected: Ints) -> Array:
        """Return X'HX, scaled from the selected lists to all."""
        gram = self.kernel.gram(
            self.features,
            self.lists,
            self.point.margins,
            curve,
            block,
            selected=selected,
            threads=self.threads,
        )
        if selected.size < self.lists.n_lists:
            gram /= self.shares[selected].sum()
        return gram

    def _uniform_gram(self, block: Ints, selected: Ints) -> Array:
        """Return X'HX for the largest curvature at all pairs; that of the last block is kept."""
        same_block = np.array_equal(block, self._uniform[0])
        if not (same_block and np.array_equal(selected, self._uniform[1])):
            gram = self.curve.bend * self._gram(UNIFORM, block, selected)
            self._uniform = block, selected, gram
        return self._uniform[2]

    def state(self) -> dict[str, Array]:
        """Return weights, scores, the damping and the size of the sample."""
        return {
            "weights": self.weights.copy(),
            "margins": self.point.margins.copy(),
            "damping": np.array([self.damping, self.sample]),
        }

    def restore(self, state: dict[str, Array]) -> None:
        """Restore weights, scores, damping and sample."""
        self.weights[:] = state["weights"]
        self.damping, self.sample = state["damping"].tolist()
        self.point = self._point(state["margins"].copy())


def _penalty(weights: Array, penalty: EntryPenalty) -> float:
    squares = float((weights * weights).sum())
    return penalty.l1 * float(np.abs(weights).sum()) + 0.5 * penalty.l2 * squares
