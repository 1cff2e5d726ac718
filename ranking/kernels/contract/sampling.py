"""Sampling of triplets.

A *triplet* is a query, a positive document (or several to select from) and one or more negatives.
Triplets are sampled by counter: step t of a seed has the key ``number t``, and its own numbers
0, 1, ... are those of the seed ``key``: the query, the positives, then the negatives. If members
of a list have cumulative counts, the sampled one is the first whose sum exceeds a number below
the last: each as often as it counts. If queries have cumulative counts, they are not sampled
independently: every pass over the numbers below the last sum is a permutation of its own, by a
Feistel network (see `permuted` in :mod:`ranking.kernels.reference.sampling`). The query is the
first whose sum exceeds the step's number, and the excess over the sum before it takes the place
of the number for the first positive. So each positive is sampled once per pass, or as often as it
counts.
"""

from __future__ import annotations

from typing import Protocol

from ranking.kernels.contract.arrays import Ints, Sampling


class SamplingFamily(Protocol):
    """Sampling of triplets."""

    def sample_triplets(self, sampling: Sampling, n_positives: int, out: Ints) -> None:
        """Fill `out` with the triplets of the steps first, first + 1, ...

        out : int64 (steps, 1 + n_positives + negatives)
            Query, positives, negatives.
        """
