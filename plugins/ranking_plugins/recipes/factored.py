"""Embeddings of queries and documents from positives: the methods of recommenders."""

from ranking.contracts.recipe import Recipe


def _recipe(model: str, loss: str, regularizer: str = "none") -> Recipe:
    return Recipe(
        parts={"model": model, "loss": loss, "regularizer": regularizer, "solver": "sgd"},
    )


def warp() -> Recipe:
    """WARP, or WSABIE: the top of the list.

    Ten passes over the positives by Adagrad; with validation data, early stopping.
    """
    return _recipe("factored:dimensions=32,init_scale=0.1", "warp:max_trials=30")


def auc() -> Recipe:
    """Pairwise hinge: all pairs in the wrong order count the same."""
    return _recipe("factored:dimensions=32,init_scale=0.1", "auc")


def bpr() -> Recipe:
    """Bayesian personalized ranking.

    Its slopes are small for small embeddings, so these start as large as in the papers.
    """
    return _recipe("factored:dimensions=32", "bpr")


def lasr() -> Recipe:
    """Latent structured ranking: WARP, then a stage that looks at the 20 best of it."""
    return _recipe("structured:dimensions=32,init_scale=0.1,stages=1", "warp", "max-norm:limit=3")
