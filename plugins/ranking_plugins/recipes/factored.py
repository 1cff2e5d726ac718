"""Embeddings of queries and documents from positives: the methods of recommenders.

A recipe names only what differs from the defaults of its parts.
"""

from ranking.contracts.recipe import Recipe


def _recipe(
    model: str, loss: str, regularizer: str = "none", solver: str = "sgd:epochs=30"
) -> Recipe:
    return Recipe(
        parts={"model": model, "loss": loss, "regularizer": regularizer, "solver": solver},
    )


def warp() -> Recipe:
    """WARP, or WSABIE: the top of the list.

    Thirty passes over the positives by Adagrad, with L2; with validation data, early stopping.
    """
    return _recipe("factored", "warp", "l2")


def auc() -> Recipe:
    """Pairwise hinge: all pairs in the wrong order count the same."""
    return _recipe("factored", "auc")


def bpr() -> Recipe:
    """Bayesian personalized ranking."""
    return _recipe("factored", "bpr")


def lasr() -> Recipe:
    """Latent structured ranking: WARP, then a stage that looks at the 20 best of it."""
    return _recipe("structured", "warp", "max-norm:limit=3", "sgd")
