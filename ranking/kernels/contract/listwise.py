"""Losses of sampled lists: one positive against n negatives.

Such a loss does not change when all scores of its list are shifted. So a list is determined by its
margins z_j = f_+ - f_j, and the slopes of its n + 1 scores add up to 0: that of the positive, g_0,
is minus the sum of those of the negatives, g_1 to g_n. Margins that are float32 are widened.

Domination
----------
``weight * log(1 + sum_j exp(u_j))`` with ``u_j = margin - z_j``. With t the largest of 0 and all
u_j (a NaN is never larger), ``e_j = exp(u_j - t)`` by the contract's exponential and S their sum in
lanes, ``r = weight / (exp(0 - t) + S)``. Slopes are ``g_j = r e_j`` and ``g_0 = -(r S)``. The loss
is ``weight * log1p(S)`` if t is 0, else ``weight * (t + log(exp(0 - t) + S))``.

Native
------
The C functions get the scores 0, -z_1, ..., -z_n and the grades 1, 0, ..., 0. g_0 is minus the sum
of g_1 to g_n, in order and from 0.0; what the function writes for the positive is not read.

The loss of a list with a slope that is not finite is NaN. Lists do not depend on each other:
threads change nothing.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Floats, ListSlopes, ListwiseLoss


class ListwiseFamily(Protocol):
    """Losses of sampled lists."""

    def listwise_slopes(
        self, loss: ListwiseLoss, margins: Floats, out: ListSlopes, threads: int
    ) -> None:
        """Fill losses and slopes of lists with the same number of negatives.

        margins : float64 (lists, negatives)
        """
