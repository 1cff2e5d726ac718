"""Everything concrete: losses, regularizers, solvers, recipes, callbacks."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranking_plugins.callbacks.checkpoint import Checkpoint
    from ranking_plugins.callbacks.curve import Curve
    from ranking_plugins.callbacks.early_stopping import EarlyStopping
    from ranking_plugins.callbacks.progress import Progress
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
    from ranking_plugins.regularizers.group_l1 import GroupL1
    from ranking_plugins.regularizers.l1 import L1
    from ranking_plugins.regularizers.l1l2_row import L1L2Row
    from ranking_plugins.regularizers.l2 import L2
    from ranking_plugins.regularizers.max_norm import MaxNorm
    from ranking_plugins.regularizers.none import NoPenalty
    from ranking_plugins.regularizers.orthonormal import Orthonormal
    from ranking_plugins.solvers.coordinate import Coordinate
    from ranking_plugins.solvers.sgd import SGD

__all__ = [
    "AUC",
    "BPR",
    "L1",
    "L2",
    "SGD",
    "WARP",
    "Checkpoint",
    "Coordinate",
    "Curve",
    "Domination",
    "EarlyStopping",
    "GroupL1",
    "Hinge",
    "KosWARP",
    "L1L2Row",
    "Logistic",
    "MaxNorm",
    "NoPenalty",
    "Orthonormal",
    "Progress",
    "SquaredHinge",
]

_HOMES = {
    "AUC": "losses.pairwise",
    "BPR": "losses.pairwise",
    "Checkpoint": "callbacks.checkpoint",
    "Coordinate": "solvers.coordinate",
    "Curve": "callbacks.curve",
    "Domination": "losses.domination",
    "EarlyStopping": "callbacks.early_stopping",
    "GroupL1": "regularizers.group_l1",
    "Hinge": "losses.pairwise",
    "KosWARP": "losses.pairwise",
    "L1": "regularizers.l1",
    "L1L2Row": "regularizers.l1l2_row",
    "L2": "regularizers.l2",
    "Logistic": "losses.pairwise",
    "MaxNorm": "regularizers.max_norm",
    "NoPenalty": "regularizers.none",
    "Orthonormal": "regularizers.orthonormal",
    "Progress": "callbacks.progress",
    "SGD": "solvers.sgd",
    "SquaredHinge": "losses.pairwise",
    "WARP": "losses.pairwise",
}


def __getattr__(name: str) -> Any:
    """Import a part when it is first used, so that listing plugins stays quick."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
