"""Calls of a plugin's C functions over arrays, with checked arguments."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import Features, Floats, GradedScores, NativeCall, NativeFamily
from ranking.kernels.native.functions import ListwiseFunctions, PairwiseFunctions, RowFunctions
from ranking.kernels.validation import (
    FLOATS,
    check_array,
    check_pointer,
    validate_integer,
    validate_threads,
)


class NativeKernel:
    """Calls of a plugin's C functions; see :mod:`ranking.kernels.contract.native`."""

    def __init__(self, implementation: NativeFamily) -> None:
        self.implementation = implementation

    def pairwise_values(
        self, functions: PairwiseFunctions, margins: Floats, threads: int = 1
    ) -> Floats:
        """Return the loss of each margin."""
        return self._pairwise(functions.call("value"), margins, threads)

    def pairwise_slopes(
        self, functions: PairwiseFunctions, margins: Floats, threads: int = 1
    ) -> Floats:
        """Return its derivative."""
        return self._pairwise(functions.call("slope"), margins, threads)

    def _pairwise(self, call: NativeCall, margins: Floats, threads: int) -> Floats:
        check_array("margins", margins, ("float64",), (None,))
        out = np.empty(margins.size)
        self.implementation.native_pairwise(call, margins, out, validate_threads(threads))
        return out

    def listwise_values(
        self, functions: ListwiseFunctions, lists: GradedScores, threads: int = 1
    ) -> Floats:
        """Return the loss of each list."""
        _check_lists(lists)
        out = np.empty(lists.group_ptr.size - 1)
        self.implementation.native_listwise_values(
            functions.call("value"), lists, out, validate_threads(threads)
        )
        return out

    def listwise_slopes(
        self, functions: ListwiseFunctions, lists: GradedScores, threads: int = 1
    ) -> Floats:
        """Return the derivative of its list's loss with respect to each score."""
        _check_lists(lists)
        out = np.zeros(lists.scores.size)
        self.implementation.native_listwise_slopes(
            functions.call("slopes"), lists, out, validate_threads(threads)
        )
        return out

    def row_penalties(self, functions: RowFunctions, matrix: Features, threads: int = 1) -> Floats:
        """Return the penalty of each row."""
        check_array("matrix", matrix, FLOATS, (None, None))
        out = np.empty(matrix.shape[0])
        self.implementation.native_penalties(
            functions.call("penalty"), matrix, out, validate_threads(threads)
        )
        return out

    def prox_rows(
        self,
        functions: RowFunctions,
        matrix: Features,
        step: float,
        width: int | None = None,
        threads: int = 1,
    ) -> None:
        """Take the prox of the first `width` numbers of each row (default: all), in place."""
        width = _validate_width(matrix, width)
        self.implementation.native_prox(
            functions.call("prox"), matrix, width, float(step), validate_threads(threads)
        )

    def maximize_rows(
        self,
        functions: RowFunctions,
        matrix: Features,
        width: int | None = None,
        threads: int = 1,
    ) -> None:
        """Take the maximiser for the first `width` numbers of each row (default: all), in place."""
        if not functions.maximize:
            raise TypeError(f"{functions.plugin} has no function maximize.")
        width = _validate_width(matrix, width)
        self.implementation.native_maximize(
            functions.call("maximize"), matrix, width, validate_threads(threads)
        )


def _check_lists(lists: GradedScores) -> None:
    check_array("scores", lists.scores, ("float64",), (None,))
    check_array("grades", lists.grades, ("float64",), (lists.scores.size,))
    check_array("group_ptr", lists.group_ptr, ("int64",), (None,))
    n_lists = lists.group_ptr.size - 1
    check_pointer("group_ptr", lists.group_ptr, ("int64",), n_lists, lists.scores.size)


def _validate_width(matrix: Features, width: int | None) -> int:
    check_array("matrix", matrix, FLOATS, (None, None), writeable=True)
    columns = matrix.shape[1]
    return columns if width is None else validate_integer("width", width, 0, columns)
