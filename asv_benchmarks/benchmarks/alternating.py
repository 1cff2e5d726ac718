"""An iteration of the alternating half-steps, every kernel side by side."""

from __future__ import annotations

import numpy as np

from .common import KERNELS, PROFILE, kernel_or_skip
from .matched import Sides, make_sparse, make_vectors

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
        self.vectors = make_vectors(SIZE, width)

    def time_iteration(self, kernel: str, width: int, threads: int) -> None:
        self.sides.iterate(self.kernel, self.vectors, threads)

    def peakmem_iteration(self, kernel: str, width: int, threads: int) -> None:
        self.sides.iterate(self.kernel, self.vectors, threads)

    def track_error(self, kernel: str, width: int, threads: int) -> float:
        found = self.sides.iterate(self.kernel, self.vectors, threads)
        return float(np.abs(found - self.sides.iterate_scipy(self.vectors)).max())

    track_error.unit = "largest difference from SciPy's"


class AlternatingSparse:
    params = (KERNELS, [100, 1000], [1, 2])
    param_names = ("kernel", "width", "threads")
    timeout = 600

    def setup(self, kernel: str, width: int, threads: int) -> None:
        self.kernel = kernel_or_skip(kernel)
        self.sides = Sides.make((SIZE, SIZE), ROW_LENGTH)
        self.vectors = make_sparse((SIZE, width), DENSITY * width, seed=1)

    def time_half_step(self, kernel: str, width: int, threads: int) -> None:
        self.sides.self.kernel.alternating.half_step(self.vectors, threads)

    def peakmem_half_step(self, kernel: str, width: int, threads: int) -> None:
        self.sides.self.kernel.alternating.half_step(self.vectors, threads)

    def track_density(self, kernel: str, width: int, threads: int) -> float:
        found = self.sides.self.kernel.alternating.half_step(self.vectors, threads)
        return found.nnz / (SIZE * width)

    track_density.unit = "share of non-zeros"
