"""Calls of a plugin's C functions over arrays."""

from __future__ import annotations

import ctypes
import itertools
from ctypes import POINTER, c_double, c_int64, c_void_p
from typing import Any

import numpy as np
import pytest
from parity_helpers import Same, bits

from ranking.kernels.contract import GradedScores
from ranking.kernels.kernel import Kernel
from ranking.native import ListwiseFunctions, PairwiseFunctions, RowFunctions

DOUBLES = POINTER(c_double)

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
def reverse(row: Any, n: int, step: float, context: int) -> None:
    values = [row[i] for i in range(n)]
    for i in range(n):
        row[i] = values[n - 1 - i] / 3.0 + step * context


@ctypes.CFUNCTYPE(None, DOUBLES, c_int64, c_void_p)
def shift(row: Any, n: int, context: int) -> None:
    for i in range(n):
        row[i] = row[i] / 7.0 + context


def address_of(function: Any) -> int:
    address = ctypes.cast(function, c_void_p).value
    assert address is not None
    return address


CONTEXT = 5  # a number is passed back unchanged; it need not be an address
PAIRWISE = PairwiseFunctions.from_addresses(
    value=address_of(square), slope=address_of(square), context=CONTEXT
)
LISTWISE = ListwiseFunctions.from_addresses(
    value=address_of(weighted_sum), slopes=address_of(differences), context=CONTEXT
)
ROW = RowFunctions.from_addresses(
    penalty=address_of(penalty),
    prox=address_of(reverse),
    maximize=address_of(shift),
    context=CONTEXT,
)


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 500])
def test_pairwise(same: Same, size: int) -> None:
    margins = np.random.default_rng(size).normal(size=size)
    margins.flags.writeable = False
    for name in ("pairwise_values", "pairwise_slopes"):
        values = same(lambda k, threads, f=name: [getattr(k.native, f)(PAIRWISE, margins, threads)])
        np.testing.assert_array_equal(values[0], margins * margins + 5.0)


@pytest.mark.parametrize("sizes", [[], [0], [0, 0], [1], [3, 0, 2], [2] * 150])
def test_listwise(same: Same, sizes: list[int]) -> None:
    group_ptr = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    scores, grades = np.random.default_rng(1).normal(size=(2, group_ptr[-1]))
    lists = GradedScores(group_ptr, scores, grades)
    values, _ = same(
        lambda k, threads: [
            k.native.listwise_values(LISTWISE, lists, threads),
            k.native.listwise_slopes(LISTWISE, lists, threads),
        ]
    )
    parts = [slice(a, b) for a, b in itertools.pairwise(group_ptr)]
    np.testing.assert_allclose(values, [5.25 + scores[p] @ grades[p] for p in parts], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "width"), [((0, 8), 3), ((1, 8), 8), ((3, 1), 0), ((150, 8), 5)])
def test_rows(same: Same, shape: tuple[int, int], width: int, dtype: str) -> None:
    matrix = np.random.default_rng(2).normal(size=shape).astype(dtype)
    wide = matrix[:, :width].astype(np.float64)
    reversed_rows, shifted = matrix.copy(), matrix.copy()
    reversed_rows[:, :width] = wide[:, ::-1] / 3.0 + 0.5 * 5.0
    shifted[:, :width] = wide / 7.0 + 5.0

    def call(k: Kernel, threads: int) -> list[np.ndarray]:
        near, best = matrix.copy(), matrix.copy()
        k.native.prox_rows(ROW, near, 0.5, width, threads)
        k.native.maximize_rows(ROW, best, width, threads)
        return [near, best, k.native.row_penalties(ROW, matrix, threads)]

    near, best, _ = same(call)
    assert bits(near) == bits(reversed_rows)
    assert bits(best) == bits(shifted)


@pytest.mark.parametrize("width", [-1, 9])
def test_a_width_that_does_not_fit_is_refused(kernel: Kernel, width: int) -> None:
    with pytest.raises(ValueError, match=rf"width is {width}; it must lie in 0\.\.8"):
        kernel.native.prox_rows(ROW, np.zeros((2, 8)), 0.5, width)


def test_lists_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="group_ptr must rise from 0 to 3"):
        kernel.native.listwise_values(
            LISTWISE, GradedScores(np.array([0, 2]), np.zeros(3), np.zeros(3))
        )
