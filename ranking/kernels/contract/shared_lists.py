"""Lists of one positive that share their sampled negatives: slopes and gradients.

All arithmetic is float32, one rounding per written operation. List b has the embedding u_b of its
query, the embedding p_b of its positive, and an offset of the positive's score. All lists have the
negatives v_1, ..., v_n, each with an offset, less those that are excluded from the list.

Scores
------
``s_b = u_b . p_b`` in eight partial sums, as in the factored family; ``s_bj = u_b . v_j`` is added
up number after number: ``((0 + u_0 v_0) + u_1 v_1) + ...``. So scores are one matrix product in
which every lane of a register is a negative, and no register is too wide. Then
``a = scale * s + offset``; an excluded negative has ``a = -inf``.

Slopes of the scores s, with the weight w of the list, the greatest of a (the positive's first; a
NaN is never greater) as t, and sums over negatives in eight partial sums (negative j is added to
partial sum j % 8):

- SOFTMAX: ``e = exp(a - t)``, ``S = sum_j e_j``, ``r = (w * scale) / (e_+ + S)``,
  ``g_j = r * e_j``, ``g_+ = -(r * S)``. The loss is ``w (t - a_+ + log(e_+ + S))``.
- COSINE_CONTRASTIVE: ``m_j = a_j - threshold``, where that is positive, else 0; S = sum_j m_j,
  ``r = (w * scale) * weight``, ``g_j = r`` where m_j > 0, else 0; ``g_+ = -(w * scale)``. The loss
  is ``w (weight S - a_+)``.
- LOGISTIC: ``l(x) = q / (1 + e)`` with ``e = exp(-|x|)``, and q = 1 for x >= 0, else e.
  ``r = (w * scale) * weight``, ``g_j = r * l(a_j)``, ``S = sum_j l(a_j)``,
  ``g_+ = -((w * scale) * l(-a_+))``. The loss is
  ``w (log(1 + exp(-a_+)) + weight sum_j log(1 + exp(a_j)))``.

The exponential, of numbers that are not positive, is 0 below -87, and else
``((Q r^2) + r) + 1``, times 2^k, with ``k = (x LOG2E + MAGIC) - MAGIC``, an integer,
``r = (x - k LN2_HIGH) - k LN2_LOW`` and the polynomial Q of `EXP_Q_32` by Horner's rule. Its
relative error is below 2e-7.

Gradients
---------
``u: (sum_j g_bj v_j) + g_b+ p_b``, ``p: g_b+ u_b``, ``v_j: sum_b g_bj u_b``; sums begin with 0 and
are added up in order, of j or of b. Threads own rows of these products, so they change nothing.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import SharedGradients, SharedLists, SharedLoss


class SharedListsFamily(Protocol):
    """Slopes and gradients of lists that share their negatives."""

    def shared_lists(
        self, lists: SharedLists, loss: SharedLoss, out: SharedGradients, threads: int
    ) -> None:
        """Fill the gradients of all embeddings."""
