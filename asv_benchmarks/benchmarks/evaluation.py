"""Reading LETOR files and measuring rankings."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_svmlight_file

from ranking.data.readers.letor import Letor
from ranking.metrics.parse import parse_metric

from .common import KERNELS, PROFILE, kernel_or_skip, make_judged


class Metrics:
    """Metrics over all queries at once."""

    params = (["ndcg@10", "letor-ndcg@10", "map", "p@10"],)
    param_names = ("metric",)

    def setup(self, metric: str) -> None:
        self.data = make_judged()
        self.scores = np.random.default_rng(0).normal(size=self.data.n_rows)
        self.metric = parse_metric(metric)

    def time_metric(self, metric: str) -> None:
        self.metric.mean(self.data, self.scores)


class Reading:
    """A LETOR file of 5,000 rows (100,000 in the full profile), and scikit-learn on the same."""

    params = ([*KERNELS, "scikit-learn"], [1, 2])
    param_names = ("reader", "threads")

    def setup_cache(self) -> str:
        data = make_judged(n_queries={"fast": 40, "full": 800}[PROFILE])
        numbers = np.arange(1, data.n_features + 1)
        path = Path("letor.txt").resolve()  # asv removes the folder it runs this in
        with path.open("w") as stream:
            for row in range(data.n_rows):
                pairs = " ".join(
                    f"{k}:{v:.6f}" for k, v in zip(numbers, data.features[row], strict=True)
                )
                stream.write(f"{data.grades[row]:g} qid:{data.row_groups[row]} {pairs}\n")
        return str(path)

    def setup(self, path: str, reader: str, threads: int) -> None:
        if reader == "scikit-learn":
            if threads > 1:
                raise NotImplementedError("scikit-learn reads with one thread")
            self.read = lambda: load_svmlight_file(path, query_id=True)
            return
        os.environ["RANKING_KERNEL"] = kernel_or_skip(reader).name
        self.read = lambda: Letor(threads=threads).read(Path(path))

    def teardown(self, path: str, reader: str, threads: int) -> None:
        os.environ.pop("RANKING_KERNEL", None)

    def time_read(self, path: str, reader: str, threads: int) -> None:
        self.read()

    def peakmem_read(self, path: str, reader: str, threads: int) -> None:
        self.read()
