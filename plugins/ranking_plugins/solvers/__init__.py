"""Solvers. Classes are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl
from ranking.registry.parts import PartTable, lazy_parts, load_class

if TYPE_CHECKING:
    from ranking.data.click_matrix import click_matrix_of_chunks
    from ranking_plugins.solvers.adarank import AdaRank
    from ranking_plugins.solvers.alternating import Alternating
    from ranking_plugins.solvers.boosted_trees import LightGBM
    from ranking_plugins.solvers.closed_form import ClosedForm
    from ranking_plugins.solvers.coordinate import Coordinate
    from ranking_plugins.solvers.coordinate_search import CoordinateSearch
    from ranking_plugins.solvers.em import EM
    from ranking_plugins.solvers.graph_filter import GraphFilter
    from ranking_plugins.solvers.item_knn import ItemKNN
    from ranking_plugins.solvers.kernel_passive_aggressive import KernelPassiveAggressive
    from ranking_plugins.solvers.lbfgs import LBFGS
    from ranking_plugins.solvers.minibatch import MiniBatch
    from ranking_plugins.solvers.nmf import NMF
    from ranking_plugins.solvers.one_vs_rest import OneVsRest
    from ranking_plugins.solvers.passive_aggressive import PassiveAggressive
    from ranking_plugins.solvers.popularity import Popularity
    from ranking_plugins.solvers.random_walk import RandomWalk
    from ranking_plugins.solvers.rankboost import RankBoost
    from ranking_plugins.solvers.selection import Selection
    from ranking_plugins.solvers.sgd import SGD
    from ranking_plugins.solvers.svd import SVD

__all__ = [
    "EM",
    "LBFGS",
    "NMF",
    "SGD",
    "SVD",
    "AdaRank",
    "Alternating",
    "ClosedForm",
    "Coordinate",
    "CoordinateSearch",
    "GraphFilter",
    "ItemKNN",
    "KernelPassiveAggressive",
    "LightGBM",
    "MiniBatch",
    "OneVsRest",
    "PassiveAggressive",
    "Popularity",
    "RandomWalk",
    "RankBoost",
    "Selection",
    "click_matrix_of_chunks",
]

_PARTS: PartTable = {
    "coordinate": (
        "coordinate",
        "Coordinate",
        "Coordinate descent: one step along each feature, none increases the objective.",
    ),
    "sgd": (
        "sgd",
        "SGD",
        "Stochastic gradient descent on sampled triplets: query, positive, negative.",
    ),
    "kernel-passive-aggressive": (
        "kernel_passive_aggressive",
        "KernelPassiveAggressive",
        "PAMIR with a kernel: the same steps in the kernel's feature space.",
    ),
    "passive-aggressive": (
        "passive_aggressive",
        "PassiveAggressive",
        "PAMIR: the shortest step that corrects a sampled triplet, up to a length.",
    ),
    "svd": ("svd", "SVD", "The largest singular values and vectors of the relevance matrix."),
    "nmf": ("nmf", "NMF", "Non-negative embeddings, one dimension at a time (HALS)."),
    "minibatch": (
        "minibatch",
        "MiniBatch",
        "Mini-batches of Adagrad on embeddings: single responses (SVDFeature), preferences (SSI).",
    ),
    "em": ("em", "EM", "Expectation maximization for the bilingual topic model."),
    "coordinate-search": (
        "coordinate_search",
        "CoordinateSearch",
        "The weights of a combination, one after the other, by a metric.",
    ),
    "item-knn": (
        "item_knn",
        "ItemKNN",
        "Nearest neighbours of items: cosines, shrunk and pruned.",
    ),
    "popularity": (
        "popularity",
        "Popularity",
        "The mean relevance of each document, as its bias.",
    ),
    "random-walk": (
        "random_walk",
        "RandomWalk",
        "Random walks on the click graph: the probability of coming from a document to a query.",
    ),
    "closed-form": (
        "closed_form",
        "ClosedForm",
        "Item-item weights from the inverse of the Gram matrix of the items: EASE.",
    ),
    "graph-filter": (
        "graph_filter",
        "GraphFilter",
        "Item-item weights and a low-pass filter from degree-normalized interactions.",
    ),
    "one-vs-rest": (
        "one_vs_rest",
        "OneVsRest",
        "One logistic regression per document, from the features of the queries.",
    ),
    "alternating": (
        "alternating",
        "Alternating",
        "The optimal embeddings of one side for those of the other: RMLS, PLS, LSI.",
    ),
    "lbfgs": (
        "lbfgs",
        "LBFGS",
        "L-BFGS for smooth losses of judged lists, on features of any scale; OWL-QN with l1.",
    ),
    "adarank": (
        "adarank",
        "AdaRank",
        "AdaRank: one feature after the other, for the queries that rank worst.",
    ),
    "rankboost": (
        "rankboost",
        "RankBoost",
        "RankBoost: one threshold of a feature after the other, for the pairs that rank worst.",
    ),
    "lightgbm": (
        "boosted_trees",
        "LightGBM",
        "Boosted trees by LightGBM (the extra `trees`).",
    ),
    "selection": (
        "selection",
        "Selection",
        "Families of recommenders, compared on held-out positives; the best, or a sum of two.",
    ),
}


def __getattr__(name: str) -> Any:
    """Import a class or function when it is first used."""
    if name == "click_matrix_of_chunks":
        return import_module("ranking.data.click_matrix").click_matrix_of_chunks
    return load_class(__name__, _PARTS, name)


@hookimpl
def ranking_solvers() -> dict[str, Lazy]:
    """Return the solvers of this distribution."""
    return lazy_parts(__name__, _PARTS)
