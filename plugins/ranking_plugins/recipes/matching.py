"""Matching from clicks (Wu, Lu and Li, 2013): embeddings by alternating half-steps."""

from ranking.contracts.recipe import Recipe, Search

TEXT = "text:words=100000,stop_words=english,sublinear=true"
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
    """Regularized mapping to latent structures: sparse embeddings of one norm.

    Two epochs, since more make all embeddings similar; M is centered for the same reason.
    """
    return _recipe(
        "sparse-factored:dimensions=100",
        "alignment",
        "l1l2-row:strength=1,limit=1",
        "alternating:max_epochs=2,center=true",
    )


def rmls_large_margin() -> Recipe:
    """RMLS with the hinge instead of alignment: steps on one side, the other frozen."""
    return _recipe(
        "factored:dimensions=100,biases=false,init_scale=1",
        "hinge",
        "l1l2-row:strength=1e-5,limit=3",
        "alternating:max_epochs=20",
    )


def pls() -> Recipe:
    """Partial least squares: the directions in which queries and documents go together most."""
    return _recipe(
        "factored:dimensions=50,biases=false,init_scale=1",
        "alignment",
        "orthonormal:scale=1",
        "alternating:max_epochs=100,tolerance=1e-5",
    )


def lsi() -> Recipe:
    """Latent semantic indexing: directions weighted by their singular values.

    A pair counts as often as it was clicked. On clicks without features, scores are those of the
    truncated singular value decomposition of the click matrix.
    """
    return _recipe(
        "factored:dimensions=50,biases=false,init_scale=1",
        "alignment:per_query=false",
        "orthonormal:scale=1",
        "alternating:max_epochs=100,tolerance=1e-5,singular_values=true",
    )


def lsi_documents() -> Recipe:
    """Latent semantic indexing: the SVD of the documents' features; clicks are not used."""
    return Recipe(
        parts={
            "features": TEXT,
            "model": "factored:dimensions=100,biases=false",
            "loss": "squared",
            "regularizer": "none",
            "solver": "svd:matrix=documents",
        },
        data=("texts",),
    )


def random_walk() -> Recipe:
    """Backward random walk on the click graph, with a self-transition of 0.9 and five steps.

    With validation data, the number of steps is the best of 1 to 10.
    """
    return Recipe(
        parts={
            "model": "bilinear:initial=zero",
            "loss": "alignment",
            "regularizer": "none",
            "solver": "random-walk",
        },
        search=Search(
            part="solver", parameter="steps", values=tuple(range(1, 11)), metric="ndcg@10"
        ),
        data=("interactions",),
    )
