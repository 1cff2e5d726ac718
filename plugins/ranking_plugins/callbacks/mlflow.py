"""Runs in MLflow: parts as parameters, the history as metrics, the model as an artifact."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from ranking.contracts.callback import Callback, TrainingRun
from ranking.contracts.parameters import boolean
from ranking.contracts.solver import EpochResult
from ranking.errors import PartError
from ranking.io.model_file import PARTS, write_model


@dataclasses.dataclass
class MLflow(Callback):
    """Log training to MLflow, as a new run or into the active one.

    Needs ``pip install "ranking-kit[mlflow]"``. MLflow decides where runs are stored, for example
    by the environment variable MLFLOW_TRACKING_URI.

    Parameters
    ----------
    experiment : str
        The experiment; by default that of MLflow.
    run_name : str
        The name of the run; by default MLflow chooses one.
    model : bool
        Whether to log the model file as an artifact, ``model.safetensors``, at the end. It has no
        vocabulary: for texts, save the ranker yourself.
    """

    name: ClassVar[str] = "mlflow"

    experiment: str = ""
    run_name: str = ""
    model: bool = boolean(False)

    def _setup(self) -> None:
        self.run_id = ""
        self._ours = False

    def on_fit_begin(self, run: TrainingRun) -> None:
        """Start a run, unless one is active, and log the parts and the sizes of the data."""
        mlflow = _module()
        active = mlflow.active_run()
        if active is None:
            run_id = self.run_id if run.history else None  # the next stage of a model
            active = mlflow.start_run(
                run_id=run_id,
                run_name=None if run_id else self.run_name or None,
                experiment_id=None if run_id else self._experiment(mlflow),
            )
            self._ours = True
        self.run_id = active.info.run_id
        description = run.result().description
        params = {kind: getattr(run, kind).spec() for kind in PARTS}
        sizes = {name.replace(" ", "_"): value for name, value in description["training"].items()}
        sizes.pop("stopped")
        mlflow.log_params({**params, **sizes, "kernel": run.kernel.name, "threads": run.threads})
        mlflow.set_tags({"ranking": description["ranking"]})

    def _experiment(self, mlflow: ModuleType) -> str | None:
        """Return the id of the experiment, created if necessary, or None for the default."""
        if not self.experiment:
            return None
        existing = mlflow.get_experiment_by_name(self.experiment)
        if existing:
            return str(existing.experiment_id)
        return str(mlflow.create_experiment(self.experiment))

    def on_epoch_end(self, run: TrainingRun, result: EpochResult) -> bool:
        """Log the row of the epoch: the objective, and the metrics of callbacks before this one."""
        row = {key: float(value) for key, value in run.history[-1].items() if key != "epoch"}
        finite = {_key(key): value for key, value in row.items() if math.isfinite(value)}
        _module().log_metrics(finite, step=result.epoch, run_id=self.run_id)
        return False

    def on_fit_end(self, run: TrainingRun) -> None:
        """Log the model if requested, and end the run if this callback started it."""
        mlflow = _module()
        mlflow.set_tag("stopped", run.stopped or "failed")
        if self.model and run.history:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.safetensors"
                write_model(path, run.result())
                mlflow.log_artifact(str(path))
        if self._ours:
            mlflow.end_run("FINISHED" if run.stopped else "FAILED")
            self._ours = False

    def state(self) -> dict[str, Any]:
        """Return the id of the run, with which a resumed training continues."""
        return {"run": self.run_id}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue with the run of the resumed training."""
        mlflow, previous = _module(), state.get("run", "")
        if previous and previous != self.run_id and self._ours:
            mlflow.end_run()
            mlflow.MlflowClient().delete_run(self.run_id)
            self.run_id = previous
            mlflow.start_run(run_id=previous)


def _module() -> ModuleType:
    """Import MLflow; the error says how to install it."""
    try:
        import mlflow
    except ImportError as error:
        raise PartError(
            f'callback mlflow needs MLflow ({error}); pip install "ranking-kit[mlflow]".'
        ) from error
    module: ModuleType = mlflow
    return module


def _key(name: str) -> str:
    """Return a name with only the characters that MLflow accepts."""
    return "".join(one if one.isalnum() or one in "_-./ " else "_" for one in name)
