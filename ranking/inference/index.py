"""`SeenIndex`: what recommendations for users of the training data share, computed once."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.model import Embedding, MatchingModel
from ranking.data.exclusions import Ints, Pairs, exclusions_at
from ranking.data.seen import SeenItems
from ranking.errors import DataError
from ranking.inference.retrieval import TopK, order_by_id
from ranking.kernels.kernel import Kernel


class SeenIndex:
    """Users, items and their embeddings, ready for one request after the other.

    Each part is computed when it is first needed and kept: a request for one user then costs one
    pass over the embeddings of the items.

    Parameters
    ----------
    seen : SeenItems
    model : MatchingModel
    kernel : Kernel
    threads : int
    """

    def __init__(
        self, seen: SeenItems, model: MatchingModel, kernel: Kernel, threads: int = 1
    ) -> None:
        self.seen, self.model, self.kernel, self.threads = seen, model, kernel, threads

    @functools.cached_property
    def _positions(self) -> tuple[dict[Any, int], dict[Any, int]]:
        users, items = self.seen.user_ids.tolist(), self.seen.item_ids.tolist()
        return {one: at for at, one in enumerate(users)}, {one: at for at, one in enumerate(items)}

    @functools.cached_property
    def _embedding(self) -> Embedding | None:
        data = self.seen.data(np.arange(self.seen.user_ids.size))
        return self.model.embedding(data, self.kernel, self.threads)

    @functools.cached_property
    def _order(self) -> tuple[Ints, Ints]:
        return order_by_id(self.seen.item_ids, None)

    @functools.cached_property
    def _items(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Embeddings and biases of the items, in the order of their ids."""
        embedding, order = self._embedding, self._order[0]
        assert embedding is not None
        biases = embedding.biases[order] if embedding.biases.size else embedding.biases
        if (order == np.arange(order.size)).all():
            return embedding.documents, biases
        return np.ascontiguousarray(embedding.documents[order]), biases

    @functools.cached_property
    def _unit_items(self) -> NDArray[np.float32]:
        """Embeddings of the items divided by their length, in the order of their ids."""
        items = self._items[0]
        norms = np.linalg.norm(items, axis=1, keepdims=True)
        return (items / np.where(norms > 0.0, norms, 1.0)).astype(np.float32)

    @property
    def has_embeddings(self) -> bool:
        """Whether the model has embeddings, which this index is for."""
        return self._embedding is not None

    def users(self, ids: Iterable[Any]) -> Ints:
        """Return the positions of users, or refuse one that the model does not know."""
        return _known("user", self._positions[0], ids, "fold_in or rank take new users")

    def items(self, ids: Iterable[Any]) -> Ints:
        """Return the positions of items, or refuse one that the model does not know."""
        return _known("item", self._positions[1], ids, "train with it, or leave it out")

    def recommend(
        self, users: Ints, k: int, exclusions: Pairs | None, queries: Ints | None
    ) -> Iterator[TopK]:
        """Yield the k best items of users.

        Parameters
        ----------
        users : int64 array
            Positions of the users that results are about.
        exclusions : pair of int64 arrays, optional
            Items to leave out for each of these users.
        queries : int64 array, optional
            Positions in `users` of those to answer; by default all.
        """
        embedding = self._embedding
        assert embedding is not None
        items, biases = self._items
        order, position = self._order
        selection = np.arange(users.size) if queries is None else queries
        for start in range(0, selection.size, BLOCK):
            block = selection[start : start + BLOCK]
            rows = np.ascontiguousarray(embedding.queries[users[block]])
            left_out = None if exclusions is None else exclusions_at(exclusions, block, position)
            best, scores = self.kernel.factored.top_k(
                rows, items, biases, k, left_out, self.threads
            )
            yield from _lists(block, order, best, scores)

    def similar(self, positions: Ints, k: int, queries: Ints | None) -> Iterator[TopK]:
        """Yield the k items with the largest cosine with each item, itself excluded."""
        units = self._unit_items
        order, position = self._order
        selection = np.arange(positions.size) if queries is None else queries
        none = np.zeros(0, np.float32)
        for start in range(0, selection.size, BLOCK):
            block = selection[start : start + BLOCK]
            at = position[positions[block]]
            left_out = np.arange(at.size + 1), at
            rows = np.ascontiguousarray(units[at])
            best, scores = self.kernel.factored.top_k(rows, units, none, k, left_out, self.threads)
            yield from _lists(block, order, best, scores)


BLOCK = 1024
"""Lists that are computed in one kernel call."""


def _lists(block: Ints, order: Ints, best: Ints, scores: Any) -> Iterator[TopK]:
    for query, ranked, values in zip(block.tolist(), best, scores, strict=True):
        filled = ranked >= 0
        yield TopK(query, order[ranked[filled]], values[filled].astype(np.float64))


def _known(what: str, positions: dict[Any, int], selection: Iterable[Any], remedy: str) -> Ints:
    if isinstance(selection, str | bytes) or not isinstance(selection, Iterable):
        raise DataError(
            f"{what}_ids is {selection!r}; give a list of ids, such as [{selection!r}]."
        )
    names = list(selection)
    unknown = [name for name in names if name not in positions]
    if unknown:
        example = f", only others such as {next(iter(positions))!r}" if positions else ""
        raise DataError(f"the model does not know {what} {unknown[0]!r}{example}; {remedy}.")
    if len(set(names)) < len(names):
        raise DataError(f"{what}_ids has {what} twice; give each once.")
    return np.array([positions[name] for name in names], np.int64)
