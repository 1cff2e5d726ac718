"""Helpers of the benchmarks of the alternating half-steps: M, embeddings, and SciPy's way."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import WIDE
from ranking.kernels.kernel import Kernel

Embeddings = NDArray[np.float32] | sp.csr_array
THRESHOLD, LIMIT = 0.1, 1.0


def make_sparse(shape: tuple[int, int], row_length: float, seed: int = 0) -> sp.csr_array:
    """Rows with columns sampled evenly, the worst there is for a cache, and int32 indices."""
    rng = np.random.default_rng(seed)
    rows, columns = shape
    indptr = np.concatenate(([0], np.cumsum(rng.poisson(row_length, rows)))).astype(np.int32)
    indices = rng.integers(0, columns, indptr[-1], dtype=np.int32)
    values = rng.random(indices.size, dtype=np.float32) - np.float32(0.3)
    output = sp.csr_array((values, indices, indptr), shape=shape)
    output.sum_duplicates()
    return output


def make_embeddings(count: int, width: int, seed: int = 1) -> NDArray[np.float32]:
    """Padded embeddings of about unit length."""
    rng = np.random.default_rng(seed)
    output = np.zeros((count, -(-width // WIDE) * WIDE), np.float32)
    for start in range(0, count, 4096):  # a double takes twice the memory
        part = output[start : start + 4096, :width]
        part[:] = rng.normal(scale=width**-0.5, size=part.shape)
    return output


@dataclasses.dataclass
class Sides:
    """M by rows and by columns, with what moves between them."""

    rows: sp.csr_array
    columns: sp.csr_array

    def __post_init__(self) -> None:
        self.matrices = (AlternatingMatrix(self.rows), AlternatingMatrix(self.columns))
        self.buffers: dict[int, NDArray[np.float32]] = {}

    @classmethod
    def make(cls, shape: tuple[int, int], row_length: float) -> Sides:
        """M of a shape, with about so many non-zeros a row."""
        rows = make_sparse(shape, row_length)
        return cls(rows, sp.csr_array(rows.T))

    def iterate(
        self, kernel: Kernel, embeddings: Embeddings, threads: int, threshold: float = THRESHOLD
    ) -> Embeddings:
        """Take both half-steps."""
        for side, matrices in enumerate(self.matrices):
            embeddings, _ = kernel.alternating.half_step(
                matrices,
                embeddings,
                threshold=threshold,
                limit=LIMIT,
                threads=threads,
                out=self.buffer(side, embeddings),
            )
        return embeddings

    def buffer(self, side: int, embeddings: Embeddings) -> NDArray[np.float32] | None:
        """Return a buffer for dense embeddings: the same each time, as in training."""
        if isinstance(embeddings, sp.csr_array):
            return None
        shape = (self.matrices[side].shape[0], embeddings.shape[1])
        if side not in self.buffers or self.buffers[side].shape != shape:
            self.buffers[side] = np.zeros(shape, np.float32)
        return self.buffers[side]

    def half_step(
        self, kernel: Kernel, embeddings: Embeddings, threads: int, threshold: float = THRESHOLD
    ) -> Embeddings:
        """Take the half-step for the rows."""
        output, _ = kernel.alternating.half_step(
            self.matrices[0],
            embeddings,
            threshold=threshold,
            limit=LIMIT,
            threads=threads,
            out=self.buffer(0, embeddings),
        )
        return output

    def iterate_scipy(
        self, embeddings: NDArray[np.float32], threshold: float = THRESHOLD
    ) -> NDArray[np.float32]:
        """Take both half-steps by product, threshold and norm, one after the other."""
        for matrix in (self.rows, self.columns):
            omega = matrix @ embeddings
            soft = np.sign(omega) * np.maximum(np.abs(omega) - np.float32(threshold), 0)
            norms = np.linalg.norm(soft, axis=1, keepdims=True)
            embeddings = soft * (np.float32(LIMIT) / np.where(norms > 0, norms, np.float32(1)))
        return embeddings

    def bytes_moved(self, width: int) -> int:
        """Bytes that an iteration with dense embeddings reads and writes, if no cache keeps any."""
        line = 4 * (-(-width // WIDE) * WIDE)
        one = self.rows.nnz * (line + self.rows.data.itemsize + self.rows.indices.itemsize)
        # A row that is written is read before, by most processors; a gain and a pointer more.
        return 2 * one + sum(self.rows.shape) * (2 * line + 16)
