"""A run in MLflow: its parts as parameters, its history as metrics, the model as an artifact."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from ranking.contracts.callback import Callback
from ranking.contracts.parameters import boolean
from ranking.contracts.solver import EpochResult
from ranking.errors import PartError
from ranking.io.model_file import PARTS, write_model
from ranking.training.trainer import Trainer


@dataclasses.dataclass
class MLflow(Callback):
    """Logs a training to MLflow, as a run of its own or into the one that is active.

    Needs ``pip install "ranking-kit[mlflow]"``. Where it goes is MLflow's to say, as by the environment
    variable MLFLOW_TRACKING_URI.

    Parameters
    ----------
    experiment : str
        The experiment; by default MLflow's own choice.
    run_name : str
        What the run is called; by default MLflow makes a name.
    model : bool
        Whether the model file is kept as an artifact, ``model.safetensors``, at the end. It has
        no vocabulary: of texts, save the ranker yourself.
    """

    name: ClassVar[str] = "mlflow"

    experiment: str = ""
    run_name: str = ""
    model: bool = boolean(False)

    def _setup(self) -> None:
        self.run_id = ""
        self._ours = False

    def on_fit_begin(self, run: Trainer) -> None:
        """Begin a run, unless one is active, and log what is trained."""
        mlflow = _module()
        active = mlflow.active_run()
        if active is None:
            again = self.run_id if run.history else None  # the next stage of a model that has some
            active = mlflow.start_run(
                run_id=again,
                run_name=None if again else self.run_name or None,
                experiment_id=None if again else self._experiment(mlflow),
            )
            self._ours = True
        self.run_id = active.info.run_id
        told = run.result().description
        params = {kind: getattr(run, kind).spec() for kind in PARTS}
        sizes = {name.replace(" ", "_"): value for name, value in told["training"].items()}
        sizes.pop("stopped")
        mlflow.log_params({**params, **sizes, "kernel": run.kernel.name, "threads": run.threads})
        mlflow.set_tags({"ranking": told["ranking"]})

    def _experiment(self, mlflow: ModuleType) -> str | None:
        """Return the id of the experiment, made if need be; MLflow's own choice is left alone."""
        if not self.experiment:
            return None
        found = mlflow.get_experiment_by_name(self.experiment)
        made: str = found.experiment_id if found else mlflow.create_experiment(self.experiment)
        return made

    def on_epoch_end(self, run: Trainer, result: EpochResult) -> bool:
        """Log the row of the epoch: the objective, and what other callbacks measured before."""
        row = {key: float(value) for key, value in run.history[-1].items() if key != "epoch"}
        finite = {_key(key): value for key, value in row.items() if math.isfinite(value)}
        _module().log_metrics(finite, step=result.epoch, run_id=self.run_id)
        return False

    def on_fit_end(self, run: Trainer) -> None:
        """Keep the model, if that was asked, and end the run, if it is ours."""
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
        """Return the run that a resumed training goes on with."""
        return {"run": self.run_id}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on with the run of the training that is resumed."""
        mlflow, before = _module(), state.get("run", "")
        if before and before != self.run_id and self._ours:
            mlflow.end_run()
            mlflow.MlflowClient().delete_run(self.run_id)
            self.run_id = before
            mlflow.start_run(run_id=before)


def _module() -> ModuleType:
    """Import MLflow, or say how to get it."""
    try:
        import mlflow
    except ImportError as error:
        raise PartError(
            f'callback mlflow needs MLflow ({error}); pip install "ranking-kit[mlflow]".'
        ) from error
    made: ModuleType = mlflow
    return made


def _key(name: str) -> str:
    """Spell a name with the letters that MLflow takes."""
    return "".join(one if one.isalnum() or one in "_-./ " else "_" for one in name)
