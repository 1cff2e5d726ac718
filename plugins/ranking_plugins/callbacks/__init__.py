"""Callbacks. Classes are imported when they are first used."""

from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl
from ranking.registry.parts import PartTable, lazy_parts, load_class

if TYPE_CHECKING:
    from ranking_plugins.callbacks.checkpoint import Checkpoint
    from ranking_plugins.callbacks.curve import Curve
    from ranking_plugins.callbacks.early_stopping import EarlyStopping
    from ranking_plugins.callbacks.mlflow import MLflow
    from ranking_plugins.callbacks.progress import Progress

__all__ = [
    "Checkpoint",
    "Curve",
    "EarlyStopping",
    "MLflow",
    "Progress",
]

_PARTS: PartTable = {
    "early-stopping": (
        "early_stopping",
        "EarlyStopping",
        "Stop when a metric on the validation data no longer improves.",
    ),
    "checkpoint": (
        "checkpoint",
        "Checkpoint",
        "Store the run on disk after each epoch, so that it can be resumed.",
    ),
    "curve": (
        "curve",
        "Curve",
        "Compute metrics on the validation data after each epoch: a learning curve.",
    ),
    "mlflow": (
        "mlflow",
        "MLflow",
        "Log parts, epochs and the model to MLflow; needs ranking-kit[mlflow].",
    ),
    "progress": ("progress", "Progress", "Show epochs, objective and metric on the terminal."),
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    return load_class(__name__, _PARTS, name)


@hookimpl
def ranking_callbacks() -> dict[str, Lazy]:
    """Return the callbacks of this distribution."""
    return lazy_parts(__name__, _PARTS)
