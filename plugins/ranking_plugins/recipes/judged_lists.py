"""Rankers for judged lists: regression, listwise losses, boosting and trees.

With validation data, linear models choose the strength of L2 by ndcg@5(gain=exp2), from strong to
weak, every training started from the one before; boosting is stopped early instead.
"""

from ranking.contracts.recipe import Axis, Recipe, Search

STRENGTHS = (1.0, 0.1, 0.01, 0.001, 0.0001, 0.00001)
"""Of L2, from 1 down to 0.00001 by decades."""

METRIC = "ndcg@5(gain=exp2)"


def _linear(loss: str) -> Recipe:
    return Recipe(
        parts={
            "model": "linear",
            "loss": loss,
            "regularizer": "l2:strength=0.001",
            "solver": "lbfgs",
        },
        search=Search("regularizer", "strength", STRENGTHS, METRIC),
    )


def _boosted(model: str, loss: str, solver: str) -> Recipe:
    return Recipe(parts={"model": model, "loss": loss, "regularizer": "none", "solver": solver})


def regression() -> Recipe:
    """Fit the grades by least squares with L2 (ridge regression)."""
    return _linear("squared-grades")


def listnet() -> Recipe:
    """Fit the softmax of the grades by that of linear scores (Cao et al., 2007)."""
    return _linear("listnet")


def listmle() -> Recipe:
    """Maximize the likelihood of the order of the grades (Xia et al., 2008)."""
    return _linear("listmle")


def lambdarank() -> Recipe:
    """Weight the pairs by the change of NDCG if they swap (Burges et al., 2006).

    The weights are renewed 10 times, every 5 iterations of L-BFGS.
    """
    return Recipe(
        parts={
            "model": "linear",
            "loss": "lambdarank",
            "regularizer": "l2:strength=0.1",
            "solver": "lbfgs:max_epochs=10,iterations=5,tolerance=0",
        },
        search=Search("regularizer", "strength", (10.0, 1.0, 0.1, 0.01), METRIC),
    )


def approx_ndcg() -> Recipe:
    """Maximize NDCG with smooth ranks (Qin et al., 2010); the temperature is chosen too."""
    return Recipe(
        parts={
            "model": "linear",
            "loss": "approx-ndcg",
            "regularizer": "l2:strength=0.001",
            "solver": "lbfgs:tolerance=1e-5",
        },
        search=Search(
            "regularizer",
            "strength",
            (0.1, 0.01, 0.001, 0.0001),
            METRIC,
            Axis("loss", "temperature", (1.0, 0.3, 0.1)),
        ),
    )


def adarank_map() -> Recipe:
    """Add one feature after the other for the queries of low average precision."""
    return _boosted("linear", "metric-exponential:metric=map", "adarank")


def adarank_ndcg() -> Recipe:
    """Add one feature after the other for the queries of low NDCG@5."""
    return _boosted("linear", "metric-exponential:metric=ndcg@5(gain=exp2)", "adarank")


def rankboost() -> Recipe:
    """Add one threshold of a feature after the other for the pairs that rank worst.

    All queries have the same weight, each as the mean of its pairs.
    """
    return _boosted("thresholds", "exponential-pairs:weighting=queries", "rankboost")


def mart() -> Recipe:
    """Fit the grades by boosted trees (LightGBM)."""
    return _boosted("trees", "squared-grades", "lightgbm:num_leaves=7,learning_rate=0.05")


def lambdamart() -> Recipe:
    """Boost trees by the gradients of LambdaRank (LightGBM)."""
    return _boosted("trees", "lambdarank", "lightgbm:num_leaves=7,learning_rate=0.05")
