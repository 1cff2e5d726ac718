"""Synthetic data sets, generated without a download."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from ranking.data.judged_lists import JudgedLists

Parts: TypeAlias = dict[str, JudgedLists]
"""The parts of a data set by name, such as train and test."""

N_FEATURES = 12


def demo() -> Parts:
    """Generate search results with twelve features each, graded 0 to 3.

    Grades depend on some of the features, with noise. 120 queries are for training, 40 for
    validation and 60 for test; each has 12 to 39 documents.
    """
    rng = np.random.default_rng(7)
    weights = np.where(rng.random(N_FEATURES) < 0.5, rng.normal(size=N_FEATURES), 0.0)
    spans = {"train": range(1, 121), "valid": range(121, 161), "test": range(161, 221)}
    return {name: _search_results(rng, queries, weights) for name, queries in spans.items()}


def _search_results(rng: np.random.Generator, queries: range, weights: np.ndarray) -> JudgedLists:
    features, grades, qids, names = [], [], [], []
    for query in queries:
        documents = int(rng.integers(12, 40))
        signals = rng.gamma(2.0, 1.0, size=(documents, N_FEATURES)) * rng.uniform(0.5, 2.0)
        signals /= signals.max(axis=0)
        liked = signals @ weights + rng.normal(scale=0.35, size=documents)
        grades.append(np.searchsorted(np.quantile(liked, [0.55, 0.8, 0.93]), liked))
        features.append(np.round(signals, 4))
        qids += [query] * documents
        names += [f"D{query}-{number}" for number in range(documents)]
    return JudgedLists(np.concatenate(features), np.concatenate(grades), qids, doc_ids=names)


SYNTHETIC_DATA: Final[dict[str, Callable[[], Parts]]] = {"demo": demo}
"""Generators of the data sets of `ranking data get`, by name."""
