"""A plugin's C functions as the reference calls them: one by one, through ctypes."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_double, c_int64, c_void_p

import numpy as np

from ranking.kernels._old_contract import Call, Features, Floats, Ints

PAIR = ctypes.CFUNCTYPE(c_double, c_double, c_void_p)
LIST_VALUE = ctypes.CFUNCTYPE(c_double, c_void_p, c_void_p, c_int64, c_void_p)
LIST_SLOPES = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
PENALTY = ctypes.CFUNCTYPE(c_double, c_void_p, c_int64, c_void_p)
PROX = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_double, c_void_p)
MAXIMIZE = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_void_p)


def native_pair(call: Call, margin: float) -> float:
    """Return what the function makes of one margin."""
    found: float = PAIR(call[0])(margin, call[1])
    return found


def native_pairs(call: Call, margins: Floats, out: Floats, threads: int) -> None:
    """Call the function for each margin."""
    out[:] = [native_pair(call, margin) for margin in margins.tolist()]


def native_list_values(
    call: Call, list_ptr: Ints, scores: Floats, grades: Floats, out: Floats, threads: int
) -> None:
    """Call the function for each list."""
    function = LIST_VALUE(call[0])
    for at, (start, stop) in enumerate(itertools.pairwise(list_ptr.tolist())):
        out[at] = function(*_at(start, scores, grades), stop - start, call[1])


def native_list_slopes(
    call: Call, list_ptr: Ints, scores: Floats, grades: Floats, out: Floats, threads: int
) -> None:
    """Call the function for each list."""
    function = LIST_SLOPES(call[0])
    for start, stop in itertools.pairwise(list_ptr.tolist()):
        given, filled = _at(start, scores, grades), _at(start, out)
        function(*given, stop - start, *filled, call[1])


def native_penalties(call: Call, matrix: Features, out: Floats, threads: int) -> None:
    """Call the function for each row, widened."""
    function = PENALTY(call[0])
    for at, row in enumerate(matrix):
        wide = row.astype(np.float64)
        out[at] = function(wide.ctypes.data, wide.size, call[1])


def native_prox(call: Call, matrix: Features, width: int, step: float, threads: int) -> None:
    """Call the function for each row, widened, and round what it leaves."""
    function = PROX(call[0])
    for row in matrix[:, :width]:
        wide = row.astype(np.float64)
        function(wide.ctypes.data, width, step, call[1])
        row[:] = wide


def native_maximize(call: Call, matrix: Features, width: int, threads: int) -> None:
    """Call the function for each row, widened, and round what it leaves."""
    function = MAXIMIZE(call[0])
    for row in matrix[:, :width]:
        wide = row.astype(np.float64)
        function(wide.ctypes.data, width, call[1])
        row[:] = wide


def _at(start: int, *arrays: Floats) -> list[int]:
    return [array.ctypes.data + array.itemsize * start for array in arrays]
