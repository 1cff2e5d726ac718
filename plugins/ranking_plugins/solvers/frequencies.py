"""The frequency of each row of embeddings, for penalties that weigh rows by it.

The frequency of a query is the share of the positives that are its own. That of a document is the
share of the positives that are this document, plus 1 / (number of documents): each positive comes
with a negative, which counts as sampled uniformly. A row of a feature has the sum over those that
have the feature. So ``sum_r c_r ||w_r||**2`` is the mean over triplets of the squared norms of what
a triplet uses, if queries and documents are their own features.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ranking.data.matching_data import MatchingData
from ranking.data.triplets import positive_lists
from ranking.kernels.contract import Csr, Floats, Singles
from ranking.kernels.factored import FactoredInputs
from ranking.models.factored import Factored


def row_frequencies(
    model: Factored, data: MatchingData, inputs: FactoredInputs
) -> tuple[Singles, Singles, Singles]:
    """Return the frequencies of the rows of U, V and S."""
    queries, documents = _frequencies(data)
    of_queries = _by_feature(queries, inputs.features.queries, model.U.shape[0])
    of_documents = _by_feature(documents, inputs.features.documents, model.V.shape[0])
    contexts = np.zeros(0)
    if inputs.features.contexts is not None:  # S is for both sides
        own = _by_feature(queries, inputs.features.contexts, model.V.shape[0])
        contexts = own + of_documents
    return (
        of_queries.astype(np.float32),
        of_documents.astype(np.float32),
        contexts.astype(np.float32),
    )


def _frequencies(data: MatchingData) -> tuple[Floats, Floats]:
    """Return those of queries and documents."""
    lists = positive_lists(data)
    queries = np.zeros(data.n_queries)
    documents = np.full(data.n_documents, 1.0 / max(data.n_documents, 1))
    own = lists.own_document[lists.queries]  # a query that is a document is not its own positive
    sizes = np.diff(lists.member_ptr)
    counts = sizes[lists.list_of[lists.queries]] - (own >= 0)
    total = float(counts.sum())
    if total == 0.0:
        return queries, documents
    queries[lists.queries] = counts / total
    uses = np.bincount(lists.list_of[lists.queries], minlength=sizes.size)
    positives = np.bincount(lists.members, np.repeat(uses, sizes), minlength=data.n_documents)
    positives -= np.bincount(own[own >= 0], minlength=data.n_documents)
    return queries, documents + positives / total


def _by_feature(of_rows: Floats, features: Csr | None, n_features: int) -> Floats:
    """Sum numbers of rows over those that have each feature; without features, return them."""
    if features is None:
        return of_rows
    have = sp.csr_array(
        ((features.data != 0.0).astype(np.float64), features.indices, features.indptr),
        shape=(of_rows.size, n_features),
    )
    summed: Floats = have.T @ of_rows
    return summed
