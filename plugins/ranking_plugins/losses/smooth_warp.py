"""Smooth WARP: the logarithm of a differentiable rank of the positive."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.loss import Array, Loss, LossInterface
from ranking_plugins.losses.pairwise import hinge_curvature
from ranking_plugins.losses.whole_lists import ValueLists

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.kernels.kernel import Kernel


@dataclasses.dataclass
class SmoothWARP(Loss):
    """``log(1 + sum_j max(0, 1 - z_j))`` over the negatives j of a positive, margins z_j.

    WARP weights a violation by L(rank) = 1 + 1/2 + ... + 1/rank, about log(1 + rank), at a sampled
    estimate of the rank. Here the sum of the violations takes the place of the rank, so the loss is
    continuous, and every solver minimizes the same objective. The tangent of the logarithm is an
    upper bound: a hinge whose weight is 1 / (1 + sum_j max(0, 1 - z_j)), small for positives that
    rank far below, so that training concentrates on the top of the list.
    """

    name: ClassVar[str] = "smooth-warp"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    is_smooth: ClassVar[bool] = False

    def margin_values(self, margins: Array) -> Array:
        """Return log(1 + sum of violations) of each list."""
        values: Array = np.log1p(np.maximum(0.0, 1.0 - margins).sum(axis=1))
        return values

    def margin_slopes(self, margins: Array) -> Array:
        """Return minus the weight of the list where the margin is violated, else 0."""
        return np.where(margins < 1.0, -_weights(margins), 0.0)

    def margin_curvatures(self, margins: Array) -> Array:
        """Return those of the hinge, times the weight of the list."""
        return _weights(margins) * hinge_curvature(margins)

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the sum over all documents that must outrank others."""
        violations, above = _violations(scores, grades)
        return float(np.log1p(violations[above].sum(axis=1)).sum())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative with respect to each score."""
        violations, _ = _violations(scores, grades)
        weights = 1.0 / (1.0 + violations.sum(axis=1, keepdims=True))
        pushes = np.where(violations > 0.0, weights, 0.0)
        slopes: Array = pushes.sum(axis=0) - pushes.sum(axis=1)
        return slopes

    def whole_lists(self, data: JudgedLists, kernel: Kernel) -> ValueLists:
        """Prepare judged lists: the mean is that over documents that must outrank others."""
        return ValueLists.of(self, data, by_document=True)


def _weights(margins: Array) -> Array:
    weights: Array = 1.0 / (1.0 + np.maximum(0.0, 1.0 - margins).sum(axis=1, keepdims=True))
    return weights


def _violations(scores: Array, grades: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Return max(0, 1 - z_ij) for each i of a higher grade than j, and which i outrank any."""
    outranks = grades[:, None] > grades[None, :]
    violations = np.where(outranks, np.maximum(0.0, 1.0 - scores[:, None] + scores), 0.0)
    return violations, np.asarray(outranks.any(axis=1))
