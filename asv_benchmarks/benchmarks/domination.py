"""Domination Rank by coordinate descent: a sweep, a training, its memory and its quality."""

from __future__ import annotations

import numpy as np

from ranking import Ranker
from ranking.contracts.regularizer import EntryPenalty

from .common import KERNELS, kernel_or_skip, make_judged, make_problem
from .numpy_pass import NumpyPass

NOTHING = EntryPenalty(0.0, 0.0)


class Sweep:
    """One sweep over all features; "numpy" is the vectorised comparison."""

    params = ([*KERNELS, "numpy"], [1, 2])
    param_names = ("kernel", "threads")
    timeout = 600

    def setup(self, kernel: str, threads: int) -> None:
        data = make_judged()
        self.columns = np.arange(data.n_features)
        if kernel == "numpy":
            if threads > 1:
                raise NotImplementedError("NumPy's loops run on one thread")
            compared = NumpyPass(make_problem(data, kernel_or_skip("cython")))
            self.run = lambda: compared.sweep(self.columns)
        else:
            problem = make_problem(data, kernel_or_skip(kernel), threads)
            self.run = lambda: problem.sweep(self.columns, NOTHING)
        self.run()

    def time_sweep(self, kernel: str, threads: int) -> None:
        self.run()


class Fit:
    """A whole training."""

    params = (KERNELS,)
    param_names = ("kernel",)
    timeout = 600

    def setup(self, kernel: str) -> None:
        kernel_or_skip(kernel)
        self.train, self.test = make_judged(), make_judged(seed=1)
        self.ranker = Ranker(loss="domination", regularizer="l2:strength=0.001", kernel=kernel)

    def time_fit(self, kernel: str) -> None:
        self.ranker.fit(self.train)

    def peakmem_fit(self, kernel: str) -> None:
        self.ranker.fit(self.train)

    def track_ndcg(self, kernel: str) -> float:
        return float(self.ranker.fit(self.train).score(self.test, metric="ndcg@10"))

    def track_epochs(self, kernel: str) -> int:
        return int(self.ranker.fit(self.train).n_iter_)
