"""L2: the sum of squares."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from ranking.contracts.parameters import number
from ranking.contracts.regularizer import (
    Array,
    EntryPenalty,
    FeatureIds,
    ParameterForm,
    Regularizer,
)
from ranking.errors import CombinationError
from ranking_plugins.regularizers.strength import AUTO, default_strength, known


@dataclasses.dataclass
class L2(Regularizer):
    """Penalty ``strength / 2 * sum w**2``.

    Parameters
    ----------
    strength : float or "auto"
        Larger values keep weights smaller; "auto" is 0.1 / (number of rows)
        for embeddings, which has an effect and removes none, and 0.001 otherwise.
    frequency : float
        Exponent of frequency scaling: with the squared loss of all pairs (iALS), the strength of a
        row is multiplied by this power of the total weight of its pairs, so that 1 penalizes each
        row as its own mean error does. Other losses take 0 only.
    """

    name: ClassVar[str] = "l2"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})

    strength: float | str = number("auto", minimum=0.0, words=AUTO)
    frequency: float = number(0.0, minimum=0.0, maximum=1.0)

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the strength that is used for "auto"."""
        if self.strength != "auto":
            return {}
        return {"strength": default_strength(problem, 0.1)}

    def penalty(self, parameters: Array) -> float:
        """Return strength/2 * sum w**2."""
        return 0.5 * self._uniform() * float((parameters * parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters, shrunk by 1 / (1 + step * strength)."""
        return parameters / (1.0 + step * self._uniform())

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> EntryPenalty:
        """Return l2 = strength."""
        return EntryPenalty(l2=self._uniform())

    def row_strengths(self, weights: Array) -> Array:
        """Return the strength of each row from the total weight of its pairs."""
        scaled: Array = known(self.strength) * weights**self.frequency
        return scaled

    def _uniform(self) -> float:
        """Return the strength of all rows; refuse frequency scaling, which needs their weights."""
        if self.frequency:
            raise CombinationError(
                f"l2 with frequency={self.frequency:g} scales the strength of a row by the weight of "
                "its pairs, which only loss squared with solver alternating knows (recipe ials); "
                "leave frequency out."
            )
        return known(self.strength)
