"""Sparse preference learning (Chen et al., 2010): the six methods of its table II."""

from ranking.contracts.recipe import Recipe

TEXT = "text:words=10000,stop_words=english,sublinear=true"
"""The paper's features: normalised tf-idf of the 10,000 most frequent words."""

LEARNING_RATE = "learning_rate=100"
"""The paper has 200. In trials on 20 Newsgroups half of it did better, also on texts held out of
the training part, and the paper's again for refitting."""


def _recipe(model: str, regularizer: str, solver: str) -> Recipe:
    return Recipe(
        parts={
            "features": TEXT,
            "model": model,
            "loss": "hinge",
            "regularizer": regularizer,
            "solver": solver,
        }
    )


def identity() -> Recipe:
    """W = I: the cosine of queries and documents, nothing is learnt."""
    return _recipe("diagonal", "none", "sgd:max_steps=0")


def diagonal() -> Recipe:
    """One weight a word."""
    return _recipe("diagonal", "none", "sgd")


def sgd_fixed() -> Recipe:
    """One weight a pair of words, at a fixed rate."""
    return _recipe("bilinear", "none", "sgd:learning_rate=0.01,schedule=constant")


def sgd_decaying() -> Recipe:
    """One weight a pair of words, at the rate 100 / sqrt(t)."""
    return _recipe("bilinear", "none", f"sgd:{LEARNING_RATE}")


def sparse_sgd() -> Recipe:
    """Learn a sparse matrix by cumulative L1, whose strength leaves 9 % of the weights."""
    return _recipe("bilinear", "l1:density=0.09", f"sgd:{LEARNING_RATE}")


def sparse_sgd_refit() -> Recipe:
    """Learn a sparse matrix, then refit it without L1 where weights are left."""
    return _recipe(
        "bilinear", "l1:density=0.09", f"sgd:{LEARNING_RATE},refit=true,refit_learning_rate=200"
    )
