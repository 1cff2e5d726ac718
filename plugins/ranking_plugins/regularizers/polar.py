"""The polar factor of a tall matrix: the orthonormal columns that are nearest to it.

Gram matrices are sums over fixed blocks of rows in float64, added in order, and each product is
computed by one thread of BLAS: the bits do not depend on the number of threads.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import ThreadpoolController

from ranking.parallel import in_order

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
            first = _upper(_gram(matrix, threads))
            once = _times(matrix, _inverse(first), threads)
            gram = _gram(once, threads)
            if not np.abs(gram - np.eye(gram.shape[0])).max() <= FAR:  # also what is not a number
                raise np.linalg.LinAlgError
            second = _upper(gram)
        except np.linalg.LinAlgError:
            basis, triangle = np.linalg.qr(matrix.astype(np.float64))
            factor: Matrix = (basis @ _polar_of_square(triangle)).astype(matrix.dtype)
            return factor
        turned = _inverse(second) @ _polar_of_square(second @ first)
        return _times(once, turned, threads)


def _gram(matrix: Matrix, threads: int) -> Square:
    total = np.zeros((matrix.shape[1],) * 2)

    def part(start: int) -> Square:
        block = matrix[start : start + BLOCK].astype(np.float64)
        return block.T @ block

    for gram in in_order(part, range(0, matrix.shape[0], BLOCK), threads):
        total += gram
    return total


def _times(matrix: Matrix, square: Square, threads: int) -> Matrix:
    """Return a product with a small matrix, in the precision of the tall one."""
    right = square.astype(matrix.dtype)
    out = np.empty(matrix.shape, matrix.dtype)

    def part(start: int) -> None:
        np.matmul(matrix[start : start + BLOCK], right, out=out[start : start + BLOCK])

    for _ in in_order(part, range(0, matrix.shape[0], BLOCK), threads):
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
