"""Loops over a plugin's functions: every kernel against the reference, for every shape."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import POINTER, c_double, c_int64, c_void_p
from typing import Any

import numpy as np
import pytest

from ranking.kernels.kernel import Kernel
from ranking.kernels.native import (
    list_values,
    listwise_slopes,
    maximize_rows,
    pair_slopes,
    pair_values,
    prox_rows,
    row_penalties,
)
from ranking.native import ListwiseFunctions, PairwiseFunctions, RowFunctions

DOUBLES = POINTER(c_double)
THREADS = (1, 2, 5)

# Callbacks of ctypes take the GIL, so they may be called from any thread, as C functions are.


@ctypes.CFUNCTYPE(c_double, c_double, c_void_p)
def square(z: float, context: int | None) -> float:
    return z * z + (context or 0)


@ctypes.CFUNCTYPE(c_double, DOUBLES, DOUBLES, c_int64, c_void_p)
def weighted_sum(scores: Any, grades: Any, n: int, context: int) -> float:
    return context + sum((scores[i] * grades[i] for i in range(n)), 0.25)


@ctypes.CFUNCTYPE(None, DOUBLES, DOUBLES, c_int64, DOUBLES, c_void_p)
def differences(scores: Any, grades: Any, n: int, out: Any, context: int) -> None:
    for i in range(n):
        out[i] = scores[i] - grades[n - 1 - i] + context


@ctypes.CFUNCTYPE(c_double, DOUBLES, c_int64, c_void_p)
def penalty(row: Any, n: int, context: int) -> float:
    return context + sum((abs(row[i]) / 3.0 for i in range(n)), 0.0)


@ctypes.CFUNCTYPE(None, DOUBLES, c_int64, c_double, c_void_p)
def turn(row: Any, n: int, step: float, context: int) -> None:
    values = [row[i] for i in range(n)]
    for i in range(n):
        row[i] = values[n - 1 - i] / 3.0 + step * context


@ctypes.CFUNCTYPE(None, DOUBLES, c_int64, c_void_p)
def shift(row: Any, n: int, context: int) -> None:
    for i in range(n):
        row[i] = row[i] / 7.0 + context


def at(function: Any) -> int:
    address = ctypes.cast(function, c_void_p).value
    assert address is not None
    return address


CONTEXT = 5  # a number is handed back as it is; nothing says that it must be an address
PAIR = PairwiseFunctions.from_addresses(value=at(square), slope=at(square), context=CONTEXT)
LIST = ListwiseFunctions.from_addresses(
    value=at(weighted_sum), slopes=at(differences), context=CONTEXT
)
ROW = RowFunctions.from_addresses(
    penalty=at(penalty), prox=at(turn), maximize=at(shift), context=CONTEXT
)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 500])
def test_pairs(kernel: Kernel, reference: Kernel, size: int, threads: int) -> None:
    margins = np.random.default_rng(size).normal(size=size)
    margins.flags.writeable = False
    expected = margins * margins + 5.0
    for taken in (kernel, reference):
        np.testing.assert_array_equal(pair_values(taken, PAIR, margins, threads), expected)
        np.testing.assert_array_equal(pair_slopes(taken, PAIR, margins, threads), expected)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [1], [3, 0, 2], [2] * 150])
def test_lists(kernel: Kernel, reference: Kernel, sizes: list[int], threads: int) -> None:
    list_ptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    scores, grades = np.random.default_rng(1).normal(size=(2, list_ptr[-1]))
    for loop in (list_values, listwise_slopes):
        found = loop(kernel, LIST, list_ptr, scores, grades, threads)
        expected = loop(reference, LIST, list_ptr, scores, grades)
        assert found.shape == expected.shape
        assert found.tobytes() == expected.tobytes()
    values = list_values(kernel, LIST, list_ptr, scores, grades, threads)
    parts = [slice(a, b) for a, b in itertools.pairwise(list_ptr)]
    np.testing.assert_allclose(values, [5.25 + scores[p] @ grades[p] for p in parts], rtol=1e-12)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "width"), [((0, 8), 3), ((1, 8), 8), ((3, 1), 0), ((150, 8), 5)])
def test_rows(
    kernel: Kernel,
    reference: Kernel,
    shape: tuple[int, int],
    width: int,
    dtype: str,
    threads: int,
) -> None:
    matrix = np.random.default_rng(2).normal(size=shape).astype(dtype)
    wide = matrix[:, :width].astype(np.float64)
    turned, shifted = matrix.copy(), matrix.copy()
    turned[:, :width], shifted[:, :width] = wide[:, ::-1] / 3.0 + 0.5 * 5.0, wide / 7.0 + 5.0
    for taken in (kernel, reference):
        near, best = matrix.copy(), matrix.copy()
        prox_rows(taken, ROW, near, 0.5, width, threads)
        np.testing.assert_array_equal(near, turned)
        maximize_rows(taken, ROW, best, width, threads)
        np.testing.assert_array_equal(best, shifted)
    found = kernel.native.row_penalties(ROW, matrix, threads)
    assert found.tobytes() == row_penalties(reference, ROW, matrix).tobytes()


@pytest.mark.parametrize("width", [-1, 9])
def test_a_width_that_does_not_fit_is_refused(kernel: Kernel, width: int) -> None:
    with pytest.raises(ValueError, match=f"width is {width}; rows have 8 numbers"):
        kernel.native.prox_rows(ROW, np.zeros((2, 8)), 0.5, width)


def test_lists_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="list_ptr must rise from 0 to 3"):
        list_values(kernel, LIST, np.array([0, 2]), np.zeros(3), np.zeros(3))
