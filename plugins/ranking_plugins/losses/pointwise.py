"""Losses of single scores: the response of a pair against its score (SVDFeature)."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from ranking.contracts.loss import Array, Loss, LossInterface

_SINGLE = "the loss is a function of the score of one pair, and its response"


@dataclasses.dataclass
class Pointwise(Loss):
    """The base of losses of a score f and a response r."""

    compares_scores: ClassVar[bool] = False
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": _SINGLE,
        "listwise": _SINGLE,
        "coordinate": f"{_SINGLE} in a log of clicks, which judged lists do not have",
        "linear": f"{_SINGLE}, and not linear in either",
    }

    @abstractmethod
    def value(self, scores: Array, responses: Array) -> Array:
        """Return the loss of each pair."""

    @abstractmethod
    def slope(self, scores: Array, responses: Array) -> Array:
        """Return the derivative of the loss of each pair with respect to its score."""


@dataclasses.dataclass
class PointwiseSquared(Pointwise):
    """``(r - f)**2 / 2``."""

    name: ClassVar[str] = "pointwise-squared"

    def value(self, scores: Array, responses: Array) -> Array:
        """Return (r - f)**2 / 2."""
        half: Array = 0.5 * (responses - scores) ** 2
        return half

    def slope(self, scores: Array, responses: Array) -> Array:
        """Return f - r."""
        return scores - responses


@dataclasses.dataclass
class PointwiseLogistic(Pointwise):
    """``log(1 + exp(f)) - [r > 0] f``: whether a pair was clicked at all."""

    name: ClassVar[str] = "pointwise-logistic"

    def value(self, scores: Array, responses: Array) -> Array:
        """Return the cross entropy of [r > 0] and the sigmoid of f."""
        return np.logaddexp(0.0, scores) - np.where(responses > 0.0, scores, 0.0)

    def slope(self, scores: Array, responses: Array) -> Array:
        """Return the sigmoid of f minus [r > 0]."""
        sigmoid: Array = np.exp(-np.logaddexp(0.0, -scores))
        return sigmoid - (responses > 0.0)
