"""The squared error of a factorized matrix: the objective of SVD and NMF."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar

from ranking.contracts.loss import Array, Loss, LossInterface


@dataclasses.dataclass
class Squared(Loss):
    """``sum (r - f)**2`` over all pairs of a query and a document; r is 0 where none is stored.

    It has no interface: it couples all pairs, and its solvers minimize it as a whole.
    """

    name: ClassVar[str] = "squared"
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": "the loss is the error of single scores, not a function of a margin",
        "coordinate": "the loss is the error of a relevance matrix, which judged lists do not have",
        "linear": "the loss is not linear in the embeddings of a side, so no half-step is the "
        "closed maximum of a regularizer; alternating least squares converge to singular vectors "
        "(Eckart and Young, 1936), which svd computes directly",
    }

    def factored_value(self, relevance: Any, queries: Array, documents: Array) -> float:
        """Return the loss of ``f = queries @ documents.T``, in time linear in the non-zeros.

        Parameters
        ----------
        relevance : scipy.sparse.csr_array
        queries, documents : arrays
            One row per query or document.
        """
        return expanded(relevance, documents * (relevance.T @ queries), queries, documents)


def expanded(relevance: Any, products: Array, queries: Array, documents: Array) -> float:
    """Return ``|R|^2 - 2 <R, Q D'> + <Q'Q, D'D>``, where the products sum to ``<R, Q D'>``."""
    gram = (queries.T @ queries) * (documents.T @ documents)
    value = (relevance.data * relevance.data).sum() - 2.0 * products.sum() + gram.sum()
    return max(float(value), 0.0)
