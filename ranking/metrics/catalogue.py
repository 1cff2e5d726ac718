"""Metrics of what is recommended, whoever likes it: coverage, novelty, diversity, popularity."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from scipy import sparse

from ranking.contracts.parameters import integer
from ranking.errors import PartError
from ranking.metrics.ordered import Catalogue, Ints, OrderedLists, OrderedMetric
from ranking.metrics.ranked import Floats


@dataclasses.dataclass
class _CatalogueMetric(OrderedMetric):
    """A metric of the items in the first k ranks.

    Attributes
    ----------
    k : int
        The cut-off.
    """

    k: int = integer(minimum=1)

    def values(self, lists: OrderedLists) -> Floats:
        """Return one value per list."""
        if lists.catalogue is None:
            raise PartError(
                f"metric {self.name!r} measures which items of a catalogue are recommended; it "
                "needs a model of users and items, and the training data (exclude)."
            )
        first = lists.ranks() <= self.k
        return self.of_items(lists.documents[first], lists.lists()[first], lists)

    @abstractmethod
    def of_items(self, items: Ints, owner: Ints, lists: OrderedLists) -> Floats:
        """Return one value per list from its first items, and the list of each."""


def _mean(values: Floats, owner: Ints, size: int) -> Floats:
    counts = np.bincount(owner, minlength=size)
    totals = np.bincount(owner, values, minlength=size)
    means: Floats = np.divide(totals, counts, out=np.full(size, np.nan), where=counts > 0)
    return means


def _catalogue(lists: OrderedLists) -> Catalogue:
    assert lists.catalogue is not None
    return lists.catalogue


@dataclasses.dataclass
class Coverage(_CatalogueMetric):
    """The share of all items that are among the first k of any query.

    The mean over the queries is the share; a query's own value counts an item by one over the
    number of lists that have it, so intervals and tests mean little.
    """

    name: ClassVar[str] = "coverage"

    @property
    def needs_all_lists(self) -> bool:
        """Whether all lists have to be measured together."""
        return True

    def of_items(self, items: Ints, owner: Ints, lists: OrderedLists) -> Floats:
        """Return the shares of the lists in what is covered."""
        n_items = _catalogue(lists).size
        counts = np.bincount(items, minlength=n_items)
        parts = np.bincount(owner, 1.0 / counts[items], minlength=lists.size)
        covered: Floats = parts * lists.size / n_items
        return covered


@dataclasses.dataclass
class Novelty(_CatalogueMetric):
    """The mean self-information of the first k: -log2 of the share of users who have an item.

    An item that no user of the training data has counts as one that a single user has.
    """

    name: ClassVar[str] = "novelty"

    def of_items(self, items: Ints, owner: Ints, lists: OrderedLists) -> Floats:
        """Return the mean for each list."""
        catalogue = _catalogue(lists)
        shares = np.maximum(catalogue.counts, 1) / catalogue.n_users
        return _mean(-np.log2(shares[items]), owner, lists.size)


@dataclasses.dataclass
class Popularity(_CatalogueMetric):
    """The mean share of users who have the first k items: the popularity bias."""

    name: ClassVar[str] = "popularity"

    @property
    def higher_is_better(self) -> bool:
        """False: a recommender that shows what all have anyway is of less use."""
        return False

    def of_items(self, items: Ints, owner: Ints, lists: OrderedLists) -> Floats:
        """Return the mean for each list."""
        catalogue = _catalogue(lists)
        return _mean(catalogue.counts[items] / catalogue.n_users, owner, lists.size)


@dataclasses.dataclass
class Diversity(_CatalogueMetric):
    """One minus the mean cosine of the pairs of the first k items (intra-list diversity).

    Items are described by their features, or, if they have none, by the users that have them in
    the training data. A list of one item has no value.
    """

    name: ClassVar[str] = "diversity"

    def of_items(self, items: Ints, owner: Ints, lists: OrderedLists) -> Floats:
        """Return the diversity of each list."""
        vectors = _catalogue(lists).vectors
        norms = np.sqrt(np.asarray(vectors.multiply(vectors).sum(axis=1)).ravel())
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
        unit = sparse.csr_array(sparse.diags_array(scale) @ vectors)[items]
        member = sparse.csr_array(
            (np.ones(items.size), (owner, np.arange(items.size))), shape=(lists.size, items.size)
        )
        total = member @ unit  # the sum of the vectors of each list
        squares = np.asarray(total.multiply(total).sum(axis=1)).ravel()
        own = member @ np.asarray(unit.multiply(unit).sum(axis=1)).ravel()
        counts = np.bincount(owner, minlength=lists.size).astype(np.float64)
        pairs = counts * (counts - 1.0)
        empty = np.full(lists.size, np.nan)
        cosine: Floats = np.divide(squares - own, pairs, out=empty, where=pairs > 0)
        return np.subtract(1.0, cosine)
