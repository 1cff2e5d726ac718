"""Synthetic texts: words by Zipf's law, and classes with words of their own."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking.kernels.sampling import PositiveLists

CLASSES = 20
OWN_WORDS = 0.3
"""Share of a text's words that come from its class."""


def make_texts(
    n_texts: int, n_words: int, seed: int = 0, per_text: int = 80
) -> tuple[sp.csr_array, NDArray[np.int64]]:
    """Texts of about `per_text` distinct words, float32 of unit length, and their labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n_texts)
    zipf = np.cumsum(1.0 / np.arange(1, n_words + 1))
    common = rng.permutation(n_words)
    special = rng.permutation(n_words)  # each class reads it from another place
    indptr, indices, data = [0], [], []
    for label in labels:
        length = int(per_text * rng.uniform(0.9, 1.65))
        rank = np.searchsorted(zipf, rng.random(length) * zipf[-1])
        own = special[(rank + label * (n_words // CLASSES)) % n_words]
        words, counts = np.unique(
            np.where(rng.random(length) < OWN_WORDS, own, common[rank]), return_counts=True
        )
        values = 1.0 + np.log(counts)
        indices.append(words)
        data.append(values / np.sqrt(np.sum(values * values)))
        indptr.append(indptr[-1] + words.size)
    columns = np.concatenate(indices).astype(np.int32)
    values = np.concatenate(data).astype(np.float32)
    return sp.csr_array((values, columns, np.array(indptr, np.int32)), (n_texts, n_words)), labels


def make_lists(labels: NDArray[np.int64]) -> PositiveLists:
    """Every text is a query, and positives the others of its class."""
    sizes = np.bincount(labels, minlength=CLASSES)
    return PositiveLists(
        queries=np.arange(labels.size),
        list_of=labels,
        member_ptr=np.concatenate(([0], np.cumsum(sizes))),
        members=np.argsort(labels, kind="stable"),
        own_document=np.arange(labels.size),
        n_documents=labels.size,
    )


def identity(n_words: int) -> sp.csr_array:
    """W = I in float32."""
    places = np.arange(n_words + 1, dtype=np.int32)
    return sp.csr_array(
        (np.ones(n_words, np.float32), places[:-1], places), shape=(n_words, n_words)
    )
