"""Popularity for users who are not in the training data, in place of untrained embeddings."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Embedding, MatchingModel
from ranking.data.matching_data import MatchingData
from ranking.data.seen import SeenItems
from ranking.kernels.kernel import Kernel

Ints = NDArray[np.int64]


class WithFallback:
    """A fitted model that ranks by popularity for users without positives in the training data.

    Parameters
    ----------
    model : MatchingModel
    seen : SeenItems
        With positives, which are counted.
    """

    def __init__(self, model: MatchingModel, seen: SeenItems) -> None:
        self.model, self.seen = model, seen

    def __getattr__(self, name: str) -> object:
        if name == "model":  # a pickle asks before it has restored anything
            raise AttributeError(name)
        return getattr(self.model, name)

    def embedding(self, data: MatchingData, kernel: Kernel, threads: int = 1) -> Embedding | None:
        """Return the embeddings, unless some users have none that was trained."""
        if untrained(self.seen, data).any():
            return None
        return self.model.embedding(data, kernel, threads)

    def scorer(
        self, data: MatchingData, kernel: Kernel, threads: int = 1
    ) -> Callable[[Ints], NDArray[np.float64]]:
        """Return the scores of the model, or numbers of users for those that it does not know."""
        score = self.model.scorer(data, kernel, threads)
        unknown = untrained(self.seen, data)
        if not unknown.any():
            return score
        counts = popularity(self.seen, data)

        def scores(queries: Ints) -> NDArray[np.float64]:
            rows = np.array(score(queries), dtype=np.float64)
            rows[unknown[queries]] = counts
            return rows

        return scores


def untrained(seen: SeenItems, data: MatchingData) -> NDArray[np.bool_]:
    """Return which queries have no positives in the training data."""
    trained = seen.user_ids[np.diff(seen.positives.indptr) > 0]
    if trained.dtype.kind != data.query_ids.dtype.kind:
        return np.zeros(data.n_queries, np.bool_)
    return ~np.isin(data.query_ids, trained)


def popularity(seen: SeenItems, data: MatchingData) -> NDArray[np.float64]:
    """Return how many users of the training data have each document."""
    counts = np.bincount(seen.positives.indices, minlength=seen.item_ids.size)
    number = dict(zip(seen.item_ids.tolist(), counts.tolist(), strict=True))
    return np.array([float(number.get(name, 0)) for name in data.document_ids.tolist()])


def with_fallback(model: MatchingModel, seen: SeenItems | None) -> MatchingModel:
    """Return the model, with the fallback if the positives of the training data are known.

    Users with features need none: their embeddings are made of features that were trained.
    """
    if seen is None or seen.positives is None or seen.users is not None:
        return model
    return WithFallback(model, seen)  # type: ignore[return-value]
