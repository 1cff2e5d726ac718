"""Reading LETOR files and measuring rankings."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from ranking import read
from ranking.metrics.parse import parse_metric

from .common import make_judged


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
    """A LETOR file of 5,000 rows."""

    def setup(self) -> None:
        data = make_judged(n_queries=40)
        numbers = np.arange(1, data.n_features + 1)
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "letor.txt"
        with self.path.open("w") as stream:
            for row in range(data.n_rows):
                pairs = " ".join(
                    f"{k}:{v:.6f}" for k, v in zip(numbers, data.features[row], strict=True)
                )
                stream.write(f"{data.grades[row]:g} qid:{data.row_groups[row]} {pairs}\n")

    def teardown(self) -> None:
        self.folder.cleanup()

    def time_read(self) -> None:
        read(self.path)

    def peakmem_read(self) -> None:
        read(self.path)
