"""L1: the sum of absolute values."""

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
from ranking.errors import PartError
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import AUTO, default_strength, known


@dataclasses.dataclass
class L1(Regularizer):
    """Penalty ``strength * sum |w|``.

    Parameters
    ----------
    strength : float or "auto"
        Larger values keep fewer weights; "auto" is 0.01 / (number of rows)
        for embeddings, which has an effect and removes none, and 0.001 otherwise.
    density : float
        The share of weights to keep; `sgd` then determines the strength and reports how. 0 means
        that `strength` is used.
    """

    name: ClassVar[str] = "l1"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})

    strength: float | str = number("auto", minimum=0.0, words=AUTO)
    density: float = number(0.0, minimum=0.0, below=1.0)

    def _setup(self) -> None:
        self._strength_known = not self.density

    @property
    def target_density(self) -> float | None:
        """The share of weights to keep, or None once the strength is known."""
        return None if self._strength_known else self.density

    def set_strength(self, strength: float) -> None:
        """Use the strength that was determined for the target density."""
        self.strength, self._strength_known = strength, True

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the strength that is used for "auto"."""
        if self.strength != "auto":
            return {}
        return {"strength": default_strength(problem, 0.01)}

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum abs(w)."""
        return known(self.strength) * float(np.abs(parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the soft threshold: everything moves towards 0 by step * strength."""
        return soft(parameters, step * known(self.strength))

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> EntryPenalty:
        """Return l1 = strength."""
        if not self._strength_known:
            raise PartError(
                f"only solver sgd can determine the strength for l1:density={self.density:g}; set "
                "the strength instead, such as l1:strength=0.001."
            )
        return EntryPenalty(known(self.strength), 0.0)
