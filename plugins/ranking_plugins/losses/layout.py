"""The rows of the domination loss before they become the kernel's lists."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Rows in groups; a row may stand in several.

    Attributes
    ----------
    rows : int64 array
        The row of the data that stands in each place.
    group_ptr : int64 array
        Group q has the places group_ptr[q]:group_ptr[q + 1].
    grades, omega, offset : float64 arrays
        One a place: grade, weight as a dominating one, and s, which is taken from the score.
    """

    rows: Ints
    group_ptr: Ints
    grades: Array
    omega: Array
    offset: Array

    @property
    def group(self) -> Ints:
        """The group of each place."""
        return np.repeat(np.arange(self.group_ptr.size - 1), np.diff(self.group_ptr))

    def take(self, places: Ints, group: Ints, n_groups: int) -> Layout:
        """Return some places, in this order, in groups that never fall."""
        counts = np.bincount(group, minlength=n_groups)
        return Layout(
            self.rows[places],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            self.grades[places],
            self.omega[places],
            self.offset[places],
        )


def sampled(whole: Layout, draws: Array, above: NDArray[np.bool_], share: float) -> Layout:
    """Keep the rows that dominate, and of each group's others a share, at least one.

    n rows of which k are kept have n / k times the weight in the sum over the dominated: their
    scores are raised by log(n / k).

    Parameters
    ----------
    draws : float64 array
        A uniform number a place; the smallest are kept.
    """
    group, n_groups = whole.group, whole.group_ptr.size - 1
    order = np.lexsort((draws, above, group))  # the sampled first in each group, smallest first
    lowest = np.bincount(group[~above], minlength=n_groups)
    kept = np.maximum(np.round(share * lowest), 1.0).astype(np.int64)
    place = np.arange(order.size) - whole.group_ptr[group[order]]
    stay = np.sort(order[above[order] | (place < kept[group[order]])])
    raised = np.log(lowest / kept)[group]
    offset = np.where(above, whole.offset, whole.offset - raised)
    return dataclasses.replace(whole, offset=offset).take(stay, group[stay], n_groups)


def by_layer(whole: Layout, own: Array) -> Layout:
    """Make a group of its own for each dominating layer, with all that is below it.

    There the layer's rows have their own offset, and those below have the one of `whole`: so a
    layer can demand a margin of everything below it that its rows do not have when they are
    dominated. A group of K layers becomes K - 1 groups of two.

    Parameters
    ----------
    own : float64 array
        The offset of each row of the data as a dominating one.
    """
    places: list[Ints] = []
    groups: list[Ints] = []
    tops: list[NDArray[np.bool_]] = []
    for start, stop in zip(whole.group_ptr[:-1], whole.group_ptr[1:], strict=True):
        grades = whole.grades[start:stop]
        for layer in np.unique(grades)[1:]:
            chosen = np.flatnonzero(grades <= layer)
            places.append(start + chosen)
            groups.append(np.full(chosen.size, len(groups)))
            tops.append(grades[chosen] == layer)
    if not places:
        return whole
    laid = whole.take(np.concatenate(places), np.concatenate(groups), len(groups))
    top = np.concatenate(tops)
    offset = np.where(top, own[laid.rows], laid.offset)
    return dataclasses.replace(laid, grades=top.astype(float), offset=offset)
