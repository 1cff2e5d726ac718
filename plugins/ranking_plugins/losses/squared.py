"""The squared error of all pairs: the objective of SVD, NMF, iALS, EASE and SLIM."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.parameters import number
from ranking.kernels.alternating import AlternatingMatrix
from ranking.kernels.contract import SquaredRule
from ranking_plugins.regularizers.polar import gram

if TYPE_CHECKING:
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class Squared(Loss):
    """``sum w (r - f)**2`` over all pairs of a query and a document; r is 0 where none is stored.

    The weight w is `observed` for the stored pairs and `unobserved` for all others (Hu, Koren and
    Volinsky, 2008). The loss has no interface: it couples all pairs, and its solvers minimize it as
    a whole.

    Parameters
    ----------
    observed : float
        The weight of stored pairs.
    unobserved : float or "auto"
        The weight of the others. Only the alternating solver takes another than 1 (iALS). "auto" is
        the root of the share of stored pairs: .03 if one pair in a thousand is stored.
    """

    name: ClassVar[str] = "squared"
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": "the loss is the error of single scores, not a function of a margin",
        "coordinate": "the loss is the error of a relevance matrix, which judged lists do not have",
        "linear": "the loss is not linear in the embeddings of a side, so no half-step is the "
        "closed maximum of a regularizer; it is a least-squares problem of each row, with l2",
    }

    observed: float = number(1.0, above=0.0)
    unobserved: float | str = number(1.0, above=0.0, words=("auto",))

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the weight of unobserved pairs that suits the density of the data."""
        relevance = getattr(problem.data, "relevance", None)
        if self.unobserved != "auto" or relevance is None:
            return {}
        share = relevance.nnz / math.prod(relevance.shape)
        return {"unobserved": float(f"{math.sqrt(share):.3g}")}

    @property
    def weighted(self) -> bool:
        """Whether observed and unobserved pairs have different weights, or one other than 1."""
        return (self.observed, self.unobserved) != (1.0, 1.0)

    def rule(self, steps: int) -> SquaredRule:
        """Return the weights, and the steps of conjugate gradients per row, for a kernel."""
        return SquaredRule(self.observed, float(self.unobserved), steps)

    def factored_value(self, relevance: Any, queries: Array, documents: Array) -> float:
        """Return the loss of ``f = queries @ documents.T``, in time linear in the non-zeros.

        Parameters
        ----------
        relevance : scipy.sparse.csr_array
        queries, documents : arrays
            One row per query or document.
        """
        if not self.weighted:
            return expanded(relevance, documents * (relevance.T @ queries), queries, documents)
        pairs = relevance.tocoo()
        scores = (queries[pairs.row] * documents[pairs.col]).sum(axis=1)
        gram = (queries.T @ queries) * (documents.T @ documents)
        unobserved = float(self.unobserved)
        errors = self.observed * (pairs.data - scores) ** 2 - unobserved * scores**2
        return float(errors.sum() + unobserved * gram.sum())

    def fold_in(
        self,
        documents: NDArray[np.float32],
        pairs: Any,
        regularizer: Any,
        kernel: Kernel,
        threads: int,
    ) -> NDArray[np.float32]:
        """Return the embeddings with the least squared error, documents fixed."""
        counts = np.diff(pairs.indptr)
        strengths = getattr(regularizer, "row_strengths", np.zeros_like)(counts.astype(np.float64))
        width = documents.shape[1]
        queries = np.zeros((counts.size, width), np.float32)
        kernel.alternating.squared_half_step(
            AlternatingMatrix(pairs),
            documents,
            gram(documents, threads).astype(np.float32),
            self.rule(width),
            (strengths / 2.0).astype(np.float32),
            queries,
            threads,
        )
        return queries


def expanded(relevance: Any, products: Array, queries: Array, documents: Array) -> float:
    """Return ``|R|^2 - 2 <R, Q D'> + <Q'Q, D'D>``, where the products sum to ``<R, Q D'>``."""
    gram = (queries.T @ queries) * (documents.T @ documents)
    value = (relevance.data * relevance.data).sum() - 2.0 * products.sum() + gram.sum()
    return max(float(value), 0.0)
