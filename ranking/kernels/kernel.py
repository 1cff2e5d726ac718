"""`Kernel`: the loops of one implementation behind the shared door."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from ranking.kernels.bilinear import csr_parts
from ranking.kernels.columns import SparseColumns
from ranking.kernels._old_contract import LANES, RADIUS_FLOOR, Features, Floats, Ints, Loops
from ranking.kernels.door import (
    FLOATS,
    check_apart,
    check_array,
    check_compressed,
    check_pointer,
    checked_threads,
)
from ranking.kernels.letor import Chunk, Room
from ranking.kernels.lists import Lists
from ranking.kernels.match_lists import MatchLists
from ranking.kernels.measures import RankedLists

Columns: TypeAlias = Features | sp.csc_array | SparseColumns
"""Features by column: a Fortran-contiguous array, or CSC, which `SparseColumns` checks once."""

Rows: TypeAlias = Features | sp.csr_array
"""Features by row: a C-contiguous array, or CSR."""


@dataclasses.dataclass(frozen=True)
class Kernel:
    """One implementation of the contract, safe to call with anything.

    Every method checks its arrays, then calls the loop of the same name (see
    :class:`ranking.kernels.contract.Loops` for what each computes).

    Attributes
    ----------
    name : str
        As it is registered.
    loops : Loops
        The implementation.
    version : str
        Of the distribution that brings it; recorded in model files.
    """

    name: str
    loops: Loops
    version: str

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        """Travel between processes by name: the loops themselves cannot."""
        from ranking.kernels.select import get_kernel

        return get_kernel, (self.name,)

    def describe(self) -> dict[str, Any]:
        """Return what the loops say about themselves."""
        return self.loops.contract()

    # --- random numbers ---

    def random_bits(self, seed: int, first: int, count: int) -> NDArray[np.uint64]:
        """Return the draws first, first + 1, ... of a seed."""
        out = np.empty(_count(count), dtype=np.uint64)
        self.loops.random_bits(_word("seed", seed), _word("first", first), out)
        return out

    def random_uniform(self, seed: int, first: int, count: int) -> Floats:
        """Return uniforms in [0, 1)."""
        out = np.empty(_count(count))
        self.loops.random_uniform(_word("seed", seed), _word("first", first), out)
        return out

    def random_below(self, seed: int, first: int, count: int, bound: int) -> Ints:
        """Return integers in [0, bound)."""
        if not 1 <= bound < 2**32:
            raise ValueError(f"bound is {bound}; it must lie in 1..2**32 - 1.")
        out = np.empty(_count(count), dtype=np.int64)
        self.loops.random_below(_word("seed", seed), _word("first", first), bound, out)
        return out

    # --- sums and products ---

    def exp(self, x: Floats) -> Floats:
        """Return the contract's exponential."""
        check_array("x", x, ("float64",), (None,))
        out = np.empty_like(x)
        self.loops.exp(x, out)
        return out

    def dot(self, a: Floats, b: Floats) -> float:
        """Return the dot product in lanes."""
        check_array("a", a, ("float64",), (None,))
        check_array("b", b, ("float64",), (a.size,))
        return self.loops.dot(a, b)

    def block_sum(self, a: Floats, threads: int = 1) -> float:
        """Return the sum by blocks."""
        check_array("a", a, ("float64",), (None,))
        return self.loops.block_sum(a, checked_threads(threads))

    def linear_scores(self, features: Rows, weights: Floats, threads: int = 1) -> Floats:
        """Return the dot product of each row with the weights."""
        check_array("weights", weights, ("float64",), (features.shape[1],))
        out = np.empty(features.shape[0])
        if isinstance(features, sp.csr_array):
            indptr, indices, data = features.indptr, features.indices, features.data
            check_compressed(indptr, indices, data, *features.shape)
            self.loops.scores_csr(indptr, indices, data, weights, out, checked_threads(threads))
        else:
            check_array("features", features, FLOATS, (None, None))
            self.loops.scores_dense(features, weights, out, checked_threads(threads))
        return out

    # --- matching ---

    def draw_tuples(
        self,
        lists: MatchLists,
        seed: int,
        first: int,
        count: int,
        trials: int = 1,
        positives: int = 1,
    ) -> Ints:
        """Return the tuples of the steps first, first + 1, ...: query, positives, negatives."""
        for name, value in (("trials", trials), ("positives", positives)):
            if value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1.")
        out = np.empty((_count(count), 1 + positives + trials), dtype=np.int64)
        if count and not lists.queries.size:
            raise ValueError("there is no query to draw from.")
        self.loops.draw_tuples(
            _word("seed", seed), _word("first", first), lists.fields, positives, out
        )
        return out

    def bilinear_scores(
        self,
        queries: sp.csr_array,
        weights: sp.csr_array,
        documents: sp.csr_array,
        threads: int = 1,
    ) -> Floats:
        """Return q' W d for each query and document."""
        if queries.shape[1] != weights.shape[0] or documents.shape[1] != weights.shape[1]:
            raise ValueError(
                f"W is {weights.shape[0]} x {weights.shape[1]}, and queries have "
                f"{queries.shape[1]} features, documents {documents.shape[1]}."
            )
        out = np.empty((queries.shape[0], documents.shape[0]))
        self.loops.bilinear_scores(
            csr_parts("queries", queries),
            csr_parts("weights", weights),
            csr_parts("documents", documents),
            weights.shape[1],
            out,
            checked_threads(threads),
        )
        return out

    # --- text ---

    def parse_letor(
        self,
        text: bytes | bytearray,
        start: int = 0,
        stop: int | None = None,
        *,
        dtype: DTypeLike = np.float64,
        threads: int = 1,
    ) -> list[Chunk]:
        """Return what the whole lines text[start:stop] hold, up to the first defect of a chunk.

        A line that is refused ends its chunk; chunks after it are to be ignored.
        """
        end = len(text) if stop is None else stop
        if not 0 <= start <= end <= len(text):
            raise ValueError(f"start and stop are {start} and {end}; text has {len(text)} bytes.")
        if start < end and text[end - 1] != ord("\n"):
            raise ValueError("text does not end with a newline; add one.")
        if np.dtype(dtype).name not in FLOATS:
            raise TypeError(f"dtype is {np.dtype(dtype)}; a kernel takes {' or '.join(FLOATS)}.")
        room = Room(text, start, end, dtype)
        self.loops.parse_letor(
            room.text,
            room.chunk_ptr,
            room.row_ptr,
            room.grades,
            room.places,
            room.indices,
            room.values,
            room.counts,
            checked_threads(threads),
        )
        return room.chunks()

    # --- domination ---

    def domination_value(self, lists: Lists, margins: Floats, threads: int = 1) -> float:
        """Return the domination loss at these margins."""
        lists.check(pad=1)
        check_array("margins", margins, ("float64",), (lists.n_rows,))
        return self.loops.domination_value(
            lists.list_ptr,
            lists.layer_ptr,
            lists.layer_size,
            lists.block_ptr,
            lists.omega,
            margins,
            checked_threads(threads),
        )

    def domination_bounds(self, features: Columns, lists: Lists, threads: int = 1) -> Floats:
        """Return four rows: Popoviciu's bound, the paper's bound, the range, the peak."""
        by_column = _check_columns(features, lists)
        out = np.empty((4, features.shape[1]))
        threads = checked_threads(threads)
        list_ptr, layer_ptr, layer_size = lists.list_ptr, lists.layer_ptr, lists.layer_size
        if isinstance(by_column, tuple):
            self.loops.domination_bounds_csc(
                *by_column,
                list_ptr,
                layer_ptr,
                layer_size,
                lists.omega,
                out,
                checked_threads(threads),
            )
        else:
            self.loops.domination_bounds_dense(
                by_column,
                list_ptr,
                layer_ptr,
                layer_size,
                lists.omega,
                out,
                checked_threads(threads),
            )
        return out

    def domination_slopes(
        self, features: Columns, lists: Lists, margins: Floats, columns: Ints, threads: int = 1
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature along each of `columns`."""
        by_column = _check_columns(features, lists)
        check_array("margins", margins, ("float64",), (lists.n_rows,))
        _check_chosen(columns, features.shape[1])
        out = np.empty((2, columns.size))
        structure = (lists.list_ptr, lists.layer_ptr, lists.layer_size)
        if isinstance(by_column, tuple):
            self.loops.domination_slopes_csc(
                *by_column, *structure, lists.omega, margins, columns, out
            )
        else:
            self.loops.domination_slopes_dense(
                by_column,
                *structure,
                lists.block_ptr,
                lists.omega,
                margins,
                columns,
                out,
                checked_threads(threads),
            )
        return out[0], out[1]

    def domination_sweep(
        self,
        features: Columns,
        lists: Lists,
        margins: Floats,
        weights: Floats,
        radius: Floats,
        bounds: Floats,
        columns: Ints,
        *,
        l1: float = 0.0,
        l2: float = 0.0,
        newton: bool = True,
        threads: int = 1,
    ) -> None:
        """Take one step along each of `columns`; margins, weights and radius change in place."""
        by_column = _check_columns(features, lists)
        n_features = features.shape[1]
        outputs = {"margins": margins, "weights": weights, "radius": radius}
        for name, size in (
            ("margins", lists.n_rows),
            ("weights", n_features),
            ("radius", n_features),
        ):
            check_array(name, outputs[name], ("float64",), (size,), writeable=True)
        check_array("bounds", bounds, ("float64",), (3, n_features))
        _check_chosen(columns, n_features)
        for name, value in (("l1", l1), ("l2", l2)):
            if not 0.0 <= value < np.inf:
                raise ValueError(f"{name} is {value}; it must be finite and not negative.")
        if np.any(bounds[0] < 0.0) or np.any((bounds[0] > 0.0) & (bounds[1] <= 0.0)):
            raise ValueError("bounds must not be negative, and a feature that varies has a range.")
        varies = bounds[0] > 0.0
        if np.any(radius[varies] < RADIUS_FLOOR / bounds[1, varies]):
            raise ValueError(f"radius must be at least {RADIUS_FLOOR} / range; start with more.")
        inputs = {"bounds": bounds, "columns": columns, "omega": lists.omega}
        if isinstance(by_column, tuple):
            check_apart(outputs, {**inputs, "features": by_column[2]})
            self.loops.domination_sweep_csc(
                *by_column,
                lists.list_ptr,
                lists.layer_ptr,
                lists.layer_size,
                lists.omega,
                margins,
                weights,
                radius,
                bounds,
                columns,
                float(l1),
                float(l2),
                bool(newton),
            )
        else:
            check_apart(outputs, {**inputs, "features": by_column})
            self.loops.domination_sweep_dense(
                by_column,
                lists.list_ptr,
                lists.layer_ptr,
                lists.layer_size,
                lists.block_ptr,
                lists.omega,
                margins,
                weights,
                radius,
                bounds,
                columns,
                float(l1),
                float(l2),
                bool(newton),
                checked_threads(threads),
            )

    # --- ranked lists ---

    def rank_lists(
        self, group_ptr: Ints, scores: Features, threads: int = 1
    ) -> tuple[Ints, NDArray[np.uint8]]:
        """Return the row at each place, best first by list, and which places are tied."""
        check_array("scores", scores, FLOATS, (None,))
        check_array("group_ptr", group_ptr, ("int64",), (None,))
        check_pointer("group_ptr", group_ptr, ("int64",), group_ptr.size - 1, scores.size)
        if np.isnan(scores).any():
            raise ValueError("scores must not be NaN, which has no place in an order.")
        order = np.empty(scores.size, dtype=np.int64)
        tied = np.empty(scores.size, dtype=np.uint8)
        self.loops.rank_lists(group_ptr, scores, order, tied, checked_threads(threads))
        return order, tied

    def ranked_metrics(self, lists: RankedLists, measures: Ints, threads: int = 1) -> Floats:
        """Return a row of measures for each list."""
        lists.check(measures)
        out = np.empty((lists.n_lists, measures.shape[0]))
        self.loops.ranked_metrics(
            lists.group_ptr,
            lists.grades,
            lists.order,
            lists.tied,
            lists.unfound_ptr,
            lists.unfound_grades,
            lists.gains,
            lists.unfound_gains,
            lists.discounts,
            measures,
            out,
            checked_threads(threads),
        )
        return out


def _check_columns(
    features: Columns, lists: Lists
) -> Features | tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Check features by column against a layout; return the array, or the three of CSC."""
    if isinstance(features, sp.csc_array | SparseColumns):
        lists.check(pad=1)
        if np.any(np.diff(lists.layer_ptr) != lists.layer_size):
            raise ValueError("lists for sparse features must not be padded; build them with pad=1.")
        if features.shape[0] != lists.n_rows:
            raise ValueError(
                f"features have {features.shape[0]} rows and the lists {lists.n_rows}."
            )
        known = features if isinstance(features, SparseColumns) else SparseColumns.of(features)
        return known.arrays
    lists.check(pad=LANES)
    check_array("features", features, FLOATS, (lists.n_rows, None), order="F")
    return features


def _check_chosen(columns: Ints, n_features: int) -> None:
    check_array("columns", columns, ("int64",), (None,))
    if columns.size and (columns.min() < 0 or columns.max() >= n_features):
        raise ValueError(
            f"columns run from {columns.min()} to {columns.max()}; "
            f"they must lie in 0..{n_features - 1}."
        )


def _word(name: str, value: int) -> int:
    if not 0 <= value < 2**64:
        raise ValueError(f"{name} is {value}; it must lie in 0..2**64 - 1.")
    return int(value)


def _count(count: int) -> int:
    if count < 0:
        raise ValueError(f"count is {count}; it must not be negative.")
    return int(count)
