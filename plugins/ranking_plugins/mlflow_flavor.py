"""An MLflow flavour without pickle: a folder with one model file and its description.

Needs ``pip install "ranking-kit[mlflow]"``. ``mlflow.pyfunc.load_model`` reads the folder too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ranking import Ranker
from ranking.errors import PartError

FILE = "model.safetensors"
FLAVOR = "ranking"


def save_model(ranker: Ranker, path: str | Path) -> None:
    """Write a fitted ranker as an MLflow model.

    Parameters
    ----------
    ranker : Ranker
    path : str or Path
        A new or empty folder.
    """
    model = _models().Model()
    _write(ranker, Path(path), model)


def log_model(ranker: Ranker, name: str = "model") -> None:
    """Log a fitted ranker to the active MLflow run, as the artifact folder `name`."""
    import tempfile

    import mlflow

    with tempfile.TemporaryDirectory() as folder:
        save_model(ranker, Path(folder) / name)
        mlflow.log_artifacts(str(Path(folder) / name), name)


def load_model(path: str | Path) -> Ranker:
    """Read the ranker of an MLflow model; no code of the folder is run.

    Parameters
    ----------
    path : str or Path
        The folder that `save_model` wrote, or the URI of an artifact.
    """
    folder = Path(path)
    if not folder.exists():
        import mlflow

        folder = Path(mlflow.artifacts.download_artifacts(str(path)))
    return Ranker.load(folder / FILE)


def _write(ranker: Ranker, folder: Path, model: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise PartError(f"{folder} is not empty; name a new folder.")
    ranker.save(folder / FILE)
    model.add_flavor("python_function", loader_module=__name__, data=FILE)
    model.add_flavor(FLAVOR, file=FILE)
    model.save(str(folder / "MLmodel"))


def _models() -> Any:
    try:
        import mlflow.models
    except ImportError as error:
        raise PartError(
            "the flavour needs the package mlflow-skinny; install it with "
            "pip install 'ranking-kit[mlflow]'."
        ) from error
    return mlflow.models


def _load_pyfunc(path: str) -> _Predictor:
    """Return what ``mlflow.pyfunc.load_model`` calls."""
    return _Predictor(Ranker.load(path))


class _Predictor:
    """Scores of rows, as MLflow asks for them."""

    def __init__(self, ranker: Ranker) -> None:
        self.ranker = ranker

    def predict(self, rows: Any, params: Any = None) -> Any:
        """Return one score per row."""
        return self.ranker.predict(rows)
