"""Learning to rank and match: a model x a loss x a regularizer x a solver, run by a kernel."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ranking.data.judged_lists import JudgedLists
    from ranking.data.matching_data import MatchingData
    from ranking.data.readers.read import read, read_any
    from ranking.data.text_collection import TextCollection
    from ranking.kernels.select import get_kernel
    from ranking.ranker import Ranker

__all__ = [
    "JudgedLists",
    "MatchingData",
    "Ranker",
    "TextCollection",
    "get_kernel",
    "read",
    "read_any",
]

_HOMES = {
    "JudgedLists": "ranking.data.judged_lists",
    "MatchingData": "ranking.data.matching_data",
    "Ranker": "ranking.ranker",
    "TextCollection": "ranking.data.text_collection",
    "get_kernel": "ranking.kernels.select",
    "read": "ranking.data.readers.read",
    "read_any": "ranking.data.readers.read",
}


def __getattr__(name: str) -> Any:
    """Import the public names when they are first used, so that `import ranking` is quick."""
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'ranking' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
