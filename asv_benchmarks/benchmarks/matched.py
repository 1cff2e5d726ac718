"""What the benchmarks of the alternating half-steps share: M, vectors, and SciPy's way."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import WIDE
from ranking.kernels.kernel import Kernel

Vectors = NDArray[np.float32] | sp.csr_array
THRESHOLD, LIMIT = 0.1, 1.0


def make_sparse(shape: tuple[int, int], row_length: float, seed: int = 0) -> sp.csr_array:
    """Rows with columns drawn evenly, the worst there is for a cache, and int32 indices."""
    rng = np.random.default_rng(seed)
    rows, columns = shape
    indptr = np.concatenate(([0], np.cumsum(rng.poisson(row_length, rows)))).astype(np.int32)
    indices = rng.integers(0, columns, indptr[-1], dtype=np.int32)
    values = rng.random(indices.size, dtype=np.float32) - np.float32(0.3)
    made = sp.csr_array((values, indices, indptr), shape=shape)
    made.sum_duplicates()
    return made


def make_vectors(count: int, width: int, seed: int = 1) -> NDArray[np.float32]:
    """Padded vectors of about unit length."""
    rng = np.random.default_rng(seed)
    made = np.zeros((count, -(-width // WIDE) * WIDE), np.float32)
    for start in range(0, count, 4096):  # a double takes twice the memory
        part = made[start : start + 4096, :width]
        part[:] = rng.normal(scale=width**-0.5, size=part.shape)
    return made


@dataclasses.dataclass
class Sides:
    """M by rows and by columns, with what moves between them."""

    rows: sp.csr_array
    columns: sp.csr_array

    def __post_init__(self) -> None:
        self.matched = (AlternatingMatrix(self.rows), AlternatingMatrix(self.columns))
        self.rooms: dict[int, NDArray[np.float32]] = {}

    @classmethod
    def make(cls, shape: tuple[int, int], row_length: float) -> Sides:
        """M of a shape, with about so many non-zeros a row."""
        rows = make_sparse(shape, row_length)
        return cls(rows, sp.csr_array(rows.T))

    def iterate(
        self, kernel: Kernel, vectors: Vectors, threads: int, threshold: float = THRESHOLD
    ) -> Vectors:
        """Take both half-steps."""
        for side, matched in enumerate(self.matched):
            vectors, _ = kernel.alternating.half_step(
                matched,
                vectors,
                threshold=threshold,
                limit=LIMIT,
                threads=threads,
                out=self.room(side, vectors),
            )
        return vectors

    def room(self, side: int, vectors: Vectors) -> NDArray[np.float32] | None:
        """Return memory for what is made of dense vectors: the same each time, as in training."""
        if isinstance(vectors, sp.csr_array):
            return None
        shape = (self.matched[side].shape[0], vectors.shape[1])
        if side not in self.rooms or self.rooms[side].shape != shape:
            self.rooms[side] = np.zeros(shape, np.float32)
        return self.rooms[side]

    def half_step(
        self, kernel: Kernel, vectors: Vectors, threads: int, threshold: float = THRESHOLD
    ) -> Vectors:
        """Take the half-step for the rows."""
        made, _ = kernel.alternating.half_step(
            self.matched[0],
            vectors,
            threshold=threshold,
            limit=LIMIT,
            threads=threads,
            out=self.room(0, vectors),
        )
        return made

    def iterate_scipy(
        self, vectors: NDArray[np.float32], threshold: float = THRESHOLD
    ) -> NDArray[np.float32]:
        """Take both half-steps by product, threshold and norm, one after the other."""
        for matrix in (self.rows, self.columns):
            omega = matrix @ vectors
            soft = np.sign(omega) * np.maximum(np.abs(omega) - np.float32(threshold), 0)
            norms = np.linalg.norm(soft, axis=1, keepdims=True)
            vectors = soft * (np.float32(LIMIT) / np.where(norms > 0, norms, np.float32(1)))
        return vectors

    def bytes_moved(self, width: int) -> int:
        """Bytes that an iteration with dense vectors reads and writes, if no cache keeps any."""
        line = 4 * (-(-width // WIDE) * WIDE)
        one = self.rows.nnz * (line + self.rows.data.itemsize + self.rows.indices.itemsize)
        # A row that is written is read before, by most processors; a gain and a pointer more.
        return 2 * one + sum(self.rows.shape) * (2 * line + 16)
