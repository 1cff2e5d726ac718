"""The kernels' small functions."""

from __future__ import annotations

import numpy as np

from .common import KERNELS, kernel_or_skip


class Small:
    """exp, dot, random numbers and linear scores."""

    params = (KERNELS,)
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel = kernel_or_skip(kernel)
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=1_000_000) * 10
        self.features = rng.random((100_000, 136), dtype=np.float32)
        self.weights = rng.normal(size=136)

    def time_exp(self, kernel: str) -> None:
        self.kernel.random.exp(self.x)

    def time_dot(self, kernel: str) -> None:
        self.kernel.random.dot(self.x, self.x)

    def time_random_uniform(self, kernel: str) -> None:
        self.kernel.random.uniform(0, 0, 1_000_000)

    def time_linear_scores(self, kernel: str) -> None:
        self.kernel.linear.scores(self.features, self.weights)
