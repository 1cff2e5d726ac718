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
            "ranking_plugins.solvers.passive:PassiveAggressive",
            help="PAMIR: the shortest step that sets a drawn tuple right, up to a length.",
        ),
    }
