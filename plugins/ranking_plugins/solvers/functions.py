"""Why solvers that follow gradients refuse some models and losses."""

from typing import Final

NO_GRADIENT: Final = (
    "the model is a sum of functions that jump at thresholds, so its score has no gradient by its "
    "parameters; boosting adds one function after the other"
)
"""Why a solver that takes steps along gradients does not train such a model."""

FIXED_IDENTITY: Final = (
    "the identity adds the inner product of the features to each score, which steps on embeddings "
    "alone do not see"
)
"""Why solvers of embeddings do not train a model with a fixed identity."""

SAMPLED_RANKS: Final = (
    "the weights of pairs are changes of a metric of a whole list, and a list of one positive and "
    "sampled negatives has no such ranks; use model linear"
)
"""Why LambdaRank is for judged lists only."""
