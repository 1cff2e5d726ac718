"""`Lists`: judged lists laid out for training."""

from __future__ import annotations

import dataclasses
import functools
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ranking.kernels._old_contract import BLOCK, Floats, Ints
from ranking.kernels.door import check_array, check_pointer, read_only


@dataclasses.dataclass(frozen=True)
class Lists:
    """Rows sorted by list, then by layer (grade), each layer padded to whole lanes.

    Lists with a single grade order nothing and are left out.

    Attributes
    ----------
    list_ptr, layer_ptr, layer_size, block_ptr, omega
        As in :class:`ranking.kernels.contract.Loops`.
    source : int64 array
        The row of the data that stands in each row of the layout; -1 is padding.
    """

    list_ptr: Ints
    layer_ptr: Ints
    layer_size: Ints
    block_ptr: Ints
    omega: Floats
    source: Ints

    @classmethod
    def build(cls, group_ptr: Ints, grades: Floats, omega: Floats, *, pad: int) -> Self:
        """Lay out groups of rows.

        Parameters
        ----------
        group_ptr : int64 array
            Group q has the rows group_ptr[q]:group_ptr[q + 1].
        grades : float64 array
            One a row; higher is better.
        omega : float64 array
            Weight of a row as a dominating one; ignored in a list's bottom layer.
        pad : int
            Each layer's rows are padded to a multiple of this.
        """
        group = np.repeat(np.arange(group_ptr.size - 1), np.diff(group_ptr))
        order = np.lexsort((grades, group))  # stable: equal grades keep the order of the data
        sorted_group, sorted_grade = group[order], grades[order]
        starts = np.ones(order.size, dtype=bool)
        starts[1:] = (np.diff(sorted_group) != 0) | (np.diff(sorted_grade) != 0)
        first = np.flatnonzero(starts)
        size = np.diff(np.append(first, order.size))
        layer_group = sorted_group[first]
        depth = np.bincount(layer_group, minlength=group_ptr.size - 1)

        kept = depth[layer_group] >= 2
        first, size, layer_group = first[kept], size[kept], layer_group[kept]
        list_ptr = np.concatenate([[0], np.cumsum(depth[depth >= 2])]).astype(np.int64)
        padded = -(-size // pad) * pad
        layer_ptr = np.concatenate([[0], np.cumsum(padded)]).astype(np.int64)

        within = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        source = np.full(int(layer_ptr[-1]), -1, dtype=np.int64)
        source[np.repeat(layer_ptr[:-1], size) + within] = order[np.repeat(first, size) + within]

        dominating = np.ones(size.size, dtype=bool)
        dominating[list_ptr[:-1]] = False
        weight = np.where(source >= 0, omega[source], 0.0) * np.repeat(dominating, padded)
        return cls(
            list_ptr=read_only(list_ptr),
            layer_ptr=read_only(layer_ptr),
            layer_size=read_only(size.astype(np.int64)),
            block_ptr=read_only(_blocks(layer_ptr[list_ptr])),
            omega=read_only(weight),
            source=read_only(source),
        )

    def check(self, pad: int) -> None:
        """Refuse lists that a loop could not trust; read-only ones are looked at once.

        Parameters
        ----------
        pad : int
            What the rows of each layer must be a multiple of.
        """
        if pad in self._passed:
            return
        layers = self.layer_size.size
        check_array("layer_size", self.layer_size, ("int64",), (None,))
        check_array("list_ptr", self.list_ptr, ("int64",), (None,))
        check_pointer("list_ptr", self.list_ptr, ("int64",), self.n_lists, layers)
        check_pointer("layer_ptr", self.layer_ptr, ("int64",), layers, self.n_rows)
        check_array("block_ptr", self.block_ptr, ("int64",), (None,))
        check_pointer(
            "block_ptr", self.block_ptr, ("int64",), self.block_ptr.size - 1, self.n_lists
        )
        check_array("omega", self.omega, ("float64",), (self.n_rows,))
        if np.any(np.diff(self.list_ptr) < 2):
            raise ValueError("every list must have two layers or more; leave the others out.")
        rows = np.diff(self.layer_ptr)
        if np.any(rows % pad) or np.any(self.layer_size > rows) or np.any(self.layer_size < 1):
            raise ValueError(f"every layer must have rows, padded to a multiple of {pad}.")
        if not any(getattr(self, each.name).flags.writeable for each in dataclasses.fields(self)):
            self._passed.add(pad)

    @functools.cached_property
    def _passed(self) -> set[int]:
        """The paddings for which read-only lists have passed the check."""
        return set()

    @property
    def n_rows(self) -> int:
        """Rows of the layout, padding included."""
        return int(self.source.size)

    @property
    def n_lists(self) -> int:
        """Lists that order something."""
        return int(self.list_ptr.size - 1)

    def take(self, values: NDArray[np.float64]) -> Floats:
        """Bring one value a row of the data into the layout; padding gets 0."""
        return np.where(self.source >= 0, values[self.source], 0.0)


def _blocks(list_start: Ints) -> Ints:
    """Close a block of lists once it has `BLOCK` rows; return the blocks' first lists."""
    ends = [0]
    while ends[-1] < list_start.size - 1:
        wanted = list_start[ends[-1]] + BLOCK
        ends.append(min(int(np.searchsorted(list_start, wanted)), list_start.size - 1))
    return np.array(ends, dtype=np.int64)
