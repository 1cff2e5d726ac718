"""Vectors for queries and documents, from matches: the recommender's methods."""

from ranking.contracts.recipe import Recipe


def _recipe(model: str, loss: str, regularizer: str = "none") -> Recipe:
    return Recipe(
        parts={"model": model, "loss": loss, "regularizer": regularizer, "solver": "sgd"},
    )


def warp() -> Recipe:
    """WARP, or WSABIE: the top of the list.

    Ten passes over the matches, by Adagrad; with validation data, as many as help.
    """
    return _recipe("factored:dimensions=32,spread=0.1", "warp")


def auc() -> Recipe:
    """Count pairs in the wrong order, wherever in the list they are."""
    return _recipe("factored:dimensions=32,spread=0.1", "auc")


def bpr() -> Recipe:
    """Bayesian personalised ranking."""
    return _recipe("factored:dimensions=32,spread=0.1", "bpr")


def lasr() -> Recipe:
    """Latent structured ranking: WARP, then a stage that looks at the 20 best of it."""
    return _recipe("structured:dimensions=32,spread=0.1,stages=1", "warp", "max-norm:limit=3")
