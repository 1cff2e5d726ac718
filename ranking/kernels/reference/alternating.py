"""Reference of the alternating family: product, threshold and norm, one row at a time."""

from __future__ import annotations

import numpy as np

from ranking.kernels.contract import WIDE, Csr, Floats, Int32s, Ints, Singles
from ranking.kernels.reference.factored import ZERO, dot


def _row(
    matrix: Csr, row: int, embeddings: Singles, threshold: float, limit: float
) -> tuple[Singles, float]:
    """Return a row of the half-step, and its gain."""
    indptr, indices, data = matrix
    omega = np.zeros(embeddings.shape[1], np.float32)
    for at in range(int(indptr[row]), int(indptr[row + 1])):
        omega += np.float32(data[at]) * embeddings[indices[at]]
    cut = np.float32(threshold)
    shrunk = np.abs(omega) - cut
    soft = np.where(shrunk > ZERO, np.copysign(shrunk, omega), ZERO)
    square = dot(soft, soft)
    if limit > 0.0 and square > ZERO:
        soft = soft * (np.float32(limit) / np.sqrt(square))
    ones = np.ones_like(soft)
    gain = float(dot(soft, omega)) - float(cut) * float(dot(np.abs(soft), ones))
    return soft, gain


def half_step(
    matrix: Csr,
    embeddings: Singles,
    threshold: float,
    limit: float,
    out: Singles,
    gains: Floats,
    threads: int,
) -> None:
    """Take a half-step, row by row."""
    for row in range(out.shape[0]):
        out[row], gains[row] = _row(matrix, row, embeddings, threshold, limit)


def half_step_sparse(
    matrix: Csr,
    embeddings: Csr,
    width: int,
    threshold: float,
    limit: float,
    gains: Floats,
    threads: int,
) -> tuple[Ints, Int32s, Singles]:
    """Take the same half-step from sparse embeddings."""
    pointers, dimensions, values = embeddings
    dense = np.zeros((pointers.size - 1, -(-width // WIDE) * WIDE), np.float32)
    rows = np.repeat(np.arange(pointers.size - 1), np.diff(pointers))
    dense[rows, dimensions] = values
    out = np.empty((gains.size, dense.shape[1]), np.float32)
    half_step(matrix, dense, threshold, limit, out, gains, threads)
    nonzero = out != ZERO
    indptr = np.concatenate(([0], np.cumsum(nonzero.sum(axis=1)))).astype(np.int64)
    return indptr, np.nonzero(nonzero)[1].astype(np.int32), out[nonzero]
