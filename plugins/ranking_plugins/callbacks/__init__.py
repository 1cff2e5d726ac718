"""Callbacks."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_callbacks() -> dict[str, Lazy]:
    """Return the callbacks of this distribution."""
    return {
        "early-stopping": Lazy(
            "ranking_plugins.callbacks.early_stopping:EarlyStopping",
            help="Stops when a metric on the validation data no longer gets better.",
        ),
        "checkpoint": Lazy(
            "ranking_plugins.callbacks.checkpoint:Checkpoint",
            help="Keeps the run on disk after each epoch, so that it can be resumed.",
        ),
        "curve": Lazy(
            "ranking_plugins.callbacks.curve:Curve",
            help="Measures metrics on the validation data after each epoch: a learning curve.",
        ),
        "mlflow": Lazy(
            "ranking_plugins.callbacks.mlflow:MLflow",
            help="Logs parts, epochs and the model to MLflow; needs ranking[mlflow].",
        ),
        "progress": Lazy(
            "ranking_plugins.callbacks.progress:Progress",
            help="Shows epochs, objective and metric on the terminal.",
        ),
    }
