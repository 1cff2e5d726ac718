"""Fold in new queries: embeddings for queries that were not in the training data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy import sparse

from ranking.contracts.loss import Loss, PairwiseLoss, SharedNegativesLoss, SupportsFoldIn
from ranking.contracts.model import Embedding
from ranking.contracts.regularizer import Regularizer
from ranking.data.exclusions import Pairs, pattern
from ranking.data.matching_data import MatchingData
from ranking.errors import CombinationError, DataError
from ranking.inference.fold_in_shared import fold_in_shared
from ranking.kernels.contract import Ints, Singles
from ranking.kernels.factored import FactoredInputs, FactoredWeights
from ranking.kernels.sampling import PositiveLists, TripletSampler
from ranking.models.factored import Factored, unit_rows

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

PASSES = 30
"""Steps for each positive of a new query."""

LEARNING_RATE = 0.05
"""Of Adagrad, as in training; larger values overshoot."""

BLOCK = 64
"""Steps per kernel call."""


def fold_in(
    embedding: Embedding,
    lists: PositiveLists,
    loss: Loss,
    kernel: Kernel,
    *,
    regularizer: Regularizer | None = None,
    seed: int = 0,
    threads: int = 1,
) -> Singles:
    """Train an embedding for each new query from its positives, with the documents fixed.

    The time is linear in the number of positives.

    Parameters
    ----------
    embedding : Embedding
        Of the documents; its queries are not used.
    lists : PositiveLists
        The positives of the new queries.
    regularizer : Regularizer, optional
        Of the embeddings, for a loss that folds in by itself.
    """
    if isinstance(loss, SupportsFoldIn):
        counts = np.diff(lists.member_ptr)
        parts = (np.ones(int(counts.sum()), np.float32), lists.members, lists.member_ptr)
        pairs = sparse.csr_array(parts, shape=(counts.size, embedding.documents.shape[0]))
        pairs.sort_indices()
        return loss.fold_in(embedding.documents, pairs, regularizer, kernel, threads)
    if isinstance(loss, SharedNegativesLoss):
        return fold_in_shared(embedding, lists, loss, kernel, seed, threads)
    if "pairwise" not in loss.interfaces:
        raise CombinationError(
            f"loss {loss.name!r} has no pairwise interface, so it cannot fold in new queries; "
            "train with hinge, warp or bpr."
        )
    pair = cast(PairwiseLoss, loss)
    documents, n_queries = embedding.documents, lists.list_of.size
    width = documents.shape[1]
    none: Singles = np.zeros((0, width), np.float32)
    U: Singles = np.zeros((n_queries, width), np.float32)
    weights = FactoredWeights(kernel, (U, documents.copy(), none, embedding.biases.copy()))
    sides = FactoredInputs(n_queries, documents.shape[0])
    positives, place = loss.positives
    ranks = pair.rank_weight(np.arange(documents.shape[0])).astype(np.float32)
    squares = np.ones_like(U)
    total = PASSES * int(np.diff(lists.member_ptr)[lists.list_of].sum())
    for first in range(0, total, BLOCK):
        count = min(BLOCK, total - first)
        steps = TripletSampler(lists, seed, first, count, pair.trials, positives)
        triplets, margins, violations = weights.sample(
            sides,
            steps,
            rank_weights=ranks,
            n_positives=positives,
            positive_rank=place,
            threads=threads,
        )
        slopes = violations * pair.pairwise_slope(margins.astype(np.float64)).astype(np.float32)
        _step(U, squares, documents, triplets, slopes)
    return U


def fold_in_history(
    model: Factored, data: MatchingData, lists: PositiveLists, kernel: Kernel, threads: int = 1
) -> Singles:
    """Return the mean embedding of the positives of each new query, which no training changes.

    Parameters
    ----------
    model : Factored
        With a history.
    data : MatchingData
        Whose documents the positives are.
    """
    documents = kernel.factored.embeddings(model.feature_rows(data, 1), model.V, threads)
    counts = np.diff(lists.member_ptr)
    shares = np.repeat((1.0 / np.maximum(counts, 1)).astype(np.float32), counts)
    shape = (counts.size, documents.shape[0])
    rows = sparse.csr_array((shares, lists.members, lists.member_ptr), shape=shape)
    means: Singles = kernel.factored.embeddings(rows, documents, threads)
    return unit_rows(means)[0] if model.score == "cosine" else means


def _step(
    U: Singles, squares: Singles, documents: Singles, triplets: Ints, slopes: Singles
) -> None:
    """Take an Adagrad step for the queries of these triplets only."""
    queries, row = np.unique(triplets[:, 0], return_inverse=True)
    slope = slopes[:, None] * (documents[triplets[:, 1]] - documents[triplets[:, 2]])
    gradient = np.zeros((queries.size, U.shape[1]), np.float32)
    np.add.at(gradient, row, slope)
    np.add.at(squares, triplets[:, 0], slope * slope)
    U[queries] -= np.float32(LEARNING_RATE) * gradient / np.sqrt(squares[queries])


def positives_of_new_queries(
    data: MatchingData, positives: Sequence[Sequence[Any]]
) -> tuple[PositiveLists, Pairs]:
    """Return the positives of new queries, as lists to sample from and as exclusions."""
    positions = {name: position for position, name in enumerate(data.document_ids.tolist())}
    rows, columns = [], []
    for query, names in enumerate(positives):
        unknown = [name for name in names if name not in positions]
        if unknown:
            raise DataError(
                f"new query {query} has the positive {unknown[0]!r}, which is not a document of "
                "the data; give ids of documents."
            )
        rows += [query] * len(names)
        columns += [positions[name] for name in names]
    pairs = pattern(np.array(rows, np.int64), np.array(columns, np.int64), len(positives))
    sizes = np.diff(pairs[0])
    if not sizes.size or sizes.min() < 1 or sizes.max() >= data.n_documents:
        raise DataError(
            "each new query must have at least one positive, and not all documents; leave out "
            "the queries that do not."
        )
    lists = PositiveLists(
        np.arange(sizes.size),
        np.arange(sizes.size),
        *pairs,
        np.full(sizes.size, -1),
        data.n_documents,
        query_sums=np.cumsum(sizes),
    )
    return lists, pairs
