"""Regularizers. Classes are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl

if TYPE_CHECKING:
    from ranking_plugins.regularizers.elastic import Elastic
    from ranking_plugins.regularizers.group_l1 import GroupL1
    from ranking_plugins.regularizers.l1 import L1
    from ranking_plugins.regularizers.l1_row import L1Row
    from ranking_plugins.regularizers.l1l2_row import L1L2Row
    from ranking_plugins.regularizers.l2 import L2
    from ranking_plugins.regularizers.max_norm import MaxNorm
    from ranking_plugins.regularizers.none import NoPenalty
    from ranking_plugins.regularizers.orthonormal import Orthonormal

__all__ = [
    "L1",
    "L2",
    "Elastic",
    "GroupL1",
    "L1L2Row",
    "L1Row",
    "MaxNorm",
    "NoPenalty",
    "Orthonormal",
]

_MODULES = {
    "L1": "l1",
    "L2": "l2",
    "Elastic": "elastic",
    "GroupL1": "group_l1",
    "L1L2Row": "l1l2_row",
    "L1Row": "l1_row",
    "MaxNorm": "max_norm",
    "NoPenalty": "none",
    "Orthonormal": "orthonormal",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def ranking_regularizers() -> dict[str, Lazy]:
    """Return the regularizers of this distribution."""
    return {
        "l1": Lazy(
            "ranking_plugins.regularizers.l1:L1", help="strength * |w|: makes weights exactly zero."
        ),
        "l2": Lazy(
            "ranking_plugins.regularizers.l2:L2", help="strength/2 * w^2: keeps weights small."
        ),
        "max-norm": Lazy(
            "ranking_plugins.regularizers.max_norm:MaxNorm",
            help="norm of each row <= limit: longer rows are scaled back.",
        ),
        "l1l2-row": Lazy(
            "ranking_plugins.regularizers.l1l2_row:L1L2Row",
            help="strength * |row| within norm <= limit: sparse rows, as RMLS has them.",
        ),
        "l1-row": Lazy(
            "ranking_plugins.regularizers.l1_row:L1Row",
            help="sum |row| <= limit: degenerates for alignment; l1l2-row does not.",
        ),
        "orthonormal": Lazy(
            "ranking_plugins.regularizers.orthonormal:Orthonormal",
            help="orthogonal columns of one length: by retraction to the polar factor.",
        ),
        "elastic": Lazy(
            "ranking_plugins.regularizers.elastic:Elastic",
            help="l1 and l2 in given shares: some weights zero, the others small.",
        ),
        "group-l1": Lazy(
            "ranking_plugins.regularizers.group_l1:GroupL1",
            help="strength * norm by groups: whole rows or columns become zero.",
        ),
        "none": Lazy("ranking_plugins.regularizers.none:NoPenalty", help="No penalty."),
    }
