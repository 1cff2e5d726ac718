"""Value, slopes and coordinate descent of the domination loss.

A list's rows are sorted into layers, lowest grade first; a row i of layer k >= 1 *dominates* all
rows j of lower layers::

    loss = sum_i omega_i log(1 + sum_{j below i} exp(m_j - m_i))

Along one feature with values x, let Z = sum_j exp(m_j - c) over the rows below layer k (c: a
reference that keeps the exponentials in range), a = sum_j exp(m_j - c) x_j / Z their mean,
v their variance, and p_i = Z / (Z + exp(m_i - c)) the probability that row i loses. The row and
the rows that it dominates are a mixture of those below (weight p) and x_i (weight 1 - p), so::

    gradient  g = sum_i omega_i p_i (a - x_i)
    curvature h = sum_i omega_i p_i (v + (1 - p_i) (x_i - a)**2)
"""

from __future__ import annotations

from typing import Protocol

from ranking.contracts.regularizer import EntryPenalty
from ranking.kernels.contract.arrays import (
    Columns,
    CoordinateState,
    Floats,
    Ints,
    ListLayout,
)


class DominationFamily(Protocol):
    """The domination loss.

    Features are Fortran-contiguous (rows, features) with a padded layout, or CSC with an unpadded
    one. Time for CSC follows the non-zeros of the columns; `threads` is ignored there, except by
    `domination_bounds`.
    """

    def domination_value(self, layout: ListLayout, margins: Floats, threads: int) -> float:
        """Return the loss at these margins (float64, one per row)."""

    def domination_bounds(
        self, features: Columns, layout: ListLayout, out: Floats, threads: int
    ) -> None:
        """Fill `out` (float64 (4, features)) with bounds along each feature r.

        out[0]: Popoviciu, sum_i omega_i (range of x over i and what it dominates)**2 / 4.
        out[1]: the paper's, sum_i omega_i max(x**2 over the list).
        out[2]: the largest range of x within a list.
        out[3]: the largest abs(x).

        Absent entries of sparse features are zeros. `block_ptr` is not read.
        """

    def domination_slopes(
        self,
        features: Columns,
        layout: ListLayout,
        margins: Floats,
        columns: Ints,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill out[0, c] and out[1, c] with gradient and curvature along columns[c].

        columns : int64 (n), each in 0..features - 1
        out : float64 (2, n)
        """

    def domination_sweep(
        self,
        features: Columns,
        layout: ListLayout,
        state: CoordinateState,
        columns: Ints,
        penalty: EntryPenalty,
        newton: bool,
        threads: int,
    ) -> None:
        """Take one coordinate descent step along each of `columns`, in order.

        state.margins, state.weights and state.radius are written. Minimises
        loss + l1 |w| + l2/2 w**2. A feature whose bounds[0, r] is 0 is skipped.

        A step takes the minimiser of a quadratic majoriser of curvature c. With `newton`, c is
        the current curvature h times kappa(u) = 2 (exp(u) - u - 1) / u**2, u = range * radius,
        if that is below the global bound; as a log-sum-exp's curvature grows at most by
        exp(range * distance), that is a majoriser for steps up to the radius, to which the step
        is clipped. Every step therefore decreases the objective.
        """
