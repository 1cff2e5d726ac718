"""Matching from clicks (Wu, Lu and Li, 2013): vectors by alternating half-steps."""

from ranking.contracts.recipe import Recipe

TEXT = "text:words=100000,sublinear=true"
"""tf-idf of words, as the paper has it."""


def _recipe(model: str, loss: str, regularizer: str, solver: str) -> Recipe:
    return Recipe(
        parts={
            "features": TEXT,
            "model": model,
            "loss": loss,
            "regularizer": regularizer,
            "solver": solver,
        }
    )


def rmls() -> Recipe:
    """Regularized mapping to latent structures: sparse vectors of one length.

    With validation data, as many rounds as help; without, ten.
    """
    return _recipe(
        "sparse-factored:dimensions=100",
        "alignment",
        "l1l2-row:strength=0.1,limit=1",
        "alternating:max_epochs=10",
    )


def pls() -> Recipe:
    """Partial least squares: the directions in which queries and documents go together most."""
    return _recipe(
        "factored:dimensions=50,biases=false",
        "alignment",
        "orthonormal:scale=1",
        "alternating:max_epochs=100,tolerance=1e-5",
    )


def lsi() -> Recipe:
    """Latent semantic indexing: the same, where a pair counts as often as it was clicked.

    On clicks without features it is the singular value decomposition of the click matrix.
    """
    return _recipe(
        "factored:dimensions=50,biases=false",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        "alternating:max_epochs=100,tolerance=1e-5",
    )
