"""Which documents match which query, in the form in which kernels draw from it."""

from __future__ import annotations

import dataclasses

import numpy as np

from ranking.kernels._old_contract import Ints, MatchFields, Singles
from ranking.kernels.door import check_array, check_below, check_compressed

MOST = 2**32 - 1
"""Numbers are drawn from 32 bits, so no more can be told apart."""


def _no_ints() -> Ints:
    return np.zeros(0, np.int64)


def _no_singles() -> Singles:
    return np.zeros(0, np.float32)


@dataclasses.dataclass(frozen=True)
class MatchLists:
    """Which documents match which query.

    Attributes
    ----------
    queries : int64 array
        The queries to draw from: those that have a document to draw, and one to draw against.
    list_of, itself : int64 arrays
        One a query: its list, and the one in it that is never drawn for it, or -1.
    list_ptr, members : int64 arrays
        List l is members[list_ptr[l]:list_ptr[l + 1]], and rises.
    n_documents : int
    query_sums : int64 array, or empty
        Running sums of how often each of `queries` is dealt in a pass: as often as it has
        documents to draw, or as the sums of its list come to. Empty is to draw all alike.
    member_sums : int64 array, or empty
        For each list, running sums of how often each member is drawn.
    member_weights : float32 array, or empty
        How much it counts for a factored model that a member is the positive.
    any_other : bool
        Whether all documents but the positive may be drawn as negatives, those that match too.
    """

    queries: Ints
    list_of: Ints
    list_ptr: Ints
    members: Ints
    itself: Ints
    n_documents: int
    query_sums: Ints = dataclasses.field(default_factory=_no_ints)
    member_sums: Ints = dataclasses.field(default_factory=_no_ints)
    member_weights: Singles = dataclasses.field(default_factory=_no_singles)
    any_other: bool = False

    @property
    def fields(self) -> MatchFields:
        """The fields, as a kernel takes them."""
        return (
            self.queries,
            self.query_sums,
            self.list_of,
            self.list_ptr,
            self.members,
            self.member_sums,
            self.itself,
            self.member_weights,
            self.n_documents,
            self.any_other,
        )

    def __post_init__(self) -> None:
        """Refuse what drawing could not trust."""
        for name in ("queries", "list_of", "list_ptr", "members", "itself"):
            check_array(name, getattr(self, name), ("int64",), (None,))
        check_array("itself", self.itself, ("int64",), (self.list_of.size,))
        ones = np.ones(self.members.size)
        lists = self.list_ptr.size - 1
        if not 1 <= self.n_documents <= MOST or not self.queries.size <= MOST:
            raise ValueError(f"n_documents is {self.n_documents}; it must lie in 1..2**32 - 1.")
        check_compressed(
            self.list_ptr, self.members, ones, lists, self.n_documents, sorted_once=True
        )
        check_below("list_of", self.list_of, lists)
        check_below("queries", self.queries, self.list_of.size)
        if np.any(self.itself < -1) or np.any(self.itself >= self.n_documents):
            raise ValueError("itself must be the position of a document, or -1.")
        self._check_drawn()
        self._check_itself()
        self._check_sums()

    def _check_drawn(self) -> None:
        size = np.diff(self.list_ptr)[self.list_of[self.queries]]
        taken = 1 * (self.itself[self.queries] >= 0)
        barred = 1 + taken if self.any_other else size
        if np.any(size - taken < 1) or np.any(barred >= self.n_documents):
            raise ValueError("every query to draw needs a document that matches and one that not.")

    def _check_itself(self) -> None:
        """Refuse a query that is not in its own list, where it is to be passed over."""
        # Keys of all lists rise.
        lists = np.repeat(np.arange(self.list_ptr.size - 1), np.diff(self.list_ptr))
        keys = lists * self.n_documents + self.members
        own = np.flatnonzero(self.itself >= 0)
        wanted = self.list_of[own] * self.n_documents + self.itself[own]
        at = np.searchsorted(keys, wanted).clip(max=keys.size - 1)
        if own.size and np.any(keys[at] != wanted):
            query = int(own[np.argmax(keys[at] != wanted)])
            raise ValueError(f"query {query} is not in its own list; put it there.")
        if own.size and self.member_sums.size and np.any(self._counts()[at] != 0):
            raise ValueError("a query's own place in its list must count 0, so it is not drawn.")

    def _counts(self) -> Ints:
        """Return how often each member is drawn."""
        counts = np.diff(self.member_sums, prepend=0)
        starts = self.list_ptr[:-1][np.diff(self.list_ptr) > 0]
        counts[starts] = self.member_sums[starts]
        return counts

    def _check_sums(self) -> None:
        for name, sums, size in (
            ("query_sums", self.query_sums, self.queries.size),
            ("member_sums", self.member_sums, self.members.size),
        ):
            check_array(name, sums, ("int64",), (size if sums.size else 0,))
            if sums.size and int(sums.max()) > MOST:
                raise ValueError(
                    f"{name} rise to {int(sums.max())}; more than {MOST} cannot be told apart. "
                    "Use smaller counts, or weights."
                )
        falls = np.any(np.diff(self.query_sums, prepend=0) < 0)
        if falls or (self.member_sums.size and np.any(self._counts() < 0)):
            raise ValueError("query_sums, and member_sums within a list, must not fall.")
        last = self.list_ptr[self.list_of[self.queries] + 1]
        sizes = last - self.list_ptr[self.list_of[self.queries]]
        spare = sizes - (self.itself[self.queries] >= 0)
        if self.member_sums.size:
            spare = self.member_sums[last - 1]
            if np.any(spare < 1):
                raise ValueError("the counts of a list that is drawn from are all 0.")
        if self.query_sums.size and np.any(np.diff(self.query_sums, prepend=0) != spare):
            raise ValueError(
                "query_sums must rise by what each query has to be drawn: its documents, or what "
                "they count."
            )
        weights = self.member_weights
        check_array(
            "member_weights", weights, ("float32",), (self.members.size * (weights.size > 0),)
        )
        if not ((weights >= 0.0) & (weights < np.inf)).all():
            raise ValueError("member_weights must be finite and not negative.")
