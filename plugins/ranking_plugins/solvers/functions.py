"""Why solvers that follow gradients refuse some models and losses."""

from typing import Final

NO_GRADIENT: Final = (
    "the model is a sum of functions that jump at thresholds, so its score has no gradient by its "
    "parameters; boosting adds one function after the other"
)
"""Why a solver that takes steps along gradients does not train such a model."""

SAMPLED_RANKS: Final = (
    "the weights of pairs are changes of a metric of a whole list, and a list of one positive and "
    "sampled negatives has no such ranks; use model linear"
)
"""Why LambdaRank is for judged lists only."""
