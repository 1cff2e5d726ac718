"""Matching from clicks: M, the polar factor, and a whole training."""

from __future__ import annotations

import scipy.sparse as sp

from ranking import Matching, Ranker
from ranking.data.click_matrix import click_matrix
from ranking_plugins.regularizers.polar import polar_factor

from .common import KERNELS, PROFILE, kernel_or_skip
from .matched import make_sparse, make_vectors

SIZE = {"fast": 10_000, "full": 100_000}[PROFILE]


def make_clicks() -> Matching:
    """Queries and documents with features, and clicks, as many as a week of the paper has."""
    return Matching(
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
        self.vectors = make_vectors(2 * SIZE, width)

    def time_polar_factor(self, width: int, threads: int) -> None:
        polar_factor(self.vectors, threads)


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
