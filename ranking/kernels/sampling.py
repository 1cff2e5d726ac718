"""Sampling of triplets, with checked arguments, and the positives that they come from."""

from __future__ import annotations

import dataclasses

import numpy as np

from ranking.kernels.contract import Ints, Positives, Sampling, SamplingFamily, Singles
from ranking.kernels.validation import (
    check_array,
    check_below,
    check_compressed,
    validate_count,
    validate_first,
    validate_seed,
)

MAX_COUNT = 2**32 - 1
"""Largest count: numbers are sampled from 32 bits."""


def _no_ints() -> Ints:
    return np.zeros(0, np.int64)


def _no_singles() -> Singles:
    return np.zeros(0, np.float32)


@dataclasses.dataclass(frozen=True)
class PositiveLists:
    """The positive documents of each query.

    The attributes are those of :class:`ranking.kernels.contract.Positives`. If `query_sums` are
    given, they rise by the number of positives of each query, or by the counts of its list.
    """

    queries: Ints
    list_of: Ints
    member_ptr: Ints
    members: Ints
    own_document: Ints
    n_documents: int
    query_sums: Ints = dataclasses.field(default_factory=_no_ints)
    member_sums: Ints = dataclasses.field(default_factory=_no_ints)
    member_weights: Singles = dataclasses.field(default_factory=_no_singles)
    any_negative: bool = False

    @property
    def arrays(self) -> Positives:
        """The arrays as a kernel takes them."""
        return Positives(*(getattr(self, name) for name in Positives._fields))

    def __post_init__(self) -> None:
        """Refuse arrays that sampling could not trust."""
        for name in ("queries", "list_of", "member_ptr", "members", "own_document"):
            check_array(name, getattr(self, name), ("int64",), (None,))
        check_array("own_document", self.own_document, ("int64",), (self.list_of.size,))
        ones = np.ones(self.members.size)
        lists = self.member_ptr.size - 1
        if not 1 <= self.n_documents <= MAX_COUNT or not self.queries.size <= MAX_COUNT:
            raise ValueError(f"n_documents is {self.n_documents}; it must lie in 1..2**32 - 1.")
        check_compressed(
            self.member_ptr, self.members, ones, lists, self.n_documents, sorted_once=True
        )
        check_below("list_of", self.list_of, lists)
        check_below("queries", self.queries, self.list_of.size)
        if np.any(self.own_document < -1) or np.any(self.own_document >= self.n_documents):
            raise ValueError("own_document must be the position of a document, or -1.")
        self._check_sampled()
        self._check_own_documents()
        self._check_sums()

    def _check_sampled(self) -> None:
        size = np.diff(self.member_ptr)[self.list_of[self.queries]]
        own = 1 * (self.own_document[self.queries] >= 0)
        excluded = 1 + own if self.any_negative else size
        if np.any(size - own < 1) or np.any(excluded >= self.n_documents):
            raise ValueError("every query to sample needs at least one positive and one negative.")

    def _check_own_documents(self) -> None:
        """Refuse a query whose own document, which is to be skipped, is not in its list."""
        # Keys of all lists rise.
        lists = np.repeat(np.arange(self.member_ptr.size - 1), np.diff(self.member_ptr))
        keys = lists * self.n_documents + self.members
        own = np.flatnonzero(self.own_document >= 0)
        keys_of_own = self.list_of[own] * self.n_documents + self.own_document[own]
        at = np.searchsorted(keys, keys_of_own).clip(max=keys.size - 1)
        if own.size and np.any(keys[at] != keys_of_own):
            query = int(own[np.argmax(keys[at] != keys_of_own)])
            raise ValueError(f"query {query} is not in its own list; put it there.")
        if own.size and self.member_sums.size and np.any(self._counts()[at] != 0):
            raise ValueError(
                "a query's own document must have the count 0, so that it is not sampled."
            )

    def _counts(self) -> Ints:
        """Return how often each member is sampled."""
        counts = np.diff(self.member_sums, prepend=0)
        starts = self.member_ptr[:-1][np.diff(self.member_ptr) > 0]
        counts[starts] = self.member_sums[starts]
        return counts

    def _check_sums(self) -> None:
        for name, sums, size in (
            ("query_sums", self.query_sums, self.queries.size),
            ("member_sums", self.member_sums, self.members.size),
        ):
            check_array(name, sums, ("int64",), (size if sums.size else 0,))
            if sums.size and int(sums.max()) > MAX_COUNT:
                raise ValueError(
                    f"{name} reach {int(sums.max())}; at most {MAX_COUNT} is possible. "
                    "Use smaller counts, or weights."
                )
        sums = self.query_sums
        falls = np.any(sums[1:] < sums[:-1]) or np.any(sums[:1] < 0)
        if falls or (self.member_sums.size and np.any(self._counts() < 0)):
            raise ValueError("query_sums, and member_sums within a list, must not fall.")
        last = self.member_ptr[self.list_of[self.queries] + 1]
        sizes = last - self.member_ptr[self.list_of[self.queries]]
        spare = sizes - (self.own_document[self.queries] >= 0)
        if self.member_sums.size:
            spare = self.member_sums[last - 1]
            if np.any(spare < 1):
                raise ValueError("the counts of a list that is sampled from are all 0.")
        if self.query_sums.size and np.any(np.diff(self.query_sums, prepend=0) != spare):
            raise ValueError(
                "query_sums must rise by the number of positives of each query, or by their counts."
            )
        weights = self.member_weights
        check_array(
            "member_weights", weights, ("float32",), (self.members.size * (weights.size > 0),)
        )
        if not ((weights >= 0.0) & (weights < np.inf)).all():
            raise ValueError("member_weights must be finite and not negative.")


@dataclasses.dataclass(frozen=True)
class TripletSampler:
    """Triplets that a kernel samples when it needs them.

    Attributes
    ----------
    lists : PositiveLists
    seed, first, count : int
        The steps `first` to `first + count - 1` of the seed.
    max_trials, n_positives : int
        Number of negatives at most, and number of positives to select from.
    """

    lists: PositiveLists
    seed: int
    first: int
    count: int
    max_trials: int = 1
    n_positives: int = 1

    def __post_init__(self) -> None:
        """Refuse what cannot be sampled."""
        validate_seed(self.seed)
        validate_first(self.first)
        validate_count("count", self.count, 0)
        validate_count("max_trials", self.max_trials)
        validate_count("n_positives", self.n_positives)
        if self.count and not self.lists.queries.size:
            raise ValueError("there is no query to sample from.")
        if self.n_positives > 1 and self.lists.any_negative:
            raise ValueError("with several positives, positives cannot be sampled as negatives.")

    @property
    def width(self) -> int:
        """Number of columns of the triplets."""
        return 1 + self.n_positives + self.max_trials

    @property
    def sampling(self) -> Sampling:
        """The source as a kernel takes it."""
        return Sampling(int(self.seed), int(self.first), self.lists.arrays)


class SamplingKernel:
    """Sampling of triplets; see :mod:`ranking.kernels.contract.sampling`."""

    def __init__(self, implementation: SamplingFamily) -> None:
        self.implementation = implementation

    def sample_triplets(
        self,
        lists: PositiveLists,
        seed: int,
        first: int,
        count: int,
        max_trials: int = 1,
        n_positives: int = 1,
    ) -> Ints:
        """Return the triplets of the steps first, first + 1, ...: query, positives, negatives."""
        sampler = TripletSampler(lists, seed, first, count, max_trials)
        n_positives = validate_count("n_positives", n_positives)
        out = np.empty((count, 1 + n_positives + max_trials), dtype=np.int64)
        self.implementation.sample_triplets(sampler.sampling, n_positives, out)
        return out
