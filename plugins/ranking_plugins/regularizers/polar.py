"""The polar factor of a tall matrix: the orthonormal columns that are nearest to it.

Gram matrices are sums over fixed blocks of rows in float64, added in order, and each product is
computed by one thread of BLAS: the bits do not depend on the number of threads.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from ranking.contracts.regularizer import Square, Tall
from ranking.parallel import in_order

Matrix = TypeVar("Matrix", NDArray[np.float32], NDArray[np.float64])

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

    A matrix whose columns are linearly dependent, or nearly, is left to a QR factorization, which
    is slower.
    """
    rows = _Rows(matrix, threads)
    with one_blas_thread():
        try:
            rows.times(polar_turn(rows))
        except np.linalg.LinAlgError:
            basis, triangle = np.linalg.qr(matrix.astype(np.float64))
            factor: Matrix = (basis @ _polar_of_square(triangle)).astype(matrix.dtype)
            return factor
    found: Matrix = rows.matrix
    return found


def polar_turn(tall: Tall) -> Square:
    """Multiply a matrix such that its columns are nearly orthonormal, and return what is missing.

    Twice Gram and Cholesky: ``matrix = Q R``, the second time to repair what rounding did to the
    first. The polar factor is Q times the polar factor of R, which is small. Linearly dependent
    columns raise `LinAlgError`.
    """
    first = _upper(tall.gram())
    tall.times(_inverse(first))
    gram = tall.gram()
    if not np.abs(gram - np.eye(gram.shape[0])).max() <= FAR:  # also what is not a number
        raise np.linalg.LinAlgError
    second = _upper(gram)
    return _inverse(second) @ _polar_of_square(second @ first)


class _Rows:
    """A tall matrix in memory."""

    def __init__(self, matrix: Any, threads: int) -> None:
        self.matrix, self.threads = matrix, threads
        self.shape: tuple[int, int] = matrix.shape

    def gram(self) -> Square:
        return grams(self.matrix, (0, self.shape[0]), self.threads)[0]

    def times(self, square: Square) -> None:
        self.matrix = product(self.matrix, square, (0, self.shape[0]), self.threads)


def blocks(cuts: Sequence[int]) -> list[slice]:
    """Return the blocks of the rows between each cut and the next."""
    return [
        slice(at, min(at + BLOCK, stop))
        for start, stop in itertools.pairwise(cuts)
        for at in range(start, stop, BLOCK)
    ]


def grams(matrix: NDArray[Any], cuts: Sequence[int], threads: int) -> list[Square]:
    """Return the Gram matrix of the rows between each cut and the next."""
    totals = [np.zeros((matrix.shape[1],) * 2) for _ in cuts[1:]]

    def part(rows: slice) -> Square:
        block = matrix[rows].astype(np.float64)
        return block.T @ block

    whole = blocks(cuts)
    for rows, gram in zip(whole, in_order(part, whole, threads), strict=True):
        totals[bisect.bisect_right(cuts, rows.start) - 1] += gram
    return totals


def product(matrix: Matrix, square: Square, cuts: Sequence[int], threads: int) -> Matrix:
    """Return a product with a small matrix, in the precision of the tall one."""
    right = square.astype(matrix.dtype)
    out = np.empty(matrix.shape, matrix.dtype)

    def part(rows: slice) -> None:
        np.matmul(matrix[rows], right, out=out[rows])

    for _ in in_order(part, blocks(cuts), threads):
        pass
    return out


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
