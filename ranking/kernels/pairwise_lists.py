"""Pairwise losses over judged lists, with checked arguments."""

from __future__ import annotations

import dataclasses

import numpy as np

from ranking.kernels.contract import (
    NO_CALL,
    EntryPenalty,
    Floats,
    Ints,
    PairCurve,
    PairwiseForm,
    PairwiseListsFamily,
)
from ranking.kernels.contract import Columns as ContractColumns
from ranking.kernels.domination import Columns, LayeredLists, SparseColumns
from ranking.kernels.native.functions import PairwiseFunctions
from ranking.kernels.validation import (
    FLOATS,
    check_array,
    check_below,
    check_finite,
    check_no_overlap,
    check_not_negative,
    validate_count,
    validate_threads,
)

UNIFORM = PairCurve(PairwiseForm.SQUARED_HINGE, -np.inf, np.inf, 1.0, NO_CALL, NO_CALL)
"""The curvature 1 for every pair, for `gram`."""


def squared_hinge() -> PairCurve:
    """Return ``max(0, 1 - z)**2``."""
    return PairCurve(PairwiseForm.SQUARED_HINGE, 0.0, np.inf, 2.0, NO_CALL, NO_CALL)


def smoothed_hinge(smoothing: float) -> PairCurve:
    """Return the hinge ``max(0, 1 - z)``, quadratic where it is at most about `smoothing`."""
    return PairCurve(PairwiseForm.HINGE, 0.0, smoothing, 1.0 / smoothing, NO_CALL, NO_CALL)


def logistic() -> PairCurve:
    """Return ``log(1 + exp(-z))``."""
    return PairCurve(PairwiseForm.LOGISTIC, 0.0, np.inf, 0.25, NO_CALL, NO_CALL)


def native(functions: PairwiseFunctions, curvature: float) -> PairCurve:
    """Return the loss of C functions whose second derivative is at most `curvature`."""
    check_not_negative(curvature=curvature)
    value, slope = functions.call("value"), functions.call("slope")
    return PairCurve(PairwiseForm.NATIVE, 0.0, np.inf, float(curvature), value, slope)


@dataclasses.dataclass(frozen=True)
class PairwiseListsKernel:
    """Pairwise losses over judged lists; see :mod:`ranking.kernels.contract.pairwise_lists`."""

    implementation: PairwiseListsFamily

    def slopes(
        self, lists: LayeredLists, margins: Floats, curve: PairCurve, threads: int = 1
    ) -> tuple[float, Floats]:
        """Return the loss, and its slope by each margin."""
        _check_lists(lists, margins)
        out = np.empty(margins.size)
        value = self.implementation.pairwise_slopes(
            lists.layout, margins, curve, out, validate_threads(threads)
        )
        return value, out

    def gram(
        self,
        features: Columns,
        lists: LayeredLists,
        margins: Floats,
        curve: PairCurve,
        columns: Ints,
        *,
        selected: Ints | None = None,
        threads: int = 1,
    ) -> Floats:
        """Return X'HX of some columns, summed over all lists or those that are selected."""
        _check_lists(lists, margins)
        by_column = _check_columns(features, lists.n_rows)
        _check_positions("columns", columns, features.shape[1])
        selection = np.arange(lists.n_lists) if selected is None else selected
        _check_positions("selected", selection, lists.n_lists)
        if np.any(np.diff(selection) <= 0) or np.unique(columns).size < columns.size:
            raise ValueError("columns must be different, and selected lists must rise.")
        out = np.empty((columns.size, columns.size))
        self.implementation.pairwise_gram(
            by_column,
            lists.layout,
            margins,
            curve,
            columns,
            selection,
            out,
            validate_threads(threads),
        )
        return out

    def products(
        self, features: Columns, columns: Ints, values: Floats, threads: int = 1
    ) -> Floats:
        """Return the product of each of these columns with values of the rows."""
        by_column = _check_columns(features, features.shape[0])
        _check_positions("columns", columns, features.shape[1])
        check_array("values", values, ("float64",), (features.shape[0],))
        out = np.empty(columns.size)
        self.implementation.column_products(
            by_column, columns, values, out, validate_threads(threads)
        )
        return out

    def combination(
        self, features: Columns, columns: Ints, weights: Floats, threads: int = 1
    ) -> Floats:
        """Return the sum of these columns times their weights."""
        by_column = _check_columns(features, features.shape[0])
        _check_positions("columns", columns, features.shape[1])
        check_array("weights", weights, ("float64",), (columns.size,))
        out = np.zeros(features.shape[0])
        self.implementation.column_combination(
            by_column, columns, weights, out, validate_threads(threads)
        )
        return out

    def descend(
        self,
        gram: Floats,
        gradient: Floats,
        weights: Floats,
        penalty: EntryPenalty,
        *,
        sweeps: int,
        tolerance: float,
    ) -> int:
        """Minimise a quadratic model plus penalty; weights and gradient change in place."""
        n = weights.size
        check_array("gram", gram, ("float64",), (n, n))
        check_array("gradient", gradient, ("float64",), (n,), writeable=True)
        check_array("weights", weights, ("float64",), (n,), writeable=True)
        check_no_overlap({"gradient": gradient, "weights": weights}, {"gram": gram})
        check_not_negative(l1=penalty.l1, l2=penalty.l2, tolerance=tolerance)
        entries = EntryPenalty(float(penalty.l1), float(penalty.l2))
        return self.implementation.quadratic_descent(
            gram, gradient, weights, entries, validate_count("sweeps", sweeps), float(tolerance)
        )


def _check_lists(lists: LayeredLists, margins: Floats) -> None:
    lists.check(pad=1)
    if np.any(np.diff(lists.layer_ptr) != lists.layer_size):
        raise ValueError("lists must not be padded; build them with pad=1.")
    check_array("margins", margins, ("float64",), (lists.n_rows,))
    check_finite(margins=margins)


def _check_columns(features: Columns, n_rows: int) -> ContractColumns:
    """Check features by column; return what a kernel takes."""
    if isinstance(features, np.ndarray):
        check_array("features", features, FLOATS, (n_rows, None), order="F")
        return features
    if features.shape[0] != n_rows:
        raise ValueError(f"features have {features.shape[0]} rows and the lists {n_rows}.")
    sparse = features if isinstance(features, SparseColumns) else SparseColumns.of(features)
    return sparse.arrays


def _check_positions(name: str, positions: Ints, end: int) -> None:
    check_array(name, positions, ("int64",), (None,))
    check_below(name, positions, end)
