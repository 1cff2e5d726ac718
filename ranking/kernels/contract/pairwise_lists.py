"""Pairwise losses over judged lists: value, slopes, and the quadratic model of a Newton step.

In a list, every row i of layer k >= 1 is paired with every row j of the layers below it::

    loss = sum_i omega_i sum_{j below i} phi(m_i - m_j)

`layout` is not padded: for every layer, layer_size is the number of its rows. omega is the weight
of each pair of a row with those below it.

**Windows.** With the gap u = 1 - (m_i - m_j), the hinges are polynomials of the two scores between
two gaps, `lower` < u <= `upper`::

    phi = 0                      if u <= lower
    phi = bend / 2 u**2          if lower < u <= upper
    phi = u - upper / 2          if u > upper

With lower = 0, upper = delta and bend = 1 / delta this is the smoothed hinge; with upper = infinity
and bend = 2 the squared hinge. If the rows of a list are sorted by their scores, the pairs of a row
that are in the window are adjacent. So sums over pairs are differences of running sums, in O(n log
n) for n rows with few grades. With lower = -infinity, upper = infinity and bend = 1 every pair has
the curvature 1.

**The other forms** enumerate the pairs of a list. The curvature of a native loss is the difference
quotient of its slope, at least 0 and at most `bend`.

**Gram matrix.** Let H be the matrix with ``x'Hx = sum_pairs omega_i phi''(m_i - m_j) (x_i -
x_j)**2``. Of the rows X of a list, less the first row (which changes no difference), HX is computed
row by row, and X'HX is summed over chunks of `CHUNK` rows. The selected lists are cut into `PARTS`
parts of about as many lists each; every part has its own sum, and the parts are added in order.
"""

from __future__ import annotations

from typing import Protocol

from ranking.contracts.regularizer import EntryPenalty
from ranking.kernels.contract.arrays import Columns, Floats, Ints, ListLayout, PairCurve


class PairwiseListsFamily(Protocol):
    """Pairwise losses over judged lists.

    Features are Fortran-contiguous (rows, features), or CSC; rows are those of the layout.
    """

    def pairwise_slopes(
        self, layout: ListLayout, margins: Floats, curve: PairCurve, out: Floats, threads: int
    ) -> float:
        """Fill `out` (float64 (rows)) with the slope by each margin; return the loss."""

    def pairwise_gram(
        self,
        features: Columns,
        layout: ListLayout,
        margins: Floats,
        curve: PairCurve,
        columns: Ints,
        lists: Ints,
        out: Floats,
        threads: int,
    ) -> None:
        """Fill `out` (float64 (n, n)) with X'HX for the n `columns`, summed over some lists.

        columns : int64 (n), all different
        lists : int64, rising strictly
        """

    def column_products(
        self, features: Columns, columns: Ints, values: Floats, out: Floats, threads: int
    ) -> None:
        """Fill out[c] with the sum of features[:, columns[c]] * values."""

    def column_combination(
        self, features: Columns, columns: Ints, weights: Floats, out: Floats, threads: int
    ) -> None:
        """Add features[:, columns[c]] * weights[c] to `out` (float64 (rows)), in order of c."""

    def quadratic_descent(
        self,
        gram: Floats,
        gradient: Floats,
        weights: Floats,
        penalty: EntryPenalty,
        sweeps: int,
        tolerance: float,
    ) -> int:
        """Minimise a quadratic model plus penalty by coordinate descent; return the sweeps made.

        The model of the change d of the weights is ``gradient'd + d'gram d / 2``. `weights` and
        `gradient` are written: the latter becomes gradient + gram d. It ends after `sweeps`
        sweeps, or when one decreases the model by less than `tolerance` of the decrease so far.
        A weight along which neither the model nor l2 is curved stays.
        """
