"""One sweep of coordinate descent in vectorised NumPy: what the kernels are compared with.

No loop over lists or rows; the same safeguarded Newton step as the kernels take.
"""

from __future__ import annotations

import numpy as np

from ranking_plugins.losses.domination import DominationProblem


class NumpyPass:
    """The layout of a problem, prepared for `reduceat`."""

    def __init__(self, problem: DominationProblem) -> None:
        lists = problem.lists
        self.x, self.omega, self.bounds = problem.features, lists.omega, problem.bounds
        self.starts = lists.layer_ptr[:-1]
        self.sizes = np.diff(lists.layer_ptr)
        self.list_starts = lists.layer_ptr[lists.list_ptr[:-1]]
        self.list_sizes = np.diff(lists.layer_ptr[lists.list_ptr])
        self.padding = lists.source < 0
        self.first = np.repeat(lists.list_ptr[:-1], np.diff(lists.list_ptr))
        self.margins = np.zeros(lists.n_rows)
        self.weights = np.zeros(self.x.shape[1])
        self.radius = problem.radius.copy()

    def below(self, values: np.ndarray) -> np.ndarray:
        """Sum of the lower layers of the list, for each row."""
        layer = np.add.reduceat(values, self.starts)
        running = np.cumsum(layer) - layer
        return np.repeat(running - running[self.first], self.sizes)

    def sweep(self, columns: np.ndarray, l2: float = 0.0) -> None:
        """One step along each column."""
        bottom = np.repeat(self.first == np.arange(self.sizes.size), self.sizes)
        for r in columns:
            x = self.x[:, r].astype(np.float64)
            top = np.repeat(np.maximum.reduceat(self.margins, self.list_starts), self.list_sizes)
            e = np.exp(self.margins - top)
            e[self.padding] = 0.0
            u = e * x
            Z = np.where(bottom, 1.0, self.below(e))
            mean = self.below(u) / Z
            variance = np.maximum(self.below(u * x) / Z - mean * mean, 0.0)
            p = Z / (Z + e)
            d = x - mean
            s = self.omega * p
            g, h = -(s * d).sum(), (s * (variance + (1.0 - p) * (d * d))).sum()
            size = self.bounds[1, r] * self.radius[r]
            c = min(self.bounds[0, r], h * 2.0 * (np.expm1(size) - size) / size**2)
            target = (c * self.weights[r] - g) / (c + l2)
            delta = np.clip(target - self.weights[r], -self.radius[r], self.radius[r])
            self.weights[r] += delta
            self.margins += delta * x
            self.radius[r] = max(2.0 * abs(delta), self.radius[r] / 2, 0.0625 / self.bounds[1, r])
