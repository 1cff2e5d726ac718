"""Losses. Classes are imported when they are first used."""

from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl
from ranking.registry.parts import PartTable, lazy_parts, load_class

if TYPE_CHECKING:
    from ranking_plugins.losses.alignment import Alignment
    from ranking_plugins.losses.approx_ndcg import ApproxNDCG
    from ranking_plugins.losses.domination import Domination
    from ranking_plugins.losses.exponential import Exponential
    from ranking_plugins.losses.exponential_pairs import ExponentialPairs
    from ranking_plugins.losses.lambdarank import LambdaRank
    from ranking_plugins.losses.likelihood import Likelihood
    from ranking_plugins.losses.listmle import ListMLE
    from ranking_plugins.losses.listnet import ListNet
    from ranking_plugins.losses.metric import MetricLoss
    from ranking_plugins.losses.metric_exponential import MetricExponential
    from ranking_plugins.losses.pairwise import (
        AUC,
        BPR,
        WARP,
        Hinge,
        KosWARP,
        Logistic,
        SquaredHinge,
    )
    from ranking_plugins.losses.pointwise import PointwiseLogistic, PointwiseSquared
    from ranking_plugins.losses.preference_graph import PreferenceGraph
    from ranking_plugins.losses.shared_negatives import BCE, CCL, Softmax, SoftmaxAtK
    from ranking_plugins.losses.smooth_warp import SmoothWARP
    from ranking_plugins.losses.squared import Squared
    from ranking_plugins.losses.squared_grades import SquaredGrades

__all__ = [
    "AUC",
    "BCE",
    "BPR",
    "CCL",
    "WARP",
    "Alignment",
    "ApproxNDCG",
    "Domination",
    "Exponential",
    "ExponentialPairs",
    "Hinge",
    "KosWARP",
    "LambdaRank",
    "Likelihood",
    "ListMLE",
    "ListNet",
    "Logistic",
    "MetricExponential",
    "MetricLoss",
    "PointwiseLogistic",
    "PointwiseSquared",
    "PreferenceGraph",
    "SmoothWARP",
    "Softmax",
    "SoftmaxAtK",
    "Squared",
    "SquaredGrades",
    "SquaredHinge",
]

_PARTS: PartTable = {
    "domination": (
        "domination",
        "Domination",
        "Each document against all that it must outrank: log(1 + sum exp).",
    ),
    "hinge": ("pairwise", "Hinge", "max(0, 1 - z) of the margin z."),
    "squared-hinge": ("pairwise", "SquaredHinge", "max(0, 1 - z)^2 of the margin z."),
    "logistic": ("pairwise", "Logistic", "log(1 + exp(-z)) of the margin z."),
    "exponential": ("exponential", "Exponential", "exp(-z) of the margin z, linear below -1."),
    "bpr": ("pairwise", "BPR", "Bayesian personalized ranking: the logistic loss."),
    "auc": ("pairwise", "AUC", "The hinge, under its name in recommenders."),
    "warp": (
        "pairwise",
        "WARP",
        "The hinge, weighted by an estimate of the rank: optimizes the top of the list.",
    ),
    "smooth-warp": (
        "smooth_warp",
        "SmoothWARP",
        "log(1 + sum of violations): WARP without jumps, for every solver.",
    ),
    "squared": (
        "squared",
        "Squared",
        "The squared error of all pairs, 0 where no relevance is stored: for svd and nmf.",
    ),
    "kos-warp": ("pairwise", "KosWARP", "WARP for the k-th best of n positives."),
    "pointwise-squared": (
        "pointwise",
        "PointwiseSquared",
        "The squared error of single responses, such as clicks (SVDFeature).",
    ),
    "pointwise-logistic": (
        "pointwise",
        "PointwiseLogistic",
        "The cross entropy of clicked and sampled pairs (SVDFeature).",
    ),
    "likelihood": ("likelihood", "Likelihood", "Of the words of clicked pairs, by topics."),
    "metric": ("metric", "MetricLoss", "1 minus a metric: for the weights of a combination."),
    "softmax": (
        "shared_negatives",
        "Softmax",
        "A positive against many shared negatives: the sampled softmax with a temperature.",
    ),
    "softmax-at-k": (
        "shared_negatives",
        "SoftmaxAtK",
        "The sampled softmax, weighted by how near a positive is to the top k (SL@K).",
    ),
    "ccl": (
        "shared_negatives",
        "CCL",
        "Cosine contrastive loss: negatives count from a margin on (SimpleX).",
    ),
    "bce": (
        "shared_negatives",
        "BCE",
        "Binary cross entropy of a positive and many shared negatives.",
    ),
    "alignment": (
        "alignment",
        "Alignment",
        "-sum clicks * score: needs a regularizer that bounds the embeddings.",
    ),
    "squared-grades": (
        "squared_grades",
        "SquaredGrades",
        "(grade - intercept - score)^2 of judged rows: linear regression.",
    ),
    "listnet": (
        "listnet",
        "ListNet",
        "Cross entropy of the softmax of grades and that of scores.",
    ),
    "listmle": (
        "listmle",
        "ListMLE",
        "Likelihood of the order of the grades (Plackett-Luce).",
    ),
    "lambdarank": (
        "lambdarank",
        "LambdaRank",
        "log(1 + exp(-z)) of pairs, weighted by the change of NDCG if they swap.",
    ),
    "approx-ndcg": (
        "approx_ndcg",
        "ApproxNDCG",
        "1 - NDCG with smooth ranks; not convex.",
    ),
    "exponential-pairs": (
        "exponential_pairs",
        "ExponentialPairs",
        "exp(-z) of all pairs of a list: RankBoost, ExpLoss.",
    ),
    "preference-graph": (
        "preference_graph",
        "PreferenceGraph",
        "log(1 + sum exp) of each subgraph of the preferences of a list.",
    ),
    "metric-exponential": (
        "metric_exponential",
        "MetricExponential",
        "exp(-metric) of each query: AdaRank.",
    ),
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    return load_class(__name__, _PARTS, name)


@hookimpl
def ranking_losses() -> dict[str, Lazy]:
    """Return the losses of this distribution."""
    return lazy_parts(__name__, _PARTS)
