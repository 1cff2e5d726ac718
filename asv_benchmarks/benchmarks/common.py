"""Helpers of the benchmarks: sizes by profile, kernels, and synthetic judged lists.

RANKING_BENCH_PROFILE chooses the size: "fast" (default) for `make bench`, "full" for numbers that
are quoted (a million rows).
"""

from __future__ import annotations

import os

import numpy as np

from ranking import JudgedLists, get_kernel
from ranking.kernels.kernel import Kernel
from ranking_plugins.losses.domination import Domination, DominationProblem

PROFILE = os.environ.get("RANKING_BENCH_PROFILE", "fast")
N_QUERIES = {"fast": 400, "full": 8000}[PROFILE]
N_FEATURES = 136
KERNELS = ["cython", "rust"]
LAYERS = (65, 29, 16, 12, 3)
"""Documents of grade 0 to 4 in a list of 125: about the shares of web search collections."""


def make_judged(n_queries: int = N_QUERIES, seed: int = 0) -> JudgedLists:
    """Lists of 125 documents with 136 dense float32 features, some of which matter."""
    rng = np.random.default_rng(seed)
    per_query = sum(LAYERS)
    X = rng.random((n_queries * per_query, N_FEATURES), dtype=np.float32)
    truth = np.where(rng.random(N_FEATURES) < 0.2, rng.normal(size=N_FEATURES), 0.0)
    liked = (X @ truth.astype(np.float32)).reshape(n_queries, per_query)
    liked += rng.normal(scale=1.0, size=liked.shape).astype(np.float32)
    place = np.argsort(np.argsort(liked, axis=1), axis=1)
    grades = np.searchsorted(np.cumsum(LAYERS), place.ravel(), side="right")
    return JudgedLists(X, grades.astype(float), np.repeat(np.arange(n_queries), per_query))


def make_problem(
    data: JudgedLists, kernel: Kernel, threads: int = 1, curvature: str = "newton"
) -> DominationProblem:
    """The domination loss over the data, at weights 0."""
    return Domination().coordinate_problem(
        data, np.zeros(data.n_features), kernel, threads, curvature
    )


def kernel_or_skip(name: str) -> Kernel:
    """A kernel; asv skips a benchmark whose setup raises NotImplementedError."""
    try:
        return get_kernel(name)
    except RuntimeError as error:
        raise NotImplementedError(str(error)) from error
