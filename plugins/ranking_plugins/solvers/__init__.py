"""Solvers."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_solvers() -> dict[str, Lazy]:
    """Return the solvers of this distribution."""
    return {
        "coordinate": Lazy(
            "ranking_plugins.solvers.coordinate:Coordinate",
            help="Coordinate descent: one guaranteed step along each feature in turn.",
        ),
        "sgd": Lazy(
            "ranking_plugins.solvers.sgd:SGD",
            help="Stochastic gradient descent on drawn tuples: query, match, no match.",
        ),
        "passive-aggressive": Lazy(
            "ranking_plugins.solvers.passive_aggressive:PassiveAggressive",
            help="PAMIR: the shortest step that sets a drawn tuple right, up to a length.",
        ),
        "svd": Lazy(
            "ranking_plugins.solvers.svd:SVD",
            help="The largest singular values of the relevance matrix, and their vectors.",
        ),
        "nmf": Lazy(
            "ranking_plugins.solvers.nmf:NMF",
            help="Vectors without negative numbers, one dimension at a time (HALS).",
        ),
        "one-vs-rest": Lazy(
            "ranking_plugins.solvers.one_vs_rest:OneVsRest",
            help="One logistic regression a document, from the features of the queries.",
        ),
        "alternating": Lazy(
            "ranking_plugins.solvers.alternating:Alternating",
            help="The best vectors of one side for those of the other, in turn: RMLS, PLS, LSI.",
        ),
    }
