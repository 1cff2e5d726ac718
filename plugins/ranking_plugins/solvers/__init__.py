"""Solvers. Classes are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl

if TYPE_CHECKING:
    from ranking.data.click_matrix import click_matrix_of_chunks
    from ranking_plugins.solvers.alternating import Alternating
    from ranking_plugins.solvers.coordinate import Coordinate
    from ranking_plugins.solvers.nmf import NMF
    from ranking_plugins.solvers.one_vs_rest import OneVsRest
    from ranking_plugins.solvers.passive_aggressive import PassiveAggressive
    from ranking_plugins.solvers.sgd import SGD
    from ranking_plugins.solvers.svd import SVD

__all__ = [
    "NMF",
    "SGD",
    "SVD",
    "Alternating",
    "Coordinate",
    "OneVsRest",
    "PassiveAggressive",
    "click_matrix_of_chunks",
]

_MODULES = {
    "NMF": "ranking_plugins.solvers.nmf",
    "SGD": "ranking_plugins.solvers.sgd",
    "SVD": "ranking_plugins.solvers.svd",
    "Alternating": "ranking_plugins.solvers.alternating",
    "Coordinate": "ranking_plugins.solvers.coordinate",
    "OneVsRest": "ranking_plugins.solvers.one_vs_rest",
    "PassiveAggressive": "ranking_plugins.solvers.passive_aggressive",
    "click_matrix_of_chunks": "ranking.data.click_matrix",
}


def __getattr__(name: str) -> Any:
    """Import a class or function when it is first used."""
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def ranking_solvers() -> dict[str, Lazy]:
    """Return the solvers of this distribution."""
    return {
        "coordinate": Lazy(
            "ranking_plugins.solvers.coordinate:Coordinate",
            help="Coordinate descent: one step along each feature, none increases the objective.",
        ),
        "sgd": Lazy(
            "ranking_plugins.solvers.sgd:SGD",
            help="Stochastic gradient descent on sampled triplets: query, positive, negative.",
        ),
        "passive-aggressive": Lazy(
            "ranking_plugins.solvers.passive_aggressive:PassiveAggressive",
            help="PAMIR: the shortest step that corrects a sampled triplet, up to a length.",
        ),
        "svd": Lazy(
            "ranking_plugins.solvers.svd:SVD",
            help="The largest singular values and vectors of the relevance matrix.",
        ),
        "nmf": Lazy(
            "ranking_plugins.solvers.nmf:NMF",
            help="Non-negative embeddings, one dimension at a time (HALS).",
        ),
        "one-vs-rest": Lazy(
            "ranking_plugins.solvers.one_vs_rest:OneVsRest",
            help="One logistic regression per document, from the features of the queries.",
        ),
        "alternating": Lazy(
            "ranking_plugins.solvers.alternating:Alternating",
            help="The optimal embeddings of one side for those of the other: RMLS, PLS, LSI.",
        ),
    }
