"""Alignment: scores should be large where the clicks are."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking.contracts.parameters import boolean


@dataclasses.dataclass
class Alignment(Loss):
    """``-sum r * score``: minus how well scores and responses go together (Wu, Lu and Li, 2013).

    Scores could grow without end, so the regularizer has to bound the parameters. A relevance
    below 0 counts as 0.

    Parameters
    ----------
    per_query : bool
        Whether the sum is a mean over queries of the mean over their documents; else every pair
        counts by itself.
    log : bool
        Whether the response is log(1 + r), so that popular queries count less.
    """

    name: ClassVar[str] = "alignment"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"linear"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": "the loss is a sum over matches alone, and no function of how a match stands "
        "against another document",
        "coordinate": "the loss is a straight line along every weight, without a minimum",
    }

    per_query: bool = boolean(True)
    log: bool = boolean(False)

    def pair_weights(self, relevance: Array) -> Array:
        """Return the responses."""
        responses: Array = np.maximum(relevance, 0.0)
        return np.log1p(responses) if self.log else responses
