"""Models whose parameters are functions, such as thresholds and trees."""

from typing import Final

NO_GRADIENT: Final = (
    "the model is a sum of functions that jump at thresholds, so its score has no gradient by its "
    "parameters; boosting adds one function after the other"
)
"""Why a solver that takes steps along gradients does not train such a model."""
