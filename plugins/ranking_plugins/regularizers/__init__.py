"""Regularizers. Classes are imported when they are first used."""

from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl
from ranking.registry.parts import PartTable, lazy_parts, load_class

if TYPE_CHECKING:
    from ranking_plugins.regularizers.elastic import Elastic
    from ranking_plugins.regularizers.graph import Graph
    from ranking_plugins.regularizers.group_l1 import GroupL1
    from ranking_plugins.regularizers.hierarchical_group_l1 import HierarchicalGroupL1
    from ranking_plugins.regularizers.l1 import L1
    from ranking_plugins.regularizers.l1_row import L1Row
    from ranking_plugins.regularizers.l1l2_row import L1L2Row
    from ranking_plugins.regularizers.l2 import L2
    from ranking_plugins.regularizers.mask import Mask
    from ranking_plugins.regularizers.max_norm import MaxNorm
    from ranking_plugins.regularizers.none import NoPenalty
    from ranking_plugins.regularizers.orthonormal import Orthonormal

__all__ = [
    "L1",
    "L2",
    "Elastic",
    "Graph",
    "GroupL1",
    "HierarchicalGroupL1",
    "L1L2Row",
    "L1Row",
    "Mask",
    "MaxNorm",
    "NoPenalty",
    "Orthonormal",
]

_PARTS: PartTable = {
    "l1": ("l1", "L1", "strength * |w|: makes weights exactly zero."),
    "l2": ("l2", "L2", "strength/2 * w^2: keeps weights small."),
    "max-norm": ("max_norm", "MaxNorm", "norm of each row <= limit: longer rows are scaled back."),
    "l1l2-row": (
        "l1l2_row",
        "L1L2Row",
        "strength * |row| within norm <= limit: sparse rows, as RMLS has them.",
    ),
    "l1-row": (
        "l1_row",
        "L1Row",
        "sum |row| <= limit: degenerates for alignment; l1l2-row does not.",
    ),
    "orthonormal": (
        "orthonormal",
        "Orthonormal",
        "orthogonal columns of one length: by retraction to the polar factor.",
    ),
    "elastic": (
        "elastic",
        "Elastic",
        "l1 and l2 in given shares: some weights zero, the others small.",
    ),
    "group-l1": (
        "group_l1",
        "GroupL1",
        "strength * norm by groups: whole rows or columns become zero.",
    ),
    "hierarchical-group-l1": (
        "hierarchical_group_l1",
        "HierarchicalGroupL1",
        "strength * norm of each group of a tree: zero groups have zero groups below them.",
    ),
    "mask": (
        "mask",
        "Mask",
        "only given pairs of features may have a weight, or others are penalized by L1.",
    ),
    "graph": (
        "graph",
        "Graph",
        "strength/2 * squared differences of linked features: a graph as prior knowledge.",
    ),
    "none": ("none", "NoPenalty", "No penalty."),
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    return load_class(__name__, _PARTS, name)


@hookimpl
def ranking_regularizers() -> dict[str, Lazy]:
    """Return the regularizers of this distribution."""
    return lazy_parts(__name__, _PARTS)
