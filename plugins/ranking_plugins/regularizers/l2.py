"""L2: the sum of squares."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import numpy as np

from ranking.contracts.parameters import choice, number
from ranking.contracts.regularizer import (
    Array,
    EntryPenalty,
    FeatureIds,
    ParameterForm,
    Regularizer,
)
from ranking.errors import CombinationError, PartError
from ranking_plugins.regularizers.strength import AUTO, DEFAULT, default_strength, known

SEARCHED = 2.0
"""Strength for embeddings and WARP, times the number of rows.

Chosen on validation parts of MovieLens 100K, Last.fm, Gowalla and Health;
asv_benchmarks/defaults_report.py repeats the search.
"""


@dataclasses.dataclass
class L2(Regularizer):
    """Penalty ``strength / 2 * sum_r c_r ||w_r||**2``, where c_r is 1 or the frequency of row r.

    Parameters
    ----------
    strength : float or "auto"
        Larger values keep weights smaller; "auto" is 0.1 / (number of rows)
        for embeddings, which has an effect and removes none, 2 / (number of rows) but at most
        0.001 with a loss that searches violations (WARP) and weights them by rank, 0.1 with
        scaling=frequency, and 0.001 otherwise.
    scaling : {"uniform", "frequency"}
        For embeddings: "frequency" weighs each row by its frequency c_r, so that rows that are used
        often are penalized more. That of a query's row is the share of positives that are the
        query's, that of a document's row the share of positives that are this document, plus
        1 / (number of documents) for the negative, as if it was sampled uniformly. A row of a
        feature has the sum over the queries, or documents, that have the feature.
    frequency : float
        Exponent of frequency scaling: with the squared loss of all pairs (iALS), the strength of a
        row is multiplied by this power of the number of its observed pairs, so that 1 penalizes
        each row as its own mean error does (Zhou et al., 2008). Other losses take 0 only.
    """

    name: ClassVar[str] = "l2"
    forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix", "factors"})
    kernel_forms: ClassVar[frozenset[ParameterForm]] = frozenset({"vector", "matrix"})

    strength: float | str = number("auto", minimum=0.0, words=AUTO)
    frequency: float = number(0.0, minimum=0.0, maximum=1.0)
    scaling: str = choice("uniform", "uniform", "frequency")

    def idle(self) -> set[str]:
        """Return the parameters of frequency scaling, if there is none."""
        unused = {"frequency"} if not self.frequency else set()
        return unused if self.weighs_rows else unused | {"scaling"}

    @property
    def weighs_rows(self) -> bool:
        """Whether rows are weighted by their frequency."""
        return self.scaling == "frequency"

    def auto_values(self, problem: Any) -> dict[str, Any]:
        """Return the strength that is used for "auto"."""
        if self.weighs_rows and problem.model.form != "factors":
            raise PartError(
                f"l2:scaling=frequency is for the rows of embeddings, and model "
                f"{problem.model.name!r} has none; leave it out."
            )
        if self.strength != "auto":
            return {}
        if self.weighs_rows:
            return {"strength": 0.1}
        if getattr(problem.loss, "trials", 1) > 1:
            return {"strength": min(default_strength(problem, SEARCHED), DEFAULT)}
        return {"strength": default_strength(problem, 0.1)}

    def penalty(self, parameters: Array) -> float:
        """Return strength/2 * sum w**2."""
        return 0.5 * self._uniform() * float((parameters * parameters).sum())

    def prox(self, parameters: Array, step: float) -> Array:
        """Return the parameters, shrunk by 1 / (1 + step * strength)."""
        return parameters / (1.0 + step * self._uniform())

    def weighted_penalty(self, parameters: Array, weights: Array) -> float:
        """Return strength/2 * sum_r weight_r ||w_r||**2."""
        squares = np.einsum("ij,ij->i", parameters, parameters)
        return 0.5 * known(self.strength) * float((weights * squares).sum())

    def prox_by_row(self, parameters: Array, steps: Array) -> Array:
        """Return each row, shrunk by 1 / (1 + its step * strength)."""
        return parameters / (1.0 + steps * known(self.strength))[:, None]

    def kernel_form(self, form: ParameterForm, ids: FeatureIds | None = None) -> EntryPenalty:
        """Return l2 = strength."""
        return EntryPenalty(l2=self._uniform())

    def row_strengths(self, counts: Array) -> Array:
        """Return the strength of each row from the number of its observed pairs."""
        scaled: Array = known(self.strength) * counts**self.frequency
        return scaled

    def _uniform(self) -> float:
        """Return the strength of all rows; refuse frequency scaling, which needs their counts."""
        if self.frequency:
            raise CombinationError(
                f"l2 with frequency={self.frequency:g} scales the strength of a row by the number "
                "of its pairs, which only loss squared with solver alternating supports (recipe "
                "ials); leave frequency out."
            )
        return known(self.strength)
