"""What losses that sample ranks report: a function whose gradient their steps follow.

WARP tries negatives until one violates the margin. With k violations among n negatives, that is
one of them, and the weight of its step is about L(k). So the expected step follows
``L(k) / k * sum_j grad h_j``, where h_j is the loss of the margin to the j-th negative. No function
has that gradient: when a negative comes within the margin, its own loss is 0, and yet the weight of
all others jumps. In particular the mean of the sampled ``L(rank) * h`` rises when the violations
with small losses disappear. With 1 plus the sum of the losses in the place of their number k, the
weight is continuous, and the expected step is minus the gradient of

    integral from 0 to H of L(1 + t) / (1 + t) dt,    H = sum_j h_j,

about ``log(1 + H)**2 / 2``. H is estimated from the negatives of the search, all of which count.
"""

from __future__ import annotations

import numpy as np

from ranking.contracts.loss import Array, PairwiseLoss
from ranking.kernels.contract import Ints


def rank_losses(loss: PairwiseLoss, margins: Array, n_ranked: int | Ints) -> Array:
    """Return the integral above for each positive.

    Parameters
    ----------
    margins : array
        One row per positive, one column per sampled negative.
    n_ranked : int or int64 array
        The number of negatives that those were sampled from, and so the largest rank.
    """
    most = np.broadcast_to(np.maximum(n_ranked, 1), margins.shape[:1])
    sums = most * loss.pairwise_value(margins).mean(axis=1)
    ranks = np.arange(int(most.max(initial=1)) + 1)
    weights = np.asarray(loss.rank_weight(ranks), np.float64)
    steps = weights[1:] * np.log1p(1.0 / ranks[1:])
    before = np.concatenate(([0.0], np.cumsum(steps)))
    with np.errstate(invalid="ignore"):
        rank = np.minimum(np.floor(1.0 + np.nan_to_num(sums, posinf=0.0)), most).astype(np.int64)
    losses: Array = before[rank - 1] + weights[rank] * np.log((1.0 + sums) / rank)
    return losses
