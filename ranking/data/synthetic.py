"""Data sets that this project makes itself: they are nobody else's, and nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import numpy as np

from ranking.data.judged_lists import JudgedLists

Parts: TypeAlias = dict[str, JudgedLists]
"""The parts of a data set by name, such as train and test."""

SIGNALS = 12


def demo() -> Parts:
    """Make search results with twelve signals each, graded 0 to 3.

    What the judges like is in some of the signals, under noise. 120 queries train, 40 validate
    and 60 test; each has 12 to 39 documents.
    """
    rng = np.random.default_rng(7)
    taste = np.where(rng.random(SIGNALS) < 0.5, rng.normal(size=SIGNALS), 0.0)
    spans = {"train": range(1, 121), "valid": range(121, 161), "test": range(161, 221)}
    return {name: _search_results(rng, queries, taste) for name, queries in spans.items()}


def _search_results(rng: np.random.Generator, queries: range, taste: np.ndarray) -> JudgedLists:
    features, grades, qids, names = [], [], [], []
    for query in queries:
        documents = int(rng.integers(12, 40))
        signals = rng.gamma(2.0, 1.0, size=(documents, SIGNALS)) * rng.uniform(0.5, 2.0)
        signals /= signals.max(axis=0)
        liked = signals @ taste + rng.normal(scale=0.35, size=documents)
        grades.append(np.searchsorted(np.quantile(liked, [0.55, 0.8, 0.93]), liked))
        features.append(np.round(signals, 4))
        qids += [query] * documents
        names += [f"D{query}-{number}" for number in range(documents)]
    return JudgedLists(np.concatenate(features), np.concatenate(grades), qids, doc_ids=names)


MADE: Final[dict[str, Callable[[], Parts]]] = {"demo": demo}
"""What `ranking data get` knows, by name."""
