"""Matching from clicks (Wu, Lu and Li, 2013): embeddings by alternating half-steps."""

import dataclasses

from ranking.contracts.recipe import Recipe, Search

TEXT = "text:words=100000,stop_words=english,sublinear=true"
"""tf-idf of words, as the paper has it."""

COUNTS = "text:words=100000,stop_words=english,weighting=counts"
"""Of topics, which are distributions of words."""

RATES = Search(
    part="solver", parameter="learning_rate", values=(0.01, 0.03, 0.1, 0.3), metric="ndcg@10"
)


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


def ssi() -> Recipe:
    """Supervised semantic indexing: q' (U'V + I) d by the hinge of click preferences.

    With validation data, the learning rate is the best of four from 0.01 to 0.3.
    """
    recipe = _recipe(
        "factored-identity:dimensions=100", "hinge", "none", "minibatch:learning_rate=0.03"
    )
    return dataclasses.replace(recipe, search=RATES)


def svdfeature() -> Recipe:
    """Feature-based factorization with biases: the squared error of clicks, sampled pairs have 0.

    With validation data, the learning rate is the best of four from 0.01 to 0.3.
    """
    recipe = _recipe(
        "factored:dimensions=100,biases=true",
        "pointwise-squared",
        "l2:strength=1e-6",
        "minibatch:learning_rate=0.03",
    )
    return dataclasses.replace(recipe, search=RATES)


def bltm() -> Recipe:
    """Bilingual topic model: 100 topics with words of queries and of documents, by EM.

    With validation data, the share of the document's own words is the best of four.
    """
    return Recipe(
        parts={
            "features": COUNTS,
            "model": "topics:dimensions=100",
            "loss": "likelihood",
            "regularizer": "none",
            "solver": "em",
        },
        search=Search(
            part="model", parameter="words", values=(0.3, 0.5, 0.7, 0.9), metric="ndcg@10"
        ),
    )
