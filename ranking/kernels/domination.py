"""The domination loss, with checked arguments, and the layout of its judged lists."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.contract import (
    BLOCK,
    LANES,
    RADIUS_FLOOR,
    CoordinateState,
    Csc,
    DominationFamily,
    EntryPenalty,
    Features,
    Floats,
    Ints,
    ListLayout,
)
from ranking.kernels.contract import Columns as ContractColumns
from ranking.kernels.validation import (
    FLOATS,
    check_array,
    check_below,
    check_compressed,
    check_no_overlap,
    check_not_negative,
    check_pointer,
    read_only,
    validate_threads,
)

NO_PENALTY = EntryPenalty(0.0, 0.0)


@dataclasses.dataclass(frozen=True)
class LayeredLists:
    """Judged lists: rows sorted by list, then by layer (grade), each layer padded.

    Lists with a single grade are left out.

    Attributes
    ----------
    list_ptr, layer_ptr, layer_size, block_ptr, omega
        As in :class:`ranking.kernels.contract.ListLayout`.
    source : int64 array
        The row of the data at each row of the layout; -1 is padding.
    """

    list_ptr: Ints
    layer_ptr: Ints
    layer_size: Ints
    block_ptr: Ints
    omega: Floats
    source: Ints

    @property
    def layout(self) -> ListLayout:
        """The arrays as a kernel takes them."""
        return ListLayout(
            self.list_ptr, self.layer_ptr, self.layer_size, self.block_ptr, self.omega
        )

    @classmethod
    def build(cls, group_ptr: Ints, grades: Floats, omega: Floats, *, pad: int) -> Self:
        """Lay out groups of rows.

        Parameters
        ----------
        group_ptr : int64 array
            Group q has the rows group_ptr[q]:group_ptr[q + 1].
        grades : float64 array
            One per row; higher is better.
        omega : float64 array
            Weight of a row as a dominating one; ignored in a list's lowest layer.
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

        ordered = depth[layer_group] >= 2
        first, size = first[ordered], size[ordered]
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
        """Refuse lists that a kernel could not trust; read-only ones are checked once.

        Parameters
        ----------
        pad : int
            Divisor of the number of rows of each layer.
        """
        if pad in self._valid_paddings:
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
            self._valid_paddings.add(pad)

    @functools.cached_property
    def _valid_paddings(self) -> set[int]:
        """Paddings for which these read-only lists are valid."""
        return set()

    @property
    def n_rows(self) -> int:
        """Number of rows of the layout, padding included."""
        return int(self.source.size)

    @property
    def n_lists(self) -> int:
        """Number of lists with two grades or more."""
        return int(self.list_ptr.size - 1)

    def take(self, values: NDArray[np.float64]) -> Floats:
        """Arrange one value per row of the data in the layout; padding gets 0."""
        return np.where(self.source >= 0, values[self.source], 0.0)


def _blocks(list_start: Ints) -> Ints:
    """Close a block of lists once it has `BLOCK` rows; return the blocks' first lists."""
    ends = [0]
    while ends[-1] < list_start.size - 1:
        limit = list_start[ends[-1]] + BLOCK
        ends.append(min(int(np.searchsorted(list_start, limit)), list_start.size - 1))
    return np.array(ends, dtype=np.int64)


@dataclasses.dataclass(frozen=True)
class SparseColumns:
    """The arrays of CSC, indices rising in each column; read-only, so they are checked once.

    Attributes
    ----------
    indptr, indices, data : arrays
        As in SciPy.
    shape : tuple of int
        Rows and columns.
    """

    indptr: NDArray[Any]
    indices: NDArray[Any]
    data: NDArray[Any]
    shape: tuple[int, int]

    def __post_init__(self) -> None:
        """Check the arrays, and store read-only views of them."""
        rows, columns = self.shape
        check_compressed(*self.arrays, columns, rows, sorted_once=True)
        for name in ("indptr", "indices", "data"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @classmethod
    def of(cls, matrix: sp.csc_array) -> Self:
        """Return the columns of a CSC array."""
        return cls(matrix.indptr, matrix.indices, matrix.data, matrix.shape)

    @property
    def arrays(self) -> Csc:
        """The three arrays."""
        return Csc(self.indptr, self.indices, self.data)


Columns: TypeAlias = Features | sp.csc_array | SparseColumns
"""Features by column: a Fortran-contiguous array, or CSC, which `SparseColumns` checks once."""


class DominationKernel:
    """The domination loss; see :mod:`ranking.kernels.contract.domination`."""

    def __init__(self, implementation: DominationFamily) -> None:
        self.implementation = implementation

    def value(self, lists: LayeredLists, margins: Floats, threads: int = 1) -> float:
        """Return the loss at these margins."""
        lists.check(pad=1)
        check_array("margins", margins, ("float64",), (lists.n_rows,))
        return self.implementation.domination_value(
            lists.layout, margins, validate_threads(threads)
        )

    def bounds(self, features: Columns, lists: LayeredLists, threads: int = 1) -> Floats:
        """Return four rows: Popoviciu's bound, the paper's bound, the range, the peak."""
        columns = _check_columns(features, lists)
        out = np.empty((4, features.shape[1]))
        self.implementation.domination_bounds(columns, lists.layout, out, validate_threads(threads))
        return out

    def slopes(
        self,
        features: Columns,
        lists: LayeredLists,
        margins: Floats,
        columns: Ints,
        threads: int = 1,
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature along each of `columns`."""
        by_column = _check_columns(features, lists)
        check_array("margins", margins, ("float64",), (lists.n_rows,))
        _check_selection(columns, features.shape[1])
        out = np.empty((2, columns.size))
        self.implementation.domination_slopes(
            by_column, lists.layout, margins, columns, out, validate_threads(threads)
        )
        return out[0], out[1]

    def sweep(
        self,
        features: Columns,
        lists: LayeredLists,
        state: CoordinateState,
        columns: Ints,
        *,
        penalty: EntryPenalty = NO_PENALTY,
        newton: bool = True,
        threads: int = 1,
    ) -> None:
        """Take one step along each of `columns`; margins, weights and radius change in place."""
        by_column = _check_columns(features, lists)
        _check_state(state, lists.n_rows, features.shape[1])
        _check_selection(columns, features.shape[1])
        check_not_negative(l1=penalty.l1, l2=penalty.l2)
        outputs = state._asdict()
        inputs = {"bounds": outputs.pop("bounds"), "columns": columns, "omega": lists.omega}
        data = by_column if isinstance(by_column, np.ndarray) else by_column.data
        check_no_overlap(outputs, {**inputs, "features": data})
        self.implementation.domination_sweep(
            by_column,
            lists.layout,
            state,
            columns,
            EntryPenalty(float(penalty.l1), float(penalty.l2)),
            bool(newton),
            validate_threads(threads),
        )


def _check_state(state: CoordinateState, n_rows: int, n_features: int) -> None:
    check_array("margins", state.margins, ("float64",), (n_rows,), writeable=True)
    check_array("weights", state.weights, ("float64",), (n_features,), writeable=True)
    check_array("radius", state.radius, ("float64",), (n_features,), writeable=True)
    bounds = state.bounds
    check_array("bounds", bounds, ("float64",), (3, n_features))
    if np.any(bounds[0] < 0.0) or np.any((bounds[0] > 0.0) & (bounds[1] <= 0.0)):
        raise ValueError("bounds must not be negative, and a feature that varies has a range.")
    varies = bounds[0] > 0.0
    if np.any(state.radius[varies] < RADIUS_FLOOR / bounds[1, varies]):
        raise ValueError(f"radius must be at least {RADIUS_FLOOR} / range; start with more.")


def _check_columns(features: Columns, lists: LayeredLists) -> ContractColumns:
    """Check features by column against a layout; return what a kernel takes."""
    if isinstance(features, sp.csc_array | SparseColumns):
        lists.check(pad=1)
        if np.any(np.diff(lists.layer_ptr) != lists.layer_size):
            raise ValueError("lists for sparse features must not be padded; build them with pad=1.")
        if features.shape[0] != lists.n_rows:
            raise ValueError(
                f"features have {features.shape[0]} rows and the lists {lists.n_rows}."
            )
        sparse = features if isinstance(features, SparseColumns) else SparseColumns.of(features)
        return sparse.arrays
    lists.check(pad=LANES)
    check_array("features", features, FLOATS, (lists.n_rows, None), order="F")
    return features


def _check_selection(columns: Ints, n_features: int) -> None:
    check_array("columns", columns, ("int64",), (None,))
    check_below("columns", columns, n_features)
