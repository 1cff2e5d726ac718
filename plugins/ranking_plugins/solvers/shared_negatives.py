"""The negatives that the positives of a block share, and which positives they are not for."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ranking.kernels.contract import Exclusions, Floats, Ints
from ranking.kernels.kernel import Kernel
from ranking.kernels.sampling import PositiveLists

SAMPLERS = ("uniform", "popularity", "in-batch")
NEGATIVE_STREAM = 0x510E527FADE682D1
"""Added to the seed for the negatives that positives share."""


class Negatives(NamedTuple):
    """Documents, and the logarithm of the weight of each: what a uniform sample would have."""

    documents: Ints
    log_weights: Floats


class SharedSampler:
    """Sample the negatives of a block of positives, without regard to its queries.

    With n >= the number of documents, all documents are the negatives, each once. Negatives that
    are sampled by their popularity Q have the weight 1 / (N Q), so that sums over them estimate
    those over uniform ones.

    Parameters
    ----------
    how : {"uniform", "popularity", "in-batch"}
    """

    def __init__(self, kernel: Kernel, lists: PositiveLists, how: str, n: int, seed: int) -> None:
        self.kernel, self.how = kernel, how
        self.n_documents, self.n = lists.n_documents, n
        self.seed = (seed + NEGATIVE_STREAM) % 2**64
        # One more each, so that every document has a weight.
        counts = np.bincount(lists.members, minlength=self.n_documents) + 1.0
        self.ends = np.cumsum(counts)
        self.log_weights = np.log(self.ends[-1] / (self.n_documents * counts))

    def sample(self, first: int, positives: Ints) -> Negatives:
        """Return the negatives of the block whose first step is given."""
        if self.n >= self.n_documents:
            every = np.arange(self.n_documents, dtype=np.int64)
            return Negatives(every, np.zeros(every.size))
        if self.how == "in-batch":
            documents = positives[: self.n]
        elif self.how == "popularity":
            uniform = self.kernel.random.uniform(self.seed, first * self.n, self.n)
            documents = np.searchsorted(self.ends, uniform * self.ends[-1], side="right")
        else:
            documents = self.kernel.random.below(
                self.seed, first * self.n, self.n, self.n_documents
            )
        if self.how == "uniform":
            return Negatives(documents, np.zeros(documents.size))
        return Negatives(documents.astype(np.int64), self.log_weights[documents])


class Excluder:
    """Find the negatives of a block that are positives of its queries."""

    def __init__(self, lists: PositiveLists) -> None:
        self.lists = lists
        if not lists.any_negative:
            sizes = np.diff(lists.member_ptr)
            order = np.argsort(lists.members, kind="stable")
            self.holders = np.repeat(np.arange(sizes.size), sizes)[order]
            self.ptr = np.searchsorted(lists.members[order], np.arange(lists.n_documents + 1))

    def find(self, queries: Ints, positives: Ints, negatives: Ints) -> Exclusions:
        """Return the negatives that do not belong to each positive's list.

        They are those that are the positive itself, or any other of its query's positives unless
        any document but the positive may be a negative.
        """
        if self.lists.any_negative:
            keys, columns, groups = negatives, np.arange(negatives.size), positives
        else:
            start, stop = self.ptr[negatives], self.ptr[negatives + 1]
            places, columns = expand(start, stop)
            keys, groups = self.holders[places], self.lists.list_of[queries]
            in_block = np.zeros(self.lists.member_ptr.size - 1, np.bool_)
            in_block[groups] = True
            some = in_block[keys]
            keys, columns = keys[some], columns[some]
        order = np.argsort(groups, kind="stable")
        rising = groups[order]
        low, high = (np.searchsorted(rising, keys, side=side) for side in ("left", "right"))
        places, entries = expand(low, high)
        rows, excluded = order[places], columns[entries]
        sizes = np.bincount(rows, minlength=groups.size)
        excluded = excluded[np.lexsort((excluded, rows))]
        return Exclusions(np.concatenate(([0], np.cumsum(sizes))), excluded)


def expand(start: Ints, stop: Ints) -> tuple[Ints, Ints]:
    """Return all places from each start to its stop, and of which range each is."""
    sizes = stop - start
    ranges = np.repeat(np.arange(sizes.size), sizes)
    ends = np.cumsum(sizes)
    places = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - sizes, sizes)
    return places + np.repeat(start, sizes), ranges
