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
    return _recipe("factored:dimensions=32,init_scale=0.1", "warp:max_trials=30")


def auc() -> Recipe:
    """Count pairs in the wrong order, wherever in the list they are."""
    return _recipe("factored:dimensions=32,init_scale=0.1", "auc")


def bpr() -> Recipe:
    """Bayesian personalised ranking.

    Its slopes are small where vectors are, so these begin as large as in the papers.
    """
    return _recipe("factored:dimensions=32", "bpr")


def lasr() -> Recipe:
    """Latent structured ranking: WARP, then a stage that looks at the 20 best of it."""
    return _recipe("structured:dimensions=32,init_scale=0.1,stages=1", "warp", "max-norm:limit=3")
