"""Baselines: popularity, factorizations, one-vs-rest classifiers and RankSVM."""

from ranking.contracts.recipe import Recipe, Search

FACTORED = "factored:dimensions=50,biases=false"

INTERACTIONS = ("interactions",)


def svd() -> Recipe:
    """Compute the largest singular values of the relevance matrix."""
    return Recipe(
        parts={"model": FACTORED, "loss": "squared", "regularizer": "none", "solver": "svd"},
        data=INTERACTIONS,
    )


def popularity() -> Recipe:
    """Rank items by their mean relevance over all users, the same for everybody."""
    return Recipe(
        parts={
            "model": "factored:dimensions=1",
            "loss": "squared",
            "regularizer": "none",
            "solver": "popularity",
        },
        data=INTERACTIONS,
    )


def item_knn() -> Recipe:
    """Score an item by its cosines with the items of the history, over its 100 nearest neighbours.

    With validation data, the shrinkage is the best of five from 0 to 1000.
    """
    return Recipe(
        parts={
            "model": "item-item",
            "loss": "alignment",
            "regularizer": "none",
            "solver": "item-knn",
        },
        search=Search(
            part="solver",
            parameter="shrinkage",
            values=(0.0, 1.0, 10.0, 100.0, 1000.0),
            metric="ndcg@20",
        ),
    )


def nmf() -> Recipe:
    """Factorize the relevance matrix into non-negative matrices."""
    return Recipe(
        parts={"model": FACTORED, "loss": "squared", "regularizer": "none", "solver": "nmf"},
        data=INTERACTIONS,
    )


def one_vs_rest() -> Recipe:
    """Train one logistic regression per document, from the features of the queries.

    With validation data, the strength of L2 is the best of five from 0.01 down to 0.000001.
    """
    return Recipe(
        parts={
            "model": "bilinear:initial=zero",
            "loss": "logistic",
            "regularizer": "l2:strength=0.0001",
            "solver": "one-vs-rest",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=(1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
            metric="map",
        ),
    )


def rank_svm_linear() -> Recipe:
    """Train one weight per feature by the pairwise hinge with L2, by coordinate descent.

    With validation data, the strength of L2 is the best of seven from 1 down to 0.000001.
    """
    return Recipe(
        parts={
            "model": "linear",
            "loss": "hinge",
            "regularizer": "l2:strength=0.001",
            "solver": "coordinate",
        },
        search=Search(
            part="regularizer",
            parameter="strength",
            values=(1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
            metric="map",
        ),
    )


def rank_svm() -> Recipe:
    """Train one weight per pair of query and document features by the pairwise hinge."""
    return Recipe(
        parts={
            "model": "bilinear:initial=zero",
            "loss": "hinge",
            "regularizer": "l2:strength=1e-7",
            "solver": "sgd:max_steps=1000000,learning_rate=0.1,schedule=constant,"
            "sampling=positives",
        }
    )
