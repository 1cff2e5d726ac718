"""An iteration of the alternating half-steps, every kernel side by side."""

from __future__ import annotations

import numpy as np

from .common import KERNELS, PROFILE, kernel_or_skip
from .half_steps import Sides, make_embeddings, make_sparse

SIZE = {"fast": 20_000, "full": 200_000}[PROFILE]
ROW_LENGTH = 25.0
DENSITY = 0.02


class Alternating:
    params = (KERNELS, [100, 1000], [1, 2])
    param_names = ("kernel", "width", "threads")
    timeout = 600

    def setup(self, kernel: str, width: int, threads: int) -> None:
        self.kernel = kernel_or_skip(kernel)
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        self.embeddings = make_embeddings(SIZE, width)

    def time_iteration(self, kernel: str, width: int, threads: int) -> None:
        self.sides.iterate(self.kernel, self.embeddings, threads)

    def peakmem_iteration(self, kernel: str, width: int, threads: int) -> None:
        self.sides.iterate(self.kernel, self.embeddings, threads)

    def track_error(self, kernel: str, width: int, threads: int) -> float:
        result = self.sides.iterate(self.kernel, self.embeddings, threads)
        return float(np.abs(result - self.sides.iterate_scipy(self.embeddings)).max())

    track_error.unit = "largest difference from SciPy's"


class AlternatingSparse:
    params = (KERNELS, [100, 1000], [1, 2])
    param_names = ("kernel", "width", "threads")
    timeout = 600

    def setup(self, kernel: str, width: int, threads: int) -> None:
        self.kernel = kernel_or_skip(kernel)
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        self.embeddings = make_sparse((SIZE, width), DENSITY * width, seed=1)

    def time_half_step(self, kernel: str, width: int, threads: int) -> None:
        self.sides.half_step(self.kernel, self.embeddings, threads)

    def peakmem_half_step(self, kernel: str, width: int, threads: int) -> None:
        self.sides.half_step(self.kernel, self.embeddings, threads)

    def track_density(self, kernel: str, width: int, threads: int) -> float:
        result = self.sides.half_step(self.kernel, self.embeddings, threads)
        return result.nnz / (SIZE * width)

    track_density.unit = "share of non-zeros"
