"""Elastic net: absolute values and squares."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import (
    Array,
    EntryPenalty,
    FeatureIds,
    ParameterForm,
    Regularizer,
)
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import AUTO, default_strength, known


@dataclasses.dataclass
class Elastic(Regularizer):
    """Penalty ``strength * (share * sum |w| + (1 - share) / 2 * sum w**2)``.

    Parameters
    ----------
    strength : float or "auto"
        Larger values keep fewer and smaller weights; "auto" is 0.01 / (number of rows)
        for embeddings, which has an effect and removes none, and 0.001 otherwise.
    share : float
        The share of L1, from 0 (L2) to 1 (L1).
    """

    name: ClassVar[str] = "elastic"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})

    strength: float | str = number("auto", minimum=0.0, words=AUTO)
    share: float = number(0.5, minimum=0.0, maximum=1.0)

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the strength that is used for "auto"."""
        if self.strength != "auto":
            return {}
        return {"strength": default_strength(problem, 0.01)}

    def penalty(self, parameters: Array) -> float:
        """Return l1 * sum abs(w) + l2/2 * sum w**2."""
        l1, l2 = self.kernel_form("vector")
        squares = float((parameters * parameters).sum())
        return l1 * float(np.abs(parameters).sum()) + 0.5 * l2 * squares

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the soft threshold, shrunk by 1 / (1 + step * l2)."""
        l1, l2 = self.kernel_form("vector")
        return soft(parameters, step * l1) / (1.0 + step * l2)

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> EntryPenalty:
        """Return l1 = strength * share and l2 = strength * (1 - share)."""
        strength = known(self.strength)
        return EntryPenalty(strength * self.share, strength * (1.0 - self.share))
