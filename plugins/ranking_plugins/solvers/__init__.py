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
        "alternating": Lazy(
            "ranking_plugins.solvers.alternating:Alternating",
            help="The best vectors of one side for those of the other, in turn: RMLS, PLS, LSI.",
        ),
    }
