"""Topics of texts as rankings: PAMIR's steps, feature induction, one model per topic."""

from __future__ import annotations

import numpy as np

from ranking import MatchingData, Ranker
from ranking.kernels.bilinear import BilinearInputs, BilinearWeights
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.bilinear import Bilinear
from ranking.training.wrappers.per_query import PerQuery

from .bilinear import N_STEPS, N_TEXTS, N_WORDS
from .common import KERNELS, PROFILE, kernel_or_skip
from .texts import CLASSES, identity, make_lists, make_texts

N_TOPICS = {"fast": 8, "full": 100}[PROFILE]
SOLVERS = {
    "all": "coordinate",
    "active": "coordinate:sweeps=active",
    "induced": "coordinate:sweeps=induced,top=50,max_epochs=10000,tolerance=0.001",
}


def make_topics() -> tuple[MatchingData, MatchingData]:
    """Topics over texts to train on and over others to test on; some topics are several classes."""
    texts, labels = make_texts(2 * N_TEXTS, N_WORDS)
    topics = np.arange(N_TOPICS)
    width = 1 + topics // CLASSES
    has = ((labels[None, :] - topics[:, None]) % CLASSES < width[:, None]).astype(float)
    halves = (slice(N_TEXTS), slice(N_TEXTS, None))
    train, test = (
        MatchingData(None, texts[half].astype(np.float64), has[:, half]) for half in halves
    )
    return train, test


def average_precision(model: Bilinear, data: MatchingData, kernel: str) -> float:
    """Return the mean over the topics."""
    metric = parse_metric("map")
    return mean(evaluate_model(model, [metric], data, kernel_or_skip(kernel))[metric.spelled()])


class Passive:
    """Passive-aggressive steps."""

    params = (KERNELS,)
    param_names = ("kernel",)

    def setup(self, kernel: str) -> None:
        self.kernel = kernel_or_skip(kernel)
        texts, labels = make_texts(N_TEXTS, N_WORDS)
        self.inputs = BilinearInputs(texts, texts)
        self.triplets = self.kernel.sampling.sample_triplets(make_lists(labels), 1, 0, N_STEPS)
        self.held_out = self.kernel.sampling.sample_triplets(make_lists(labels), 2, 0, 1000)

    def step(self) -> BilinearWeights:
        output = BilinearWeights(self.kernel, identity(N_WORDS))
        output.passive_aggressive(self.inputs, self.triplets, 0.1)
        return output

    def time_steps(self, kernel: str) -> None:
        self.step()

    def peakmem_steps(self, kernel: str) -> None:
        self.step()

    def track_hinge(self, kernel: str) -> float:
        margins = self.step().margins(self.inputs, self.held_out)
        return float(np.mean(np.maximum(0.0, 1.0 - margins)))

    track_hinge.unit = "hinge a tuple"


class Topics:
    """One model per topic, with all features, active ones, or induced ones."""

    params = (KERNELS, list(SOLVERS))
    param_names = ("kernel", "sweeps")
    timeout = 600

    def setup(self, kernel: str, sweeps: str) -> None:
        kernel_or_skip(kernel)
        self.train, self.test = make_topics()
        regularizer = "l1:strength=0.01"
        self.ranker = Ranker("linear", "domination", regularizer, SOLVERS[sweeps], kernel=kernel)

    def time_fit(self, kernel: str, sweeps: str) -> None:
        PerQuery(self.ranker.plan()).fit(self.train)

    def peakmem_fit(self, kernel: str, sweeps: str) -> None:
        PerQuery(self.ranker.plan()).fit(self.train)

    def track_density(self, kernel: str, sweeps: str) -> float:
        return PerQuery(self.ranker.plan()).fit(self.train).model.density

    def track_map(self, kernel: str, sweeps: str) -> float:
        return average_precision(
            PerQuery(self.ranker.plan()).fit(self.train).model, self.test, kernel
        )


class TopicsShared:
    """One model per topic by feature induction, by one thread and by two."""

    params = (KERNELS, [1, 2])
    param_names = ("kernel", "jobs")
    timeout = 600

    def setup(self, kernel: str, jobs: int) -> None:
        kernel_or_skip(kernel)
        self.train, _ = make_topics()
        self.ranker = Ranker(
            "linear", "domination", "l1:strength=0.01", SOLVERS["induced"], kernel=kernel
        )

    def time_fit(self, kernel: str, jobs: int) -> None:
        PerQuery(self.ranker.plan(), jobs=jobs).fit(self.train)
