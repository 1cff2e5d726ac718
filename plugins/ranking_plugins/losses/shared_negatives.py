"""Losses of a positive against many negatives, which the positives of a block share.

With embeddings, SGD samples negatives once for a block of positives, so that scores are one matrix
product. With other models the softmax is a loss of sampled lists, as the domination loss.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from ranking.contracts.loss import Array, Loss, LossInterface, SharedForm, SharedListForm
from ranking.contracts.parameters import integer, number

NOT_INVARIANT = (
    "the loss depends on the level of the scores, not only on their differences; use model factored"
)


@dataclasses.dataclass
class Softmax(Loss):
    """``-log(exp(f_+ / T) / (exp(f_+ / T) + sum_j exp(f_j / T)))`` (sampled softmax).

    Of judged lists it is the cross entropy of the softmax with the uniform distribution over the
    relevant documents, which is ListNet's for binary grades.

    Parameters
    ----------
    temperature : float
        T. Small ones look at the best negatives only. With cosines (`factored:score=cosine`) the
        scores lie within -1 and 1, and 0.05 to 0.3 is useful.
    """

    name: ClassVar[str] = "softmax"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": "the loss compares a positive with all its negatives at once"
    }

    temperature: float = number(0.1, above=0.0)

    def shared_list_form(self, n_negatives: int) -> SharedListForm:
        """Return the softmax of scores over the temperature."""
        return SharedListForm(SharedForm.SOFTMAX, scale=1.0 / self.temperature)

    def shared_values(self, own: Array, others: Array) -> Array:
        """Return the loss of each list from its scaled scores; those left out are -inf."""
        values: Array = logsumexp(np.column_stack((own, others)), axis=1) - own
        return values

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the cross entropy of one list; 0 without relevant documents."""
        relevant = grades > 0.0
        if not relevant.any():
            return 0.0
        scaled = scores / self.temperature
        return float(logsumexp(scaled) - scaled[relevant].mean())

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return probability less target, over the temperature."""
        relevant = grades > 0.0
        if not relevant.any():
            return np.zeros(scores.shape)
        scaled = scores / self.temperature
        probabilities = np.exp(scaled - logsumexp(scaled))
        slopes: Array = (probabilities - relevant / relevant.sum()) / self.temperature
        return slopes


@dataclasses.dataclass
class SoftmaxAtK(Loss):
    """The softmax loss of each positive, weighted by whether it is near the top k (SL@K).

    The weight is ``1 / (1 + exp(-(f_+ - b) / weight_temperature))`` with the k-th largest score b
    of the query over all documents (Yang et al., 2025). b is computed again every few epochs, and
    the weight counts as a constant in the gradient.

    Parameters
    ----------
    temperature : float
        As of `Softmax`.
    k : int
        The number of documents at the top.
    weight_temperature : float
        How sharply weights fall below the top k.
    refresh : int
        The epochs after which the k-th largest scores are computed again.
    """

    name: ClassVar[str] = "softmax-at-k"
    unsupported: ClassVar[Mapping[LossInterface, str]] = dict.fromkeys(
        ("pairwise", "listwise", "coordinate", "linear"),
        "the weights need the k-th largest score of all documents, which solver sgd computes for "
        "embeddings",
    )

    temperature: float = number(0.1, above=0.0)
    k: int = integer(20, minimum=1)
    weight_temperature: float = number(1.0, above=0.0)
    refresh: int = integer(5, minimum=1)

    def shared_list_form(self, n_negatives: int) -> SharedListForm:
        """Return the softmax of scores over the temperature."""
        return SharedListForm(SharedForm.SOFTMAX, scale=1.0 / self.temperature)

    def shared_values(self, own: Array, others: Array) -> Array:
        """Return the softmax loss of each list, without its weight."""
        values: Array = logsumexp(np.column_stack((own, others)), axis=1) - own
        return values

    def top_k_weights(self, own: Array, thresholds: Array) -> Array:
        """Return the weight of each list, from scores and the k-th largest scores."""
        weights: Array = expit((own - thresholds) / self.weight_temperature)
        return weights


@dataclasses.dataclass
class CCL(Loss):
    """``1 - f_+ + weight / n * sum_j max(0, f_j - margin)`` (SimpleX, Mao et al., 2021).

    It is meant for cosines: `factored:score=cosine`.

    Parameters
    ----------
    margin : float
        The score below which a negative counts nothing.
    weight : float
        Of the mean over the negatives.
    """

    name: ClassVar[str] = "ccl"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {"pairwise": NOT_INVARIANT}
    compares_scores: ClassVar[bool] = False

    margin: float = number(0.4)
    weight: float = number(150.0, above=0.0)

    def shared_list_form(self, n_negatives: int) -> SharedListForm:
        """Return the contrastive form."""
        weight = self.weight / n_negatives
        return SharedListForm(SharedForm.COSINE_CONTRASTIVE, threshold=self.margin, weight=weight)

    def shared_values(self, own: Array, others: Array) -> Array:
        """Return the loss of each list from its scores; those left out are -inf."""
        excess = np.maximum(others - self.margin, 0.0).sum(axis=1) / others.shape[1]
        values: Array = 1.0 - own + self.weight * excess
        return values

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the mean over the relevant documents of one list."""
        relevant = grades > 0.0
        if not relevant.any():
            return 0.0
        excess = np.maximum(scores[~relevant] - self.margin, 0.0).sum() / max((~relevant).sum(), 1)
        return float(1.0 - scores[relevant].mean() + self.weight * excess)

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of `listwise_value`."""
        relevant = grades > 0.0
        if not relevant.any():
            return np.zeros(scores.shape)
        above = ~relevant & (scores > self.margin)
        slopes: Array = self.weight / max((~relevant).sum(), 1) * above - relevant / relevant.sum()
        return slopes


@dataclasses.dataclass
class BCE(Loss):
    """``log(1 + exp(-f_+)) + weight / n * sum_j log(1 + exp(f_j))``: binary cross entropy.

    Parameters
    ----------
    weight : float
        Of the mean over the negatives.
    """

    name: ClassVar[str] = "bce"
    interfaces: ClassVar[frozenset[LossInterface]] = frozenset({"listwise"})
    unsupported: ClassVar[Mapping[LossInterface, str]] = {"pairwise": NOT_INVARIANT}
    compares_scores: ClassVar[bool] = False

    weight: float = number(100.0, above=0.0)

    def shared_list_form(self, n_negatives: int) -> SharedListForm:
        """Return the logistic form."""
        return SharedListForm(SharedForm.LOGISTIC, weight=self.weight / n_negatives)

    def shared_values(self, own: Array, others: Array) -> Array:
        """Return the loss of each list from its scores; those left out are -inf."""
        below = np.logaddexp(0.0, others).sum(axis=1) / others.shape[1]
        values: Array = np.logaddexp(0.0, -own) + self.weight * below
        return values

    def listwise_value(self, scores: Array, grades: Array) -> float:
        """Return the mean over the relevant documents of one list."""
        relevant = grades > 0.0
        if not relevant.any():
            return 0.0
        others = np.logaddexp(0.0, scores[~relevant]).sum() / max((~relevant).sum(), 1)
        return float(np.logaddexp(0.0, -scores[relevant]).mean() + self.weight * others)

    def listwise_slopes(self, scores: Array, grades: Array) -> Array:
        """Return the derivative of `listwise_value`."""
        relevant = grades > 0.0
        if not relevant.any():
            return np.zeros(scores.shape)
        below = np.exp(-np.logaddexp(0.0, scores))  # 1 - probability
        slopes: Array = np.where(
            relevant,
            -below / relevant.sum(),
            self.weight / max((~relevant).sum(), 1) * (1.0 - below),
        )
        return slopes
