"""Reference of the native family: a plugin's C functions, called one by one through ctypes."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import c_double, c_int64, c_void_p

import numpy as np

from ranking.kernels.contract import Features, Floats, GradedScores, NativeCall
from ranking.kernels.reference.pairwise import call_native

LIST_VALUE = ctypes.CFUNCTYPE(c_double, c_void_p, c_void_p, c_int64, c_void_p)
LIST_SLOPES = ctypes.CFUNCTYPE(None, c_void_p, c_void_p, c_int64, c_void_p, c_void_p)
PENALTY = ctypes.CFUNCTYPE(c_double, c_void_p, c_int64, c_void_p)
PROX = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_double, c_void_p)
MAXIMIZE = ctypes.CFUNCTYPE(None, c_void_p, c_int64, c_void_p)


def native_pairwise(call: NativeCall, margins: Floats, out: Floats, threads: int) -> None:
    """Call the function for each margin."""
    out[:] = [call_native(call, margin) for margin in margins.tolist()]


def native_listwise_values(
    call: NativeCall, lists: GradedScores, out: Floats, threads: int
) -> None:
    """Call the function for each list."""
    function = LIST_VALUE(call.function)
    for at, (start, stop) in enumerate(itertools.pairwise(lists.group_ptr.tolist())):
        inputs = _addresses(start, lists.scores, lists.grades)
        out[at] = function(*inputs, stop - start, call.context)


def native_listwise_slopes(
    call: NativeCall, lists: GradedScores, out: Floats, threads: int
) -> None:
    """Call the function for each list."""
    function = LIST_SLOPES(call.function)
    for start, stop in itertools.pairwise(lists.group_ptr.tolist()):
        inputs = _addresses(start, lists.scores, lists.grades)
        function(*inputs, stop - start, *_addresses(start, out), call.context)


def native_penalties(call: NativeCall, matrix: Features, out: Floats, threads: int) -> None:
    """Call the function for each row, widened."""
    function = PENALTY(call.function)
    for at, row in enumerate(matrix):
        wide = row.astype(np.float64)
        out[at] = function(wide.ctypes.data, wide.size, call.context)


def native_prox(call: NativeCall, matrix: Features, width: int, step: float, threads: int) -> None:
    """Call the function for each row, widened, and round the result."""
    function = PROX(call.function)
    for row in matrix[:, :width]:
        wide = row.astype(np.float64)
        function(wide.ctypes.data, width, step, call.context)
        row[:] = wide


def native_maximize(call: NativeCall, matrix: Features, width: int, threads: int) -> None:
    """Call the function for each row, widened, and round the result."""
    function = MAXIMIZE(call.function)
    for row in matrix[:, :width]:
        wide = row.astype(np.float64)
        function(wide.ctypes.data, width, call.context)
        row[:] = wide


def _addresses(start: int, *arrays: Floats) -> list[int]:
    return [array.ctypes.data + array.itemsize * start for array in arrays]
