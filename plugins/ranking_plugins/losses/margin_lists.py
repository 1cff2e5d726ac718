"""Lists of one positive and several negatives, by their margins: all lists in one call."""

from __future__ import annotations

import dataclasses
from typing import cast

import numpy as np

from ranking.contracts.loss import Array, Loss, MarginListLoss, PairwiseLoss


@dataclasses.dataclass(frozen=True)
class MeanOfPairs:
    """A pairwise loss as a loss of lists: the mean over the negatives."""

    loss: PairwiseLoss

    def margin_values(self, margins: Array) -> Array:
        """Return the mean loss of each list."""
        return self.loss.pairwise_value(margins).mean(axis=1)

    def margin_slopes(self, margins: Array) -> Array:
        """Return the derivative by each margin."""
        return self.loss.pairwise_slope(margins) / margins.shape[1]

    def margin_curvatures(self, margins: Array) -> Array:
        """Return the curvature of the loss's majorizer, or 1 if it does not know one."""
        curvature = getattr(self.loss, "pairwise_curvature", np.ones_like)
        return cast(Array, curvature(margins)) / margins.shape[1]


def margin_list_loss(loss: Loss) -> MarginListLoss:
    """Return a loss as one of lists of one positive and several negatives."""
    if "pairwise" in loss.interfaces:
        return MeanOfPairs(cast(PairwiseLoss, loss))
    return cast(MarginListLoss, loss)
