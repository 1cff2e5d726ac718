"""M in shards: ranges of rows, the functions that an engine runs on them, and what they share.

Each side of M is cut into ranges that depend on M alone. What is summed over rows is summed by
range, and then range after range, so it has the same bits however many workers share the ranges.
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
from ranking.kernels.contract import Singles
from ranking.kernels.kernel import Kernel
from ranking.models.sparse_factored import as_sparse
from ranking_plugins.regularizers.polar import Square, grams, one_blas_thread, times

Vectors: TypeAlias = Any
"""A row a feature: a dense float32 array, padded, or a csr_array."""

RANGES = 16
"""Ranges of a side, so also the most workers that have something to do."""


class Side(NamedTuple):
    """Rows of one side of M, where they begin in it, and where their ranges begin and end."""

    matched: AlternatingMatrix
    start: int
    cuts: tuple[int, ...]

    def of(self, whole: Singles | None) -> Singles | None:
        """Return the same rows of a matrix of the whole side, if there is one."""
        return None if whole is None else whole[self.start : self.start + self.cuts[-1]]


Shard: TypeAlias = tuple[Side, Side]
"""What a worker holds: rows of M, and rows of M transposed."""

Kept: TypeAlias = dict[str, Any]


class Computing(NamedTuple):
    """Who computes."""

    kernel: Kernel
    threads: int


def cut(sides: Sequence[Any], n_parts: int) -> list[Shard]:
    """Return M, given by rows and by columns, in parts of whole ranges."""
    first, second = (_cut(matrix, min(n_parts, RANGES)) for matrix in sides)
    return list(zip(first, second, strict=True))


def _cut(matrix: Any, n_parts: int) -> list[Side]:
    """Cut such that ranges have about equally many rows and entries, and never within a row."""
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
    """Return some rows, whose entries are not copied."""
    pointers = matrix.indptr[rows.start : rows.stop + 1]
    entries = slice(int(pointers[0]), int(pointers[-1]))
    arrays = (matrix.data[entries], matrix.indices[entries], pointers - pointers[0])
    return sparse.csr_array(arrays, (rows.stop - rows.start, matrix.shape[1]))


def best_rows(
    shard: Shard,
    kept: Kept,
    side: int,
    others: Vectors,
    by: Computing,
    best: RowMaximum,
    room: Singles | None,
) -> tuple[Vectors, NDArray[np.float64]]:
    """Return the best vectors and the gain of each row."""
    own = shard[side]
    return by.kernel.alternating.half_step(
        own.matched,
        others,
        threshold=best.threshold,
        limit=best.limit,
        threads=by.threads,
        out=own.of(room),
    )


def pulled(
    shard: Shard, kept: Kept, side: int, others: Singles, by: Computing, room: Singles | None
) -> Vectors:
    """Return M times the vectors of the other side."""
    own = shard[side]
    return by.kernel.alternating.half_step(
        own.matched, others, threads=by.threads, out=own.of(room)
    )[0]


def pulled_grams(
    shard: Shard,
    kept: Kept,
    side: int,
    others: Singles,
    by: Computing,
    room: Singles | None,
    less: Singles | None,
    width: int,
) -> list[Square]:
    """Keep M times the vectors of the other side, less something; return Gram matrices by range."""
    own = shard[side]
    whole = pulled(shard, kept, side, others, by, room)
    if less is not None:
        whole -= own.of(less)
    kept.update(whole=whole, width=width, cuts=own.cuts, threads=by.threads)
    with one_blas_thread():
        return grams(whole[:, :width], own.cuts, by.threads)


def turned(shard: Shard, kept: Kept, square: Square | None) -> Vectors:
    """Return what is kept, times a small matrix if there is one."""
    whole = kept["whole"]
    if square is not None:
        tall = whole[:, : kept["width"]]
        with one_blas_thread():
            times(tall, square, kept["threads"], out=tall, cuts=kept["cuts"])
    return whole


def add_all(total: Square, parts: list[Square]) -> Square:
    """Return the sum of a total and some parts, added in order."""
    for part in parts:
        total += part
    return total


def joined(parts: Sequence[Vectors], room: Singles | None) -> Vectors:
    """Return the rows of all parts: `room`, if they were written there."""
    if room is not None:
        return room
    if sparse.issparse(parts[0]):
        return parts[0] if len(parts) == 1 else as_sparse(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)
