"""The sum of absolute values."""

from __future__ import annotations

import dataclasses
import numbers
from typing import ClassVar

import numpy as np

from ranking.contracts.regularizer import Array, EntryPenalty, Regularizer
from ranking.errors import PartError
from ranking_plugins.regularizers.soft import soft
from ranking_plugins.regularizers.strength import check_strength


@dataclasses.dataclass
class L1(Regularizer):
    """Penalty ``strength * sum |w|``.

    Parameters
    ----------
    strength : float
        Larger values leave fewer weights.
    density : float
        The share of weights that should be left; the solver then finds the strength, and says how.
        0 is to take the strength as it is.
    """

    name: ClassVar[str] = "l1"
    inlined: ClassVar[frozenset[str]] = frozenset({"vector", "matrix"})

    strength: float = 0.001
    density: float = 0.0

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_strength(self.name, self.strength)
        density: object = self.density
        if not isinstance(density, numbers.Real) or not 0.0 <= float(density) < 1.0:
            raise PartError(
                f"regularizer 'l1' has density {density!r}; it must lie in [0, 1), such as "
                "l1:density=0.05."
            )
        self._settled = not self.density

    @property
    def target_density(self) -> float | None:
        """The density for which a strength is still to be found."""
        return None if self._settled else self.density

    def settle(self, strength: float) -> None:
        """Take the strength that was found."""
        self.strength, self._settled = strength, True

    def penalty(self, parameters: Array) -> float:
        """Return strength * sum |w|."""
        return self.strength * float(np.abs(parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the soft threshold: everything moves towards 0 by step * strength."""
        return soft(parameters, step * self.strength)

    def entry_penalty(self) -> EntryPenalty:
        """Return l1 = strength."""
        if not self._settled:
            raise PartError(
                f"l1:density={self.density:g} is found by solver sgd only; give a strength "
                "instead, such as l1:strength=0.001."
            )
        return EntryPenalty(self.strength, 0.0)
