"""Shards of M: ranges of rows, and the functions that an engine runs on them.

Each side of M is split into ranges that depend on M alone. Sums over rows are computed by range and
then added in order, so they have the same bits for any number of workers.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.regularizer import RowMaximum
from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import Singles, SquaredRule
from ranking.kernels.kernel import Kernel
from ranking.models.sparse_factored import as_sparse
from ranking_plugins.regularizers.polar import Square, grams, one_blas_thread, times

Embeddings: TypeAlias = Any
"""One row per feature: a dense float32 array, padded, or a csr_array."""

RANGES = 16
"""Ranges of a side, and so the maximal number of useful workers."""


class Side(NamedTuple):
    """Rows of one side of M, their first position in it, and the boundaries of their ranges."""

    matched: AlternatingMatrix
    start: int
    cuts: tuple[int, ...]

    def of(self, whole: Singles | None) -> Singles | None:
        """Return the same rows of a matrix of the whole side, or None."""
        return None if whole is None else whole[self.start : self.start + self.cuts[-1]]


Shard: TypeAlias = tuple[Side, Side]
"""The data of a worker: rows of M, and rows of the transpose of M."""

Cache: TypeAlias = dict[str, Any]


class Computing(NamedTuple):
    """The kernel and its threads."""

    kernel: Kernel
    threads: int


class Quadratic(NamedTuple):
    """The parts of the quadratic of a side that all its rows share, and its parameters.

    Attributes
    ----------
    square : float32 array
        The Gram matrix of the other side.
    rule : SquaredRule
    ridges, parameters : float32 arrays
        One per row of the side.
    """

    square: Singles
    rule: SquaredRule
    ridges: Singles
    parameters: Singles


def split(sides: Sequence[Any], n_parts: int) -> list[Shard]:
    """Split M, as matrices by rows and by columns, into shards of whole ranges."""
    first, second = (_split(matrix, min(n_parts, RANGES)) for matrix in sides)
    return list(zip(first, second, strict=True))


def _split(matrix: Any, n_parts: int) -> list[Side]:
    """Split between rows, so that ranges have about equally many rows and entries."""
    work = matrix.indptr + np.arange(matrix.shape[0] + 1, dtype=np.int64)
    cuts = np.searchsorted(work, np.linspace(0, work[-1], RANGES + 1))
    ends = [RANGES * part // n_parts for part in range(n_parts + 1)]
    sides = []
    for begin, end in itertools.pairwise(ends):
        own = cuts[begin : end + 1]
        rows = slice(int(own[0]), int(own[-1]))
        matched = AlternatingMatrix(_rows(matrix, rows))
        sides.append(Side(matched, rows.start, tuple((own - own[0]).tolist())))
    return sides


def _rows(matrix: Any, rows: slice) -> Any:
    """Return some rows without copying their entries."""
    pointers = matrix.indptr[rows.start : rows.stop + 1]
    entries = slice(int(pointers[0]), int(pointers[-1]))
    arrays = (matrix.data[entries], matrix.indices[entries], pointers - pointers[0])
    return sparse.csr_array(arrays, (rows.stop - rows.start, matrix.shape[1]))


def best_rows(
    shard: Shard,
    cache: Cache,
    side: int,
    others: Embeddings,
    by: Computing,
    best: RowMaximum,
    buffer: Singles | None,
) -> tuple[Embeddings, NDArray[np.float64]]:
    """Return the optimal embeddings and the gain of each row."""
    own = shard[side]
    return by.kernel.alternating.half_step(
        own.matched,
        others,
        threshold=best.threshold,
        limit=best.limit,
        threads=by.threads,
        out=own.of(buffer),
    )


def least_squares(
    shard: Shard,
    cache: Cache,
    side: int,
    others: Singles,
    by: Computing,
    quadratic: Quadratic,
    in_place: bool,
) -> tuple[Singles, NDArray[np.float64]]:
    """Take the steps of iALS on each row; return the embeddings and the gain of each.

    Parameters
    ----------
    in_place : bool
        Whether the parameters are those of this process, to be changed.
    """
    own = shard[side]
    parameters, ridges = own.of(quadratic.parameters), own.of(quadratic.ridges)
    assert parameters is not None
    assert ridges is not None
    if not in_place:
        parameters = parameters.copy()
    gains = by.kernel.alternating.squared_half_step(
        own.matched, others, quadratic.square, quadratic.rule, ridges, parameters, by.threads
    )
    return parameters, gains


def products(
    shard: Shard, cache: Cache, side: int, others: Singles, by: Computing, buffer: Singles | None
) -> Embeddings:
    """Return M times the embeddings of the other side."""
    own = shard[side]
    return by.kernel.alternating.half_step(
        own.matched, others, threads=by.threads, out=own.of(buffer)
    )[0]


def product_grams(
    shard: Shard,
    cache: Cache,
    side: int,
    others: Singles,
    by: Computing,
    buffer: Singles | None,
    subtrahend: Singles | None,
    width: int,
) -> list[Square]:
    """Cache M times the embeddings of the other side; return the Gram matrices by range.

    `subtrahend` is subtracted from the product first, if there is one.
    """
    own = shard[side]
    whole = products(shard, cache, side, others, by, buffer)
    if subtrahend is not None:
        whole -= own.of(subtrahend)
    cache.update(whole=whole, width=width, cuts=own.cuts, threads=by.threads)
    with one_blas_thread():
        return grams(whole[:, :width], own.cuts, by.threads)


def rotated(shard: Shard, cache: Cache, square: Square | None) -> Embeddings:
    """Return the cached product, times a small matrix if there is one."""
    whole = cache["whole"]
    if square is not None:
        tall = whole[:, : cache["width"]]
        with one_blas_thread():
            times(tall, square, cache["threads"], out=tall, cuts=cache["cuts"])
    return whole


def add_all(total: Square, parts: list[Square]) -> Square:
    """Add parts to a total, in order."""
    for part in parts:
        total += part
    return total


def concatenated(parts: Sequence[Embeddings], buffer: Singles | None) -> Embeddings:
    """Return the rows of all parts, or `buffer` if they were written there."""
    if buffer is not None:
        return buffer
    if sparse.issparse(parts[0]):
        return parts[0] if len(parts) == 1 else as_sparse(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)
