"""The layout of rows in groups for the domination loss."""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Layout:
    """Rows in groups; a row may be in several.

    Attributes
    ----------
    rows : int64 array
        The row of the data at each position.
    group_ptr : int64 array
        Group q has the positions group_ptr[q]:group_ptr[q + 1].
    grades, omega, offset : float64 arrays
        One per position: grade, weight as a dominating row, and s, which is subtracted from the
        score.
    """

    rows: Ints
    group_ptr: Ints
    grades: Array
    omega: Array
    offset: Array

    @property
    def group(self) -> Ints:
        """The group of each position."""
        return np.repeat(np.arange(self.group_ptr.size - 1), np.diff(self.group_ptr))

    def take(self, positions: Ints, group: Ints, n_groups: int) -> Layout:
        """Return the rows at some positions, in this order, in groups that do not decrease."""
        counts = np.bincount(group, minlength=n_groups)
        return Layout(
            self.rows[positions],
            np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            self.grades[positions],
            self.omega[positions],
            self.offset[positions],
        )


def sampled(whole: Layout, numbers: Array, above: NDArray[np.bool_], share: float) -> Layout:
    """Keep all rows that dominate others, and of each group a share of the rest, at least one.

    If k of n rows are kept, they have n / k times the weight in the sum over the dominated rows:
    their scores are raised by log(n / k).

    Parameters
    ----------
    numbers : float64 array
        One uniform random number per position; the smallest are kept.
    """
    group, n_groups = whole.group, whole.group_ptr.size - 1
    order = np.lexsort((numbers, above, group))  # sampled rows first in each group, smallest first
    lowest = np.bincount(group[~above], minlength=n_groups)
    n_kept = np.maximum(np.round(share * lowest), 1.0).astype(np.int64)
    position = np.arange(order.size) - whole.group_ptr[group[order]]
    stay = np.sort(order[above[order] | (position < n_kept[group[order]])])
    raised = np.log(lowest / n_kept)[group]
    offset = np.where(above, whole.offset, whole.offset - raised)
    return dataclasses.replace(whole, offset=offset).take(stay, group[stay], n_groups)


def by_layer(whole: Layout, own: Array) -> Layout:
    """Make a separate group for each dominating layer, with all rows below it.

    The rows of the layer have their own offset there, and the rows below that of `whole`: so a
    layer can require a margin to all rows below it that its rows lack when they are dominated.
    A group of K layers becomes K - 1 groups of two.

    Parameters
    ----------
    own : float64 array
        The offset of each row of the data as a dominating row.
    """
    positions: list[Ints] = []
    groups: list[Ints] = []
    tops: list[NDArray[np.bool_]] = []
    for start, stop in zip(whole.group_ptr[:-1], whole.group_ptr[1:], strict=True):
        grades = whole.grades[start:stop]
        for layer in np.unique(grades)[1:]:
            selected = np.flatnonzero(grades <= layer)
            positions.append(start + selected)
            groups.append(np.full(selected.size, len(groups)))
            tops.append(grades[selected] == layer)
    if not positions:
        return whole
    layout = whole.take(np.concatenate(positions), np.concatenate(groups), len(groups))
    top = np.concatenate(tops)
    offset = np.where(top, own[layout.rows], layout.offset)
    return dataclasses.replace(layout, grades=top.astype(float), offset=offset)
