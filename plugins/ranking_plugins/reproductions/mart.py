"""Boosted trees over the scores of other methods, by LightGBM, which is an extra."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TREES = 100
SETTINGS = {
    "objective": "lambdarank",
    "num_leaves": 7,
    "learning_rate": 0.05,
    "min_data_in_leaf": 20,
    "deterministic": True,
    "force_row_wise": True,
    "verbose": -1,
}
"""Small trees, since few queries are judged; not tuned."""

MISSING = (
    "LightGBM is not installed, so the tables of boosted trees are left out; install "
    "ranking-kit[trees]."
)


class Boosted(NamedTuple):
    """Scores, one row per query, and the cost of the trees."""

    scores: Floats
    seconds: float
    model_bytes: int


def installed() -> bool:
    """Say whether LightGBM can be imported."""
    return find_spec("lightgbm") is not None


def boost(
    train: list[Floats], grades: Floats, test: list[Floats], *, seed: int, threads: int
) -> Boosted:
    """Train on some queries and score others.

    Parameters
    ----------
    train, test : lists of float64 arrays
        The scores of each method, one row per query and one column per document. They are to be
        comparable between queries, as a tree cuts all of them at one place.
    grades : float64 array
        Of the same shape as those to train on.
    """
    import lightgbm

    data = lightgbm.Dataset(
        _columns(train),
        label=grades.ravel().astype(np.int64),
        group=np.full(grades.shape[0], grades.shape[1]),
    )
    settings: dict[str, Any] = {**SETTINGS, "seed": seed % 2**31, "num_threads": threads}
    started = time.perf_counter()
    trees = lightgbm.train(settings, data, num_boost_round=TREES)
    seconds = time.perf_counter() - started
    scores = trees.predict(_columns(test), num_threads=threads).reshape(test[0].shape)
    return Boosted(scores, seconds, len(trees.model_to_string().encode()))


def _columns(scores: list[Floats]) -> Floats:
    return np.column_stack([one.ravel() for one in scores])
