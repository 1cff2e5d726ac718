"""The hinge of pairs by coordinate descent, next to scikit-learn's LinearSVC on their differences.

Both minimise the hinge over all pairs of judged lists plus L2, with the same weights. LinearSVC
needs every pair as a row.
"""

from __future__ import annotations

import numpy as np
from sklearn.svm import LinearSVC

from ranking import JudgedLists, Ranker
from ranking_plugins.losses import Hinge, Logistic, SquaredHinge
from ranking_plugins.preference_pairs import LowerRows

from .common import KERNELS, PROFILE, kernel_or_skip, make_judged
from .domination import NOTHING

QUERIES = {"fast": 20, "full": 80}[PROFILE]
STRENGTH = 0.001


def all_pairs(data: JudgedLists) -> tuple[np.ndarray, np.ndarray]:
    """Return the differences of all pairs, and their weights."""
    rows = LowerRows.of(data)
    first, sizes = rows.first[rows.better], rows.below[rows.better]
    before = np.cumsum(sizes) - sizes
    better = np.repeat(rows.order[rows.better], sizes)
    worse = rows.order[np.repeat(first - before, sizes) + np.arange(sizes.sum())]
    differences = data.features[better].astype(np.float64) - data.features[worse]
    return differences, np.repeat(1.0 / (rows.better.size * sizes), sizes)


class RankSvm:
    """A whole training from judged lists: its time, its memory, and the hinge that it comes to."""

    params = (["coordinate", "sgd", "linear-svc"],)
    param_names = ("solver",)
    timeout = 600

    def setup(self, solver: str) -> None:
        self.data = make_judged(QUERIES)

    def fit(self, solver: str) -> np.ndarray:
        if solver == "linear-svc":
            differences, weights = all_pairs(self.data)
            signs = np.where(np.arange(weights.size) % 2, 1.0, -1.0)  # it wants two classes
            machine = LinearSVC(loss="hinge", dual=True, fit_intercept=False, tol=1e-3)
            machine.fit(differences * signs[:, None], signs, sample_weight=weights / STRENGTH)
            return machine.coef_[0]
        ranker = Ranker("linear", "hinge", f"l2:strength={STRENGTH}", solver)
        return ranker.fit(self.data).model_.weights

    def time_fit(self, solver: str) -> None:
        self.fit(solver)

    def peakmem_fit(self, solver: str) -> None:
        self.fit(solver)

    def track_objective(self, solver: str) -> float:
        """The hinge itself, not smoothed, plus the penalty."""
        result = self.fit(solver)
        differences, weights = all_pairs(self.data)
        return float(
            weights @ np.maximum(0.0, 1.0 - differences @ result) + 0.5 * STRENGTH * result @ result
        )


class Sweep:
    """A Newton step over lists that have millions of pairs, in the middle of training."""

    params = (["hinge", "squared-hinge", "logistic"], KERNELS, [1, 2])
    param_names = ("loss", "kernel", "threads")
    timeout = 600

    def setup(self, loss: str, kernel: str, threads: int) -> None:
        self.data = make_judged()
        part = {each.name: each for each in (Hinge, SquaredHinge, Logistic)}[loss]()
        self.problem = part.coordinate_problem(
            self.data, np.zeros(self.data.n_features), kernel_or_skip(kernel), threads, "newton"
        )
        self.columns = np.arange(self.data.n_features)
        self.problem.sweep(self.columns, NOTHING)
        self.state = self.problem.state()

    def time_sweep(self, loss: str, kernel: str, threads: int) -> None:
        self.problem.restore(self.state)
        self.problem.sweep(self.columns, NOTHING)
