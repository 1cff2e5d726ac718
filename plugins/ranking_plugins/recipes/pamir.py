"""PAMIR (Grangier and Bengio, 2008): a large margin in the space of words, online."""

from ranking.contracts.recipe import Recipe
from ranking_plugins.recipes.sparse_preference import TEXT


def pamir() -> Recipe:
    """Bilinear model of texts, hinge, passive-aggressive steps."""
    return Recipe(
        parts={
            "features": TEXT,
            "model": "bilinear",
            "loss": "hinge",
            "regularizer": "none",
            "solver": "passive-aggressive",
        }
    )
