"""Observers."""

from ranking.registry import Lazy, hookimpl


@hookimpl
def ranking_observers() -> dict[str, Lazy]:
    """Return the observers of this distribution."""
    return {
        "early-stopping": Lazy(
            "ranking_plugins.observers.early_stopping:EarlyStopping",
            help="Stops when a metric on the validation data no longer gets better.",
        ),
        "checkpoint": Lazy(
            "ranking_plugins.observers.checkpoint:Checkpoint",
            help="Keeps the run on disk after each epoch, so that it can be resumed.",
        ),
        "curve": Lazy(
            "ranking_plugins.observers.curve:Curve",
            help="Measures metrics on the validation data after each epoch: a learning curve.",
        ),
        "mlflow": Lazy(
            "ranking_plugins.observers.mlflow:MLflow",
            help="Logs parts, epochs and the model to MLflow; needs ranking[mlflow].",
        ),
        "progress": Lazy(
            "ranking_plugins.observers.progress:Progress",
            help="Shows epochs, objective and metric on the terminal.",
        ),
    }
