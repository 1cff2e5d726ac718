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

from ranking.contracts.engine import Shards
from ranking.contracts.regularizer import Regularizer, RowMaximum, Square
from ranking.kernels.alternating import Matched, half_step
from ranking.kernels.contract import Singles
from ranking.kernels.kernel import Kernel
from ranking.models.sparse_factored import as_sparse
from ranking.parallel import in_order
from ranking_plugins.regularizers.polar import blocks, grams, one_blas_thread, product

Vectors: TypeAlias = Any
"""A row a feature: a dense float32 array, padded, or a csr_array."""

RANGES = 16
"""Ranges of a side, so also the most workers that have something to do."""


class Side(NamedTuple):
    """Rows of one side of M, and where their ranges begin and end."""

    matched: Matched
    cuts: tuple[int, ...]


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
        sides.append(Side(Matched(_rows(matrix, rows)), tuple((own - own[0]).tolist())))
    return sides


def _rows(matrix: Any, rows: slice) -> Any:
    """Return some rows, whose entries are not copied."""
    pointers = matrix.indptr[rows.start : rows.stop + 1]
    entries = slice(int(pointers[0]), int(pointers[-1]))
    arrays = (matrix.data[entries], matrix.indices[entries], pointers - pointers[0])
    return sparse.csr_array(arrays, (rows.stop - rows.start, matrix.shape[1]))


def by_kernel(
    shard: Shard, kept: Kept, side: int, others: Vectors, by: Computing, best: RowMaximum
) -> tuple[Vectors, NDArray[np.float64]]:
    """Return the best vectors and the gain of each row, all by the kernel."""
    return half_step(
        by.kernel,
        shard[side].matched,
        others,
        threshold=best.threshold,
        limit=best.limit,
        threads=by.threads,
    )


def by_range(
    shard: Shard,
    kept: Kept,
    side: int,
    others: Singles,
    by: Computing,
    part: Regularizer,
    width: int,
) -> tuple[Vectors, list[float]]:
    """Return the best vectors, and the gain of each range, for a maximum that Python computes."""
    pull, _ = half_step(by.kernel, shard[side].matched, others, threads=by.threads)
    gains = []
    for start, stop in itertools.pairwise(shard[side].cuts):
        rows = pull[start:stop, :width]
        best = part.maximize_vectors(rows, by.threads)
        gains.append(float((rows * best).sum(dtype=np.float64)))
        rows[...] = best
    return pull, gains


def pull(shard: Shard, kept: Kept, side: int, others: Singles, by: Computing, width: int) -> None:
    """Keep M times the vectors of the other side, for what follows."""
    whole, _ = half_step(by.kernel, shard[side].matched, others, threads=by.threads)
    kept.update(whole=whole, turned=whole[:, :width], cuts=shard[side].cuts, threads=by.threads)


def pulled(shard: Shard, kept: Kept) -> Vectors:
    """Return what `pull` kept."""
    return kept["whole"]


def gram(shard: Shard, kept: Kept) -> list[Square]:
    """Return the Gram matrix of each range of what is kept."""
    with one_blas_thread():
        return grams(kept["turned"], kept["cuts"], kept["threads"])


def times(shard: Shard, kept: Kept, square: Square) -> None:
    """Multiply what is kept."""
    with one_blas_thread():
        kept["turned"] = product(kept["turned"], square, kept["cuts"], kept["threads"])


def turned(shard: Shard, kept: Kept, square: Square) -> tuple[Vectors, list[float]]:
    """Return the vectors that come of a last product, and the gain of each range."""
    whole, last, cuts = kept["whole"], kept["turned"], kept["cuts"]
    right = square.astype(last.dtype)

    def part(rows: slice) -> float:
        gain = whole[rows, : right.shape[0]]
        best = last[rows] @ right
        reached = float((gain * best).sum(dtype=np.float64))
        gain[...] = best
        return reached

    with one_blas_thread():
        return whole, list(in_order(part, blocks(cuts), kept["threads"]))


class Pull:
    """The pull of one side as a tall matrix, whose rows stay with the workers."""

    def __init__(self, shards: Shards, shape: tuple[int, int]) -> None:
        self.shards, self.shape = shards, shape

    def gram(self) -> Square:
        """Return the sum of the Gram matrices of all ranges."""
        return self.shards.reduce(gram, _add, np.zeros((self.shape[1],) * 2))

    def times(self, square: Square) -> None:
        """Multiply every worker's rows."""
        self.shards.map(times, square)


def _add(total: Square, parts: list[Square]) -> Square:
    for part in parts:
        total += part
    return total


def joined(parts: Sequence[Vectors]) -> Vectors:
    """Return the rows of all parts, which may be written to."""
    if sparse.issparse(parts[0]):
        return parts[0] if len(parts) == 1 else as_sparse(sparse.vstack(parts, format="csr"))
    if len(parts) == 1:
        return np.require(parts[0], requirements="W")
    return np.concatenate(parts)
