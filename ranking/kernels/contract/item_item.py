"""Columns of item-item weights: least squares with an elastic net, by coordinate descent.

With the Gram matrix ``G = R'R`` of the histories R, column j of W minimizes ::

    |R w - R_j|**2 + l1 sum |w| + l2/2 sum w**2,    w_j = 0

over its candidates. With ``s = G w - G_j``, the step along candidate i goes to
``soft(2 (G_ii w_i - s_i), l1) / (2 G_ii + l2)``, at least 0 if weights may not be negative, and then
adds ``step G_i`` to s. A sweep takes the candidates in order; sweeps over those with a weight other
than 0 follow until one has converged (see `ItemRule`), then one over all candidates, until such a
sweep has converged. A candidate whose ``2 G_ii + l2`` is 0 is passed over, and so is j itself.
s starts at ``-G_j``, to which ``w_i G_i`` is added in order of the candidates with ``w_i != 0``.

The loss of a column is ``G_jj + sum_i w_i (s_i - G_ij)``, in order of the candidates. All arithmetic
is float64, one rounding per written operation. Columns are independent: threads change nothing.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Csr, Floats, Ints, ItemRule


class ItemItemFamily(Protocol):
    """Columns of item-item weights."""

    def item_columns(
        self,
        gram: Csr,
        diagonal: Floats,
        candidates: Csr,
        rule: ItemRule,
        losses: Floats,
        sweeps: Ints,
        threads: int,
    ) -> None:
        """Minimize over the weights of each column, which are the data of `candidates`.

        gram : Csr (items, items) of float32 or float64, symmetric
        diagonal : float64 (items)
        candidates : Csr (items, items): row j has the candidates of column j; its data, float64, are
            read and written
        losses : float64 (items), filled
        sweeps : int64 (items), filled with the number of sweeps, negative if not converged
        """
