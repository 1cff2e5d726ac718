"""The polar factor of a tall matrix: the orthonormal columns that are nearest to it.

Gram matrices are sums over fixed blocks of rows in float64, added in order, and each product is
computed by one thread of BLAS: the bits do not depend on the number of threads.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from ranking._utils.parallel import in_order

Matrix = TypeVar("Matrix", NDArray[np.float32], NDArray[np.float64])
Square = NDArray[np.float64]

BLOCK = 4096
"""Rows of a block."""

FAR = 0.1
"""The largest deviation from orthonormal columns that the second of two passes can repair."""


@functools.cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread for a while; threads of ours share the work."""
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited


def polar_factor(matrix: Matrix, threads: int = 1) -> Matrix:
    """Return P with ``P'P = I`` for which ``<matrix, P>`` is largest.

    Twice Gram and Cholesky: ``matrix = Q R``, the second time to repair what rounding did to the
    first. Then P = Q times the polar factor of R, which is small. A matrix whose columns are
    linearly dependent, or nearly, is left to a QR factorization, which is slower.
    """
    with one_blas_thread():
        try:
            first = _upper(gram(matrix, threads))
            once = times(matrix, _inverse(first), threads)
            squares = gram(once, threads)
            off = np.abs(squares - np.eye(squares.shape[0])).max()
            if not off <= FAR:  # also what is not a number
                raise np.linalg.LinAlgError
            second = _upper(squares)
        except np.linalg.LinAlgError:
            basis, triangle = np.linalg.qr(matrix.astype(np.float64))
            factor: Matrix = (basis @ _polar_of_square(triangle)).astype(matrix.dtype)
            return factor
        turned = _inverse(second) @ _polar_of_square(second @ first)
        return times(once, turned, threads, out=once)


def gram(matrix: Matrix, threads: int = 1) -> Square:
    """Return ``matrix' matrix`` in float64."""
    return grams(matrix, (0, matrix.shape[0]), threads)[0]


def grams(matrix: Matrix, cuts: Sequence[int], threads: int = 1) -> list[Square]:
    """Return the same for the rows between each cut and the next."""
    totals = [np.zeros((matrix.shape[1],) * 2) for _ in cuts[1:]]

    def part(rows: slice) -> Square:
        block = matrix[rows].astype(np.float64)
        return block.T @ block

    whole = blocks(cuts)
    for rows, square in zip(whole, in_order(part, whole, threads), strict=True):
        totals[bisect.bisect_right(cuts, rows.start) - 1] += square
    return totals


def times(
    matrix: Matrix,
    square: Square,
    threads: int = 1,
    out: Matrix | None = None,
    cuts: Sequence[int] | None = None,
) -> Matrix:
    """Return a product with a small matrix, in the precision of the tall one; that may be `out`."""
    right = square.astype(matrix.dtype)
    result: Matrix = np.empty(matrix.shape, matrix.dtype) if out is None else out

    def part(rows: slice) -> None:
        result[rows] = matrix[rows] @ right

    in_blocks(part, cuts or (0, matrix.shape[0]), threads)
    return result


def in_blocks(part: Callable[[slice], None], cuts: Sequence[int], threads: int = 1) -> None:
    """Call a function with each block of the rows between each cut and the next."""
    for _ in in_order(part, blocks(cuts), threads):
        pass


def blocks(cuts: Sequence[int]) -> list[slice]:
    """Return the blocks of the rows between each cut and the next."""
    return [
        slice(at, min(at + BLOCK, stop))
        for start, stop in itertools.pairwise(cuts)
        for at in range(start, stop, BLOCK)
    ]


def _upper(gram: Square) -> Square:
    upper: Square = np.linalg.cholesky(gram).T.astype(np.float64, copy=False)
    return upper


def _inverse(upper: Square) -> Square:
    inverse: Square = solve_triangular(upper, np.eye(upper.shape[0]))
    return inverse


def _polar_of_square(square: Square) -> Square:
    left, _, right = np.linalg.svd(square)
    polar: Square = left @ right
    return polar
