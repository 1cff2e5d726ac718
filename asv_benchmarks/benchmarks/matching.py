"""Matching from clicks: M, the polar factor, a whole training, and its quality."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.data.click_matrix import click_matrix
from ranking_plugins.regularizers.polar import polar_factor

from .common import KERNELS, PROFILE, kernel_or_skip
from .half_steps import make_embeddings, make_sparse
from .texts import CLASSES, make_texts

SIZE = {"fast": 10_000, "full": 100_000}[PROFILE]
N_TEXTS, N_WORDS = {"fast": (1000, 2000), "full": (10_000, 10_000)}[PROFILE]
WAYS = {
    "rmls": (
        "sparse-factored:dimensions=48",
        "alignment",
        "l1l2-row:strength=0.001,limit=1",
        "alternating:max_epochs=2,center=true",
    ),
    "rmls-large-margin": (
        "factored:dimensions=48,biases=false",
        "hinge",
        "l1l2-row:strength=1e-5,limit=3",
        "alternating:max_epochs=5",
    ),
    "pls": (
        "factored:dimensions=24,biases=false",
        "alignment",
        "orthonormal:scale=1",
        "alternating:max_epochs=20,tolerance=1e-5",
    ),
    "lsi": (
        "factored:dimensions=24,biases=false",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        "alternating:max_epochs=20,tolerance=1e-5",
    ),
}
"""The recipes, smaller."""


def make_clicks() -> MatchingData:
    """Queries and documents with features, and clicks, as many as a week of the paper has."""
    return MatchingData(
        abs(make_sparse((SIZE, 2 * SIZE), 4.0, 1)),
        abs(make_sparse((SIZE, 2 * SIZE), 5.9, 2)),
        sp.csr_array(abs(make_sparse((SIZE, SIZE), 1.74, 3))),
    )


class ClickMatrix:
    params = ([1, 2],)
    param_names = ("threads",)

    def setup(self, threads: int) -> None:
        self.data = make_clicks()

    def time_matrix(self, threads: int) -> None:
        click_matrix(self.data, threads=threads)

    def peakmem_matrix(self, threads: int) -> None:
        click_matrix(self.data, threads=threads)


class Polar:
    params = ([48, 96], [1, 2])
    param_names = ("width", "threads")

    def setup(self, width: int, threads: int) -> None:
        self.embeddings = make_embeddings(2 * SIZE, width)

    def time_polar_factor(self, width: int, threads: int) -> None:
        polar_factor(self.embeddings, threads)

    def peakmem_polar_factor(self, width: int, threads: int) -> None:
        polar_factor(self.embeddings, threads)


class Training:
    params = (KERNELS, ["l1l2-row:strength=1", "orthonormal:scale=1"])
    param_names = ("kernel", "regularizer")
    timeout = 600

    def setup(self, kernel: str, regularizer: str) -> None:
        self.data = make_clicks()
        self.ranker = Ranker(
            "sparse-factored:dimensions=48",
            "alignment",
            regularizer,
            "alternating:max_epochs=2,tolerance=0",
            kernel=kernel_or_skip(kernel),
        )

    def time_fit(self, kernel: str, regularizer: str) -> None:
        self.ranker.fit(self.data)

    def peakmem_fit(self, kernel: str, regularizer: str) -> None:
        self.ranker.fit(self.data)


def make_data() -> tuple[MatchingData, MatchingData]:
    """Return texts with two clicks each on texts of their class, and new texts to classify."""
    texts, labels = make_texts(3 * N_TEXTS, N_WORDS)
    queries, documents, new = (slice(at * N_TEXTS, (at + 1) * N_TEXTS) for at in range(3))
    rng = np.random.default_rng(0)
    members = [np.flatnonzero(labels[documents] == label) for label in range(CLASSES)]
    clicked = np.concatenate([rng.choice(members[label], 2) for label in labels[queries]])
    rows = np.repeat(np.arange(N_TEXTS), 2)
    clicks = sp.csr_array((np.ones(2 * N_TEXTS), (rows, clicked)), shape=(N_TEXTS, N_TEXTS))
    relevance = (labels[new][:100, None] == labels[documents]).astype(float)
    return (
        MatchingData(texts[queries], texts[documents], clicks),
        MatchingData(texts[new][:100], texts[documents], relevance),
    )


class Learnt:
    """From clicks on texts to the texts that are of a new query's class."""

    params = (KERNELS, list(WAYS))
    param_names = ("kernel", "way")
    timeout = 600

    def setup(self, kernel: str, way: str) -> None:
        self.train, self.test = make_data()
        self.ranker = Ranker(*WAYS[way], kernel=kernel_or_skip(kernel))

    def time_fit(self, kernel: str, way: str) -> None:
        self.ranker.fit(self.train)

    def peakmem_fit(self, kernel: str, way: str) -> None:
        self.ranker.fit(self.train)

    def track_map(self, kernel: str, way: str) -> float:
        return float(self.ranker.fit(self.train).score(self.test, metric="map"))
