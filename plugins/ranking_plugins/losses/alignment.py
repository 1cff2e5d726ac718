"""Alignment: large scores for pairs with clicks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.parameters import boolean, number


@dataclasses.dataclass
class Alignment(Loss):
    """``-sum r * score``: the negative alignment of scores and responses (Wu, Lu and Li, 2013).

    It is not bounded, so the regularizer has to bound the parameters. Negative relevance counts as
    0.

    Parameters
    ----------
    per_query : bool
        Whether all queries have the same weight, each as the mean over its documents; else all
        pairs have the same weight.
    log : bool
        Whether the response is log(1 + r), which reduces the weight of frequent pairs.
    query_degree, document_degree : float
        Exponents of degree normalization: a response is divided by these powers of the sums of
        responses of its query and of its document. With 0.5 for both, M is the normalized adjacency
        matrix of graph filters, in which popular documents do not dominate.
    """

    name: ClassVar[str] = "alignment"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"linear"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": "the loss is a sum over positives, not a function of the margin of a pair",
        "coordinate": "the loss is linear along every weight, without a minimum",
    }

    per_query: bool = boolean(True)
    log: bool = boolean(False)
    query_degree: float = number(0.0, minimum=0.0, maximum=1.0)
    document_degree: float = number(0.0, minimum=0.0, maximum=1.0)

    @property
    def degrees(self) -> tuple[float, float]:
        """The exponents of degree normalization, of queries and of documents."""
        return self.query_degree, self.document_degree

    def pair_weights(self, relevance: Array) -> Array:
        """Return the responses."""
        responses: Array = np.maximum(relevance, 0.0)
        return np.log1p(responses) if self.log else responses
