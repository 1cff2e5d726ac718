"""The door of the bilinear loops: W in training, and the objects that it is trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels._old_contract import BilinearStore, Clock, Csr, Features, Floats, Ints, PairForm
from ranking.kernels.door import (
    check_apart,
    check_array,
    check_below,
    check_compressed,
    checked_threads,
)
from ranking.kernels.native import checked_form
from ranking.native import PairFunctions

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

MOST_COLUMNS = 2**31 - 1


class Objects:
    """Queries and documents by their sparse features, checked once.

    Parameters
    ----------
    queries, documents : csr_array
        One row an object, indices sorted, no duplicates.
    """

    def __init__(self, queries: sp.csr_array, documents: sp.csr_array) -> None:
        self.queries = csr_parts("queries", queries)
        self.documents = csr_parts("documents", documents)
        self.n_queries, self.n_query_features = queries.shape
        self.n_documents, self.n_document_features = documents.shape
        for name, parts in (("queries", self.queries), ("documents", self.documents)):
            if not np.isfinite(parts[2]).all():
                raise ValueError(f"the features of {name} must be finite.")


class BilinearWeights:
    """W while a kernel trains it; see `BilinearStore` for what is computed.

    Parameters
    ----------
    kernel : Kernel
    weights : csr_array of float32 or float64
        The first values; their dtype is that in which W is kept.
    groups : int64 array, optional
        The group of each row, from 0, for a group penalty.
    group_weights : float64 array, optional
        One a group.

    Attributes
    ----------
    clock : float64 array
        Steps, running scale and threshold, rates since the last boundary.
    """

    def __init__(
        self,
        kernel: Kernel,
        weights: sp.csr_array,
        groups: Ints | None = None,
        group_weights: Floats | None = None,
    ) -> None:
        indptr, indices, values = csr_parts("weights", weights)
        rows, self.n_columns = weights.shape
        clock = np.array([0.0, 1.0, 0.0, 0.0])
        row_state = np.tile([1.0, 0.0, 0.0], (rows, 1))
        groups = np.zeros(0, np.int64) if groups is None else groups
        group_weights = np.zeros(0) if group_weights is None else group_weights
        group_state = np.zeros((group_weights.size, 4))
        if groups.size:
            check_array("groups", groups, ("int64",), (rows,))
            square = np.zeros(group_weights.size)
            owner = np.repeat(groups, np.diff(indptr))
            check_below("groups", groups, group_weights.size)
            np.add.at(square, owner, values.astype(np.float64) ** 2)
            group_state[:, 0], group_state[:, 1], group_state[:, 2] = 1.0, square, square
        self._start(
            kernel, indptr, indices, values, row_state, groups, group_weights, group_state, clock
        )

    def _start(
        self,
        kernel: Kernel,
        indptr: NDArray[Any],
        indices: NDArray[Any],
        values: Features,
        row_state: Floats,
        groups: Ints,
        group_weights: Floats,
        group_state: Floats,
        clock: Floats,
    ) -> None:
        rows = indptr.size - 1
        if not 1 <= self.n_columns <= MOST_COLUMNS or not 1 <= rows <= MOST_COLUMNS:
            raise ValueError(f"W is {rows} x {self.n_columns}; it must be 1 x 1 to 2**31 - 1 each.")
        check_compressed(indptr, indices, values, rows, self.n_columns, sorted_once=True)
        check_array("row_state", row_state, ("float64",), (rows, 3))
        check_array("groups", groups, ("int64",), (rows if groups.size else 0,))
        check_array("group_weights", group_weights, ("float64",), (None,))
        check_array("group_state", group_state, ("float64",), (group_weights.size, 4))
        check_array("clock", clock, ("float64",), (4,))
        check_below("groups", groups, group_weights.size)
        finite = (values, row_state, group_weights, group_state, clock)
        if not all(np.isfinite(array).all() for array in finite):
            raise ValueError("W and its state must be finite.")
        scales = (row_state[:, 0], group_state[:, 0], clock[1:2])
        if any(np.any(scale <= 0.0) for scale in scales) or np.any(group_state[:, 1:3] < 0.0):
            raise ValueError("the scales of W must be positive, its squares not negative.")
        if np.any(row_state[:, 1] > clock[Clock.THRESHOLD]):
            raise ValueError(
                "a row of W was renewed later than its clock says; the state is damaged."
            )
        if clock[Clock.STEP] != np.floor(clock[Clock.STEP]) or clock[Clock.STEP] < 0.0:
            raise ValueError(f"the clock's step is {clock[Clock.STEP]}; it must be a count.")
        self.kernel, self.shape, self.dtype = kernel, (rows, self.n_columns), values.dtype
        self.clock, self.groups, self.group_weights = clock, groups, group_weights
        self.store: BilinearStore = kernel.loops.bilinear(
            self.n_columns,
            indptr.astype(np.int64, copy=False),
            indices.astype(np.int32, copy=False),
            values,
            row_state,
            groups,
            group_weights,
            group_state,
        )

    def steps(
        self,
        objects: Objects,
        tuples: Ints,
        rates: Floats,
        *,
        form: PairForm = PairForm.HINGE,
        functions: PairFunctions | None = None,
        rank_weights: Floats | None = None,
        every: int = 100,
        l1: float = 0.0,
        l2: float = 0.0,
        grow: bool = True,
        transposed: bool = False,
        batch: int = 1,
        hogwild: bool = False,
        threads: int = 1,
    ) -> tuple[Floats, Floats]:
        """Take a step for each tuple; return margins and violation weights."""
        self._check(objects, tuples, transposed)
        self._check_rates(tuples, rates, every, l1, l2)
        ranks = _checked_ranks(rank_weights)
        if batch < 1:
            raise ValueError(f"batch is {batch}; it must be at least 1.")
        margins, weights = np.empty(tuples.shape[0]), np.empty(tuples.shape[0])
        self.store.steps(
            objects.queries,
            objects.documents,
            tuples,
            rates,
            *checked_form(form, functions),
            ranks,
            objects.n_documents,
            int(every),
            float(l1),
            float(l2),
            bool(grow),
            bool(transposed),
            int(batch),
            bool(hogwild),
            self.clock,
            margins,
            weights,
            checked_threads(threads),
        )
        return margins, weights

    def passive(
        self,
        objects: Objects,
        tuples: Ints,
        aggressiveness: float,
        *,
        form: PairForm = PairForm.HINGE,
        rank_weights: Floats | None = None,
        n_documents: Ints | None = None,
        grow: bool = True,
        transposed: bool = False,
    ) -> tuple[Floats, Floats, Floats]:
        """Take a passive-aggressive step for each tuple, in order.

        Parameters
        ----------
        n_documents : int64 array, optional
            How many there are to be ranked, for each tuple; if left out, all.

        Returns
        -------
        margins, weights, rates : float64 arrays
            Of violations the weights.
        """
        self._check(objects, tuples, transposed)
        if form not in (PairForm.HINGE, PairForm.SQUARED_HINGE):
            raise ValueError(
                f"form {PairForm(form).name} has no passive-aggressive step; the hinge and its "
                "square have."
            )
        ranks = _checked_ranks(rank_weights)
        if (ranks < 0.0).any():
            raise ValueError("rank_weights must not be negative: a step would go the wrong way.")
        if n_documents is None:
            n_documents = np.full(tuples.shape[0], objects.n_documents, np.int64)
        check_array("n_documents", n_documents, ("int64",), (tuples.shape[0],))
        if (n_documents < 1).any():
            raise ValueError("n_documents must be at least 1.")
        if not 0.0 < aggressiveness < np.inf:
            raise ValueError(
                f"aggressiveness is {aggressiveness}; it must be a finite number above 0."
            )
        if self.groups.size:
            raise ValueError("passive-aggressive steps know no penalty; leave the groups out.")
        margins, weights, rates = (np.empty(tuples.shape[0]) for _ in range(3))
        self.store.passive(
            objects.queries,
            objects.documents,
            tuples,
            int(form),
            float(aggressiveness),
            ranks,
            n_documents,
            bool(grow),
            bool(transposed),
            self.clock,
            margins,
            weights,
            rates,
        )
        return margins, weights, rates

    def margins(
        self, objects: Objects, tuples: Ints, *, transposed: bool = False, threads: int = 1
    ) -> Floats:
        """Return the margin of each tuple, of which the first negative counts, at this W."""
        self._check(objects, tuples, transposed)
        first = np.ascontiguousarray(tuples[:, :3])
        return self.violations(objects, first, transposed=transposed, threads=threads)[0]

    def violations(
        self,
        objects: Objects,
        tuples: Ints,
        *,
        rank_weights: Floats | None = None,
        transposed: bool = False,
        threads: int = 1,
    ) -> tuple[Floats, Floats, Ints]:
        """Return margins, violation weights and the negatives that count, at this W."""
        self._check(objects, tuples, transposed)
        margins, weights = np.empty(tuples.shape[0]), np.empty(tuples.shape[0])
        negatives = np.empty(tuples.shape[0], np.int64)
        self.store.margins(
            objects.queries,
            objects.documents,
            tuples,
            _checked_ranks(rank_weights),
            objects.n_documents,
            bool(transposed),
            self.clock,
            margins,
            weights,
            negatives,
            checked_threads(threads),
        )
        return margins, weights, negatives

    def update(
        self,
        objects: Objects,
        tuples: Ints,
        slopes: Floats,
        rates: Floats,
        *,
        every: int = 100,
        l1: float = 0.0,
        l2: float = 0.0,
        grow: bool = True,
        transposed: bool = False,
        threads: int = 1,
    ) -> None:
        """Take a step for each tuple, of which the first negative counts, with given slopes."""
        self._check(objects, tuples, transposed)
        self._check_rates(tuples, rates, every, l1, l2)
        check_array("slopes", slopes, ("float64",), (tuples.shape[0],))
        self.store.update(
            objects.queries,
            objects.documents,
            np.ascontiguousarray(tuples[:, :3]),
            np.ascontiguousarray(tuples[:, 2]),
            slopes,
            rates,
            int(every),
            float(l1),
            float(l2),
            bool(grow),
            bool(transposed),
            self.clock,
            checked_threads(threads),
        )

    def _check(self, objects: Objects, tuples: Ints, transposed: bool) -> None:
        width = (objects.n_query_features, objects.n_document_features)
        if (width[::-1] if transposed else width) != self.shape:
            raise ValueError(
                f"W is {self.shape[0]} x {self.shape[1]}, and queries have {width[0]} features, "
                f"documents {width[1]}."
            )
        check_array("tuples", tuples, ("int64",), (None, None))
        if tuples.shape[1] < 3:
            raise ValueError("a tuple is a query, a positive and at least one negative.")
        check_below("tuples' queries", tuples[:, 0], objects.n_queries)
        check_below("tuples' documents", tuples[:, 1:], objects.n_documents)

    def _check_rates(self, tuples: Ints, rates: Floats, every: int, l1: float, l2: float) -> None:
        check_array("rates", rates, ("float64",), (tuples.shape[0],))
        if not ((rates >= 0.0) & (rates < np.inf)).all():
            raise ValueError("rates must be finite and not negative.")
        if every < 1:
            raise ValueError(f"every is {every}; it must be at least 1.")
        for name, value in (("l1", l1), ("l2", l2)):
            if not 0.0 <= value < np.inf:
                raise ValueError(f"{name} is {value}; it must be finite and not negative.")
        if self.groups.size and l2:
            raise ValueError(f"l2 is {l2}; a group penalty has none beside it.")
        check_apart({"clock": self.clock}, {"rates": rates})

    def weights(self) -> sp.csr_array:
        """Return the current weights, without zeros."""
        return self._csr(current=True)

    def _csr(self, current: bool) -> sp.csr_array:
        counts = np.empty(self.shape[0], dtype=np.int64)
        self.store.counts(self.clock, counts)
        indptr = np.concatenate(([0], np.cumsum(counts)))
        indices = np.empty(indptr[-1], dtype=np.int32)
        values = np.empty(indptr[-1], dtype=self.dtype)
        self.store.export(self.clock, indptr, indices, values, current)
        narrow = indptr.astype(np.int32) if indptr[-1] < 2**31 else indptr
        wide = indices if narrow.dtype == np.int32 else indices.astype(np.int64)
        return sp.csr_array((values, wide, narrow), shape=self.shape)

    @property
    def n_nonzero(self) -> int:
        """The number of weights that are not zero."""
        counts = np.empty(self.shape[0], dtype=np.int64)
        self.store.counts(self.clock, counts)
        return int(counts.sum())

    def state(self) -> dict[str, NDArray[Any]]:
        """Return arrays from which `restore` goes on with the same bits."""
        stored = self._csr(current=False)
        row_state = np.empty((self.shape[0], 3))
        group_state = np.empty((self.group_weights.size, 4))
        self.store.state(row_state, group_state)
        return {
            "indptr": stored.indptr,
            "indices": stored.indices,
            "values": stored.data,
            "row_state": row_state,
            "groups": self.groups,
            "group_weights": self.group_weights,
            "group_state": group_state,
            "clock": self.clock.copy(),
        }

    def grown(self, weights: sp.csr_array) -> BilinearWeights:
        """Return W with more rows and columns at its ends, and these weights in the new places.

        A row that is new begins at the present; what else there is goes on as it was.
        """
        if self.groups.size:
            raise ValueError("a group penalty weighs groups by their size, so W cannot grow.")
        state = self.state()
        old = sp.csr_array((state["values"], state["indices"], state["indptr"]), shape=self.shape)
        kept, given = old.tocoo(), weights.tocoo()
        rows, columns = given.coords
        new = (rows >= self.shape[0]) | (columns >= self.shape[1])
        rows, columns, added = rows[new], columns[new], given.data[new].astype(np.float64)
        scale, threshold = self.clock[Clock.SCALE], self.clock[Clock.THRESHOLD]
        fresh = np.tile([scale, threshold, 0.0], (weights.shape[0] - self.shape[0], 1))
        row_state = np.concatenate((state["row_state"], fresh))
        k = scale / row_state[rows, 0]
        s = (threshold - row_state[rows, 1]) * row_state[rows, 0]
        stored = added / k + np.copysign(s, added)
        joined = sp.coo_array(
            (
                np.concatenate((kept.data, stored.astype(self.dtype))),
                (
                    np.concatenate((kept.coords[0], rows)),
                    np.concatenate((kept.coords[1], columns)),
                ),
            ),
            shape=weights.shape,
        ).tocsr()
        state |= {"indptr": joined.indptr, "indices": joined.indices, "values": joined.data}
        return self.restore(self.kernel, weights.shape[1], {**state, "row_state": row_state})

    @classmethod
    def restore(cls, kernel: Kernel, n_columns: int, state: dict[str, NDArray[Any]]) -> Self:
        """Return W as it was when `state` was asked."""
        made = cls.__new__(cls)
        made.n_columns = n_columns
        made._start(kernel, **{**state, "clock": state["clock"].copy()})
        return made


def csr_parts(name: str, matrix: sp.csr_array) -> Csr:
    """Return the arrays of a checked CSR matrix, sorted and without duplicates."""
    if not isinstance(matrix, sp.csr_array):
        raise TypeError(f"{name} must be a csr_array, not {type(matrix).__name__}.")
    check_compressed(matrix.indptr, matrix.indices, matrix.data, *matrix.shape, sorted_once=True)
    return matrix.indptr, matrix.indices, matrix.data


def _checked_ranks(rank_weights: Floats | None) -> Floats:
    ranks = np.ones(1) if rank_weights is None else rank_weights
    check_array("rank_weights", ranks, ("float64",), (None,))
    if not ranks.size or not np.isfinite(ranks).all():
        raise ValueError("rank_weights must be finite, and at least one.")
    return ranks
