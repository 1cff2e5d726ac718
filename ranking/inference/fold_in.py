"""Vectors for queries that come after training, from the documents that they match."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ranking.contracts.loss import Loss, PairwiseLoss
from ranking.contracts.model import Embedding
from ranking.data.exclusions import Pairs, pattern
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError
from ranking.kernels.contract import Ints, Singles
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.sampling import PositiveLists, TripletSampler

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

PASSES = 30
"""TripletSampler for each match of a new query."""

RATE = 0.05
"""Of Adagrad, as in training: more has overshot."""

BLOCK = 64


def fold_in(
    embedding: Embedding,
    lists: PositiveLists,
    loss: Loss,
    kernel: Kernel,
    *,
    seed: int = 0,
    threads: int = 1,
) -> Singles:
    """Return a vector for each new query by the loss of its matches; documents stay as they are.

    Parameters
    ----------
    embedding : Embedding
        Of the documents; its queries are not looked at.
    lists : PositiveLists
        Which documents the new queries match.
    """
    if "pairwise" not in loss.interfaces:
        raise CombinationError(
            f"loss {loss.name!r} is no function of a margin, so nothing can be folded in by it; "
            "train with hinge, warp or bpr."
        )
    pair = cast(PairwiseLoss, loss)
    documents, n_queries = embedding.documents, lists.list_of.size
    width = documents.shape[1]
    none: Singles = np.zeros((0, width), np.float32)
    U: Singles = np.zeros((n_queries, width), np.float32)
    weights = FactoredWeights(kernel, (U, documents.copy(), none, embedding.biases.copy()))
    objects = FactoredInputs(n_queries, documents.shape[0])
    positives, place = loss.positives
    ranks = pair.rank_weight(np.arange(documents.shape[0])).astype(np.float32)
    squares = np.ones_like(U)
    total = PASSES * int(np.diff(lists.member_ptr)[lists.list_of].sum())
    for first in range(0, total, BLOCK):
        count = min(BLOCK, total - first)
        draws = TripletSampler(lists, seed, first, count, pair.trials, positives)
        chosen, margins, found = weights.sample(
            objects,
            draws,
            rank_weights=ranks,
            n_positives=positives,
            positive_rank=place,
            threads=threads,
        )
        slopes = found * pair.pairwise_slope(margins.astype(np.float64)).astype(np.float32)
        _step(U, squares, documents, chosen, slopes)
    return U


def _step(U: Singles, squares: Singles, documents: Singles, chosen: Ints, slopes: Singles) -> None:
    """Take an Adagrad step for the queries only."""
    apart = slopes[:, None] * (documents[chosen[:, 1]] - documents[chosen[:, 2]])
    gradient = np.zeros_like(U)
    np.add.at(gradient, chosen[:, 0], apart)
    np.add.at(squares, chosen[:, 0], apart * apart)
    U -= np.float32(RATE) * gradient / np.sqrt(squares)


def new_matches(
    data: MatchingData, matches: Sequence[Sequence[Any]]
) -> tuple[PositiveLists, Pairs]:
    """Return which documents new queries match, to draw from, and the same as pairs."""
    places = {name: place for place, name in enumerate(data.document_ids.tolist())}
    rows, columns = [], []
    for query, names in enumerate(matches):
        strangers = [name for name in names if name not in places]
        if strangers:
            raise DataError(
                f"new query {query} matches {strangers[0]!r}, which is no document; give ids of "
                "the documents."
            )
        rows += [query] * len(names)
        columns += [places[name] for name in names]
    made = pattern(np.array(rows, np.int64), np.array(columns, np.int64), len(matches))
    sizes = np.diff(made[0])
    if not sizes.size or sizes.min() < 1 or sizes.max() >= data.n_documents:
        raise DataError(
            "each new query must match a document, and not all of them; leave out those that do "
            "not."
        )
    lists = PositiveLists(
        np.arange(sizes.size),
        np.arange(sizes.size),
        *made,
        np.full(sizes.size, -1),
        data.n_documents,
        query_sums=np.cumsum(sizes),
    )
    return lists, made
