"""The likelihood of clicked pairs under a model of their words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from ranking.contracts.loss import Loss, LossInterface

_WORDS = "the loss is the probability of the words of a clicked pair, not a function of scores"


@dataclasses.dataclass
class Likelihood(Loss):
    """The negative log-likelihood of the words of clicked pairs, per word; for solver em."""

    name: ClassVar[str] = "likelihood"
    compares_scores: ClassVar[bool] = False
    unsupported: ClassVar[Mapping[LossInterface, str]] = {
        "pairwise": _WORDS,
        "listwise": _WORDS,
        "coordinate": _WORDS,
        "linear": _WORDS,
    }
