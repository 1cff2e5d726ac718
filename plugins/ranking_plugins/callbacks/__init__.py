"""Callbacks. Classes are imported when they are first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ranking.contracts.hooks import Lazy, hookimpl

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

_MODULES = {
    "Checkpoint": "checkpoint",
    "Curve": "curve",
    "EarlyStopping": "early_stopping",
    "MLflow": "mlflow",
    "Progress": "progress",
}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used."""
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@hookimpl
def ranking_callbacks() -> dict[str, Lazy]:
    """Return the callbacks of this distribution."""
    return {
        "early-stopping": Lazy(
            "ranking_plugins.callbacks.early_stopping:EarlyStopping",
            help="Stop when a metric on the validation data no longer improves.",
        ),
        "checkpoint": Lazy(
            "ranking_plugins.callbacks.checkpoint:Checkpoint",
            help="Store the run on disk after each epoch, so that it can be resumed.",
        ),
        "curve": Lazy(
            "ranking_plugins.callbacks.curve:Curve",
            help="Compute metrics on the validation data after each epoch: a learning curve.",
        ),
        "mlflow": Lazy(
            "ranking_plugins.callbacks.mlflow:MLflow",
            help="Log parts, epochs and the model to MLflow; needs ranking-kit[mlflow].",
        ),
        "progress": Lazy(
            "ranking_plugins.callbacks.progress:Progress",
            help="Show epochs, objective and metric on the terminal.",
        ),
    }
