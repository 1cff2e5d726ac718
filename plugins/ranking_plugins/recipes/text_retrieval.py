"""Retrieval of texts: BM25, language models, and WARP that starts from BM25."""

from ranking.contracts.recipe import Recipe

BM25 = "text:words=none,stop_words=english,weighting=bm25"
"""All words but stop words; k1 = 1.2 and b = 0.75."""

DIRICHLET = "text:words=none,stop_words=english,weighting=lm-dirichlet"


def _untrained(features: str) -> Recipe:
    return Recipe(
        parts={
            "features": features,
            "model": "diagonal",
            "loss": "hinge",
            "regularizer": "none",
            "solver": "sgd:max_steps=0",
        }
    )


def bm25() -> Recipe:
    """W = I between the counts of queries and the BM25 weights of documents."""
    return _untrained(BM25)


def lm_dirichlet() -> Recipe:
    """W = I between the counts of queries and the weights of Dirichlet smoothing, mu = 2000."""
    return _untrained(DIRICHLET)


def bm25_warp() -> Recipe:
    """Learn one weight per pair of words by WARP, starting from BM25."""
    return Recipe(
        parts={
            "features": BM25,
            "model": "bilinear",
            "loss": "warp",
            "regularizer": "none",
            "solver": "sgd",
        }
    )
