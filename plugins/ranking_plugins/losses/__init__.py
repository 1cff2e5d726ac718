"""Losses. Classes are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl

if TYPE_CHECKING:
    from ranking_plugins.losses.alignment import Alignment
    from ranking_plugins.losses.domination import Domination
    from ranking_plugins.losses.pairwise import (
        AUC,
        BPR,
        WARP,
        Hinge,
        KosWARP,
        Logistic,
        SquaredHinge,
    )
    from ranking_plugins.losses.smooth_warp import SmoothWARP
    from ranking_plugins.losses.squared import Squared

__all__ = [
    "AUC",
    "BPR",
    "WARP",
    "Alignment",
    "Domination",
    "Hinge",
    "KosWARP",
    "Logistic",
    "SmoothWARP",
    "Squared",
    "SquaredHinge",
]

_MODULES = {
    "AUC": "pairwise",
    "BPR": "pairwise",
    "WARP": "pairwise",
    "Alignment": "alignment",
    "Domination": "domination",
    "Hinge": "pairwise",
    "KosWARP": "pairwise",
    "Logistic": "pairwise",
    "SmoothWARP": "smooth_warp",
    "Squared": "squared",
    "SquaredHinge": "pairwise",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def ranking_losses() -> dict[str, Lazy]:
    """Return the losses of this distribution."""
    return {
        "domination": Lazy(
            "ranking_plugins.losses.domination:Domination",
            help="Each document against all that it must outrank: log(1 + sum exp).",
        ),
        "hinge": Lazy(
            "ranking_plugins.losses.pairwise:Hinge",
            help="max(0, 1 - z) of the margin z.",
        ),
        "squared-hinge": Lazy(
            "ranking_plugins.losses.pairwise:SquaredHinge", help="max(0, 1 - z)^2 of the margin z."
        ),
        "logistic": Lazy(
            "ranking_plugins.losses.pairwise:Logistic", help="log(1 + exp(-z)) of the margin z."
        ),
        "bpr": Lazy(
            "ranking_plugins.losses.pairwise:BPR",
            help="Bayesian personalized ranking: the logistic loss.",
        ),
        "auc": Lazy(
            "ranking_plugins.losses.pairwise:AUC", help="The hinge, under its name in recommenders."
        ),
        "warp": Lazy(
            "ranking_plugins.losses.pairwise:WARP",
            help="The hinge, weighted by an estimate of the rank: optimizes the top of the list.",
        ),
        "smooth-warp": Lazy(
            "ranking_plugins.losses.smooth_warp:SmoothWARP",
            help="log(1 + sum of violations): WARP without jumps, for every solver.",
        ),
        "squared": Lazy(
            "ranking_plugins.losses.squared:Squared",
            help="The squared error of all pairs, 0 where no relevance is stored: for svd and nmf.",
        ),
        "kos-warp": Lazy(
            "ranking_plugins.losses.pairwise:KosWARP",
            help="WARP for the k-th best of n positives.",
        ),
        "alignment": Lazy(
            "ranking_plugins.losses.alignment:Alignment",
            help="-sum clicks * score: needs a regularizer that bounds the embeddings.",
        ),
    }
