"""Listwise losses over whole judged lists: the objective, and the slopes of one list.

A step of SGD takes one list. Scores of a list are known up to a shift, which such a loss does not
see: they are the margins of its rows to its first row.
"""

from __future__ import annotations

import dataclasses
import itertools
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, Self, runtime_checkable

import numpy as np

from ranking.contracts.loss import ListwiseLoss
from ranking.errors import DataError
from ranking.kernels.contract import Floats, Ints
from ranking.kernels.domination import LayeredLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


class WholeLists(Protocol):
    """The mean loss over lists, ``sum_l share_l mean_l``."""

    @property
    def rows(self) -> Ints:
        """The rows of the data in all lists, list by list."""

    @property
    def list_ptr(self) -> Ints:
        """The start of each list: list l has rows[list_ptr[l]:list_ptr[l + 1]]."""

    @property
    def shares(self) -> Floats:
        """The weight of each list; they add up to 1."""

    def value(self, scores: Floats, threads: int) -> float:
        """Return the mean loss at the scores of `rows`."""

    def list_slopes(self, at: int, scores: Floats) -> tuple[float, Floats]:
        """Return the mean loss of one list, and its derivative with respect to each score."""


@runtime_checkable
class AllSlopes(Protocol):
    """Lists that compute the slopes of all of them in one call."""

    def slopes(self, scores: Floats) -> tuple[float, Floats]:
        """Return the mean loss, and its derivative with respect to the score of each row."""


def mean_and_slopes(lists: WholeLists, scores: Floats) -> tuple[float, Floats]:
    """Return the mean loss over all lists, and its derivative with respect to each score."""
    return lists.slopes(scores) if isinstance(lists, AllSlopes) else list_by_list(lists, scores)


def list_by_list(lists: WholeLists, scores: Floats) -> tuple[float, Floats]:
    """Return the same from the slopes of single lists."""
    total, slopes = 0.0, np.empty(scores.size)
    for at, share in enumerate(lists.shares.tolist()):
        own = slice(int(lists.list_ptr[at]), int(lists.list_ptr[at + 1]))
        value, by_score = lists.list_slopes(at, scores[own])
        total += share * value
        slopes[own] = share * by_score
    return total, slopes


@runtime_checkable
class SupportsWholeLists(Protocol):
    """A loss that prepares whole lists itself, since its mean is not that over lists."""

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> WholeLists:
        """Prepare the lists of the data."""


def whole_lists(loss: ListwiseLoss, data: JudgedLists, kernel: Kernel) -> WholeLists:
    """Prepare the lists of a loss; by default all lists have the same weight."""
    if isinstance(loss, SupportsWholeLists):
        return loss.whole_lists(data, kernel)
    return ValueLists.of(loss, data)


@dataclasses.dataclass(frozen=True)
class ValueLists:
    """A loss that is given by `listwise_value` and `listwise_slopes`: their sum over all lists.

    Attributes
    ----------
    counts : float64 array
        The number of terms of each list, by whose total the sum is divided: 1, or the number of
        documents that must outrank others if the loss is a sum over these.
    """

    loss: ListwiseLoss
    rows: Ints
    list_ptr: Ints
    grades: Floats
    counts: Floats

    @classmethod
    def of(cls, loss: ListwiseLoss, data: JudgedLists, *, by_document: bool = False) -> Self:
        """Take the lists with two grades or more."""
        bounds = zip(data.group_ptr[:-1].tolist(), data.group_ptr[1:].tolist(), strict=True)
        lists = [np.arange(*ends) for ends in bounds if np.ptp(data.grades[slice(*ends)]) > 0.0]
        if not lists:
            raise DataError(
                f"no query has two different grades ({data.n_queries} queries, {data.n_rows} "
                "rows), so there is nothing to rank; check the grades."
            )
        grades = [data.grades[rows] for rows in lists]
        terms = [np.count_nonzero(own > own.min()) if by_document else 1 for own in grades]
        list_ptr = np.concatenate(([0], np.cumsum([rows.size for rows in lists])))
        counts = np.array(terms, np.float64)
        return cls(loss, np.concatenate(lists), list_ptr, np.concatenate(grades), counts)

    @cached_property
    def shares(self) -> Floats:
        """The share of the terms of each list."""
        shares: Floats = self.counts / self.counts.sum()
        return shares

    def value(self, scores: Floats, threads: int) -> float:
        """Return the sum of the losses of all lists, divided by the number of terms."""
        parts = map(self._part, range(self.shares.size))
        values = [self.loss.listwise_value(scores[part], self.grades[part]) for part in parts]
        return float(np.sum(values) / self.counts.sum())

    def list_slopes(self, at: int, scores: Floats) -> tuple[float, Floats]:
        """Return loss and slopes of one list, divided by its number of terms."""
        grades, count = self.grades[self._part(at)], self.counts[at]
        slopes = np.asarray(self.loss.listwise_slopes(scores, grades), np.float64)
        return float(self.loss.listwise_value(scores, grades) / count), slopes / count

    def _part(self, at: int) -> slice:
        return slice(int(self.list_ptr[at]), int(self.list_ptr[at + 1]))


@dataclasses.dataclass(frozen=True)
class DominationLists:
    """The domination loss of lists by layers; its mean is that over dominating documents.

    Parameters
    ----------
    lists : LayeredLists
        Without padding; the weights omega add up to 1.
    offset : float64 array
        What is subtracted from the score of each row of the lists.
    """

    kernel: Kernel
    lists: LayeredLists
    offset: Floats

    @property
    def rows(self) -> Ints:
        """The rows of the data."""
        return self.lists.source

    @cached_property
    def list_ptr(self) -> Ints:
        """The start of each list."""
        return self.lists.layer_ptr[self.lists.list_ptr]

    @cached_property
    def shares(self) -> Floats:
        """The sum of omega of each list."""
        shares: Floats = np.add.reduceat(self.lists.omega, self.list_ptr[:-1])
        return shares

    def value(self, scores: Floats, threads: int) -> float:
        """Return the loss as coordinate descent does."""
        return self.kernel.domination.value(self.lists, scores - self.offset, threads=threads)

    def list_slopes(self, at: int, scores: Floats) -> tuple[float, Floats]:
        """Return loss and slopes of one list, divided by its share.

        With ``b_i = log sum_j exp(f_j)`` over the documents j below i, document i has the loss
        ``omega_i log(1 + exp(b_i - f_i))``. It loses ``omega_i / (1 + exp(f_i - b_i))``, which is
        what it adds to those below it, in proportion to their exp(f_j).
        """
        layers = self.lists.layer_ptr[self.lists.list_ptr[at] : self.lists.list_ptr[at + 1] + 1]
        own = slice(int(layers[0]), int(layers[-1]))
        f, omega = scores - self.offset[own], self.lists.omega[own] / self.shares[at]
        bounds = (layers - layers[0]).tolist()
        slopes, log_below, total = np.zeros(f.size), [], 0.0
        below = _log_sum(f[: bounds[1]])
        for start, stop in itertools.pairwise(bounds[1:]):
            above = f[start:stop]
            excess = np.logaddexp(0.0, below - above)
            total += float(omega[start:stop] @ excess)
            slopes[start:stop] = -omega[start:stop] * np.exp((below - above) - excess)
            log_below.append((start, below, -slopes[start:stop].sum()))
            below = float(np.logaddexp(below, _log_sum(above)))
        for start, below, lost in log_below:
            slopes[:start] += lost * np.exp(f[:start] - below)
        return total, slopes


def _log_sum(values: Floats) -> float:
    top = float(values.max())
    return top + float(np.log(np.exp(values - top).sum()))
