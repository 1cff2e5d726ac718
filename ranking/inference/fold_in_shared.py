"""Fold in new queries by a loss whose positives share their negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ranking.contracts.loss import SharedNegativesLoss
from ranking.contracts.model import Embedding
from ranking.kernels.contract import Exclusions, Ints, SharedLists, Singles
from ranking.kernels.sampling import PositiveLists
from ranking.kernels.shared_lists import SharedTrainingLoss

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel

STEPS, RATE = 60, 0.1
"""Steps of all new queries together, and the learning rate of Adagrad."""

NEGATIVES = 1024
"""Sampled for each step; with fewer documents, all of them."""

QUERIES = 256
"""New queries that are trained at a time."""

UNIT = 1e-4
"""Embeddings whose squared norms differ from 1 by less than this are those of a cosine."""


def fold_in_shared(
    embedding: Embedding,
    lists: PositiveLists,
    loss: SharedNegativesLoss,
    kernel: Kernel,
    seed: int,
    threads: int,
) -> Singles:
    """Train an embedding for each new query from its positives, with the documents fixed.

    It starts as the mean of its positives. If the documents have unit norm, as those of a model of
    cosines have, so have the new queries.
    """
    documents = embedding.documents
    norms = np.einsum("ij,ij->i", documents, documents)
    cosine = bool((np.abs(norms[norms > 0.0] - 1.0) < UNIT).all())
    pointers = lists.member_ptr
    result = np.zeros((pointers.size - 1, documents.shape[1]), np.float32)
    for start in range(0, result.shape[0], QUERIES):
        stop = min(start + QUERIES, result.shape[0])
        counts = np.diff(pointers[start : stop + 1])
        members = lists.members[pointers[start] : pointers[stop]]
        rows = np.repeat(np.arange(stop - start), counts)
        U = np.zeros((stop - start, documents.shape[1]), np.float32)
        np.add.at(U, rows, documents[members])
        U /= counts[:, None].astype(np.float32)
        squares: Singles = np.full_like(U, 1e-8)
        for step in range(STEPS):
            U = _unit(U) if cosine else U
            sampled = _negatives(kernel, seed, step, documents.shape[0])
            arguments = _lists(embedding, U, (rows, members, counts), sampled, loss)
            gradients = kernel.shared_lists.gradients(*arguments, threads)
            gradient = np.zeros_like(U)
            np.add.at(gradient, rows, gradients.queries)
            if cosine:
                gradient -= np.einsum("ij,ij->i", gradient, U)[:, None] * U
            squares += gradient * gradient
            U -= np.float32(RATE) * gradient / np.sqrt(squares)
        result[start:stop] = _unit(U) if cosine else U
    return result


def _lists(
    embedding: Embedding,
    U: Singles,
    positives: tuple[Ints, Ints, Ints],
    sampled: Ints,
    loss: SharedNegativesLoss,
) -> tuple[SharedLists, SharedTrainingLoss]:
    """Return one list per positive, weighted so that each query counts the same."""
    rows, members, counts = positives
    training = SharedTrainingLoss(*loss.shared_list_form(sampled.size))
    biases = embedding.biases
    biases = biases if biases.size else np.zeros(embedding.documents.shape[0], np.float32)
    offsets = np.float32(training.scale) * biases
    n = embedding.documents.shape[0]
    keys = rows * n + members
    excluded = [np.flatnonzero(np.isin(row * n + sampled, keys)) for row in range(counts.size)]
    sizes = np.array([part.size for part in excluded])[rows]
    columns = np.concatenate([excluded[row] for row in rows.tolist()])
    lists = SharedLists(
        U[rows],
        np.ascontiguousarray(embedding.documents[members]),
        np.ascontiguousarray(embedding.documents[sampled]),
        offsets[members],
        offsets[sampled],
        (1.0 / counts[rows]).astype(np.float32),
        Exclusions(np.concatenate(([0], np.cumsum(sizes))), columns.astype(np.int64)),
    )
    return lists, training


def _negatives(kernel: Kernel, seed: int, step: int, n_documents: int) -> Ints:
    if n_documents <= NEGATIVES:
        return np.arange(n_documents)
    return kernel.random.below(seed, step * NEGATIVES, NEGATIVES, n_documents)


def _unit(matrix: Singles) -> Singles:
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix))
    unit = matrix / np.where(norms > 0.0, norms, np.float32(1.0))[:, None]
    return unit.astype(np.float32)
