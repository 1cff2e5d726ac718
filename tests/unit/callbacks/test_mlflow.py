"""The callback of MLflow, against what MLflow itself has stored; `pip install mlflow-skinny`."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from ranking import Ranker
from ranking.errors import PartError
from ranking_plugins.callbacks import EarlyStopping, MLflow


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports
        monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        module = pytest.importorskip("mlflow", reason='pip install "ranking-kit[mlflow]"')
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        module.set_tracking_uri((tmp_path / "runs").as_uri())
        yield module
        module.end_run()


def parts(**changes):
    result = {"loss": "domination", "regularizer": "l2:strength=0.01", "solver": "coordinate"}
    return {**result, "random_state": 3, **changes}


def test_parts_epochs_and_model_are_stored(mlflow, judged, valid):
    watch, log = EarlyStopping(metric="ndcg@5", patience=2), MLflow("films", "first", model=True)
    ranker = Ranker(**parts(), callbacks=[watch, log]).fit(judged, valid=valid)
    assert mlflow.active_run() is None
    stored = mlflow.get_run(log.run_id)
    assert stored.info.run_name == "first"
    assert stored.info.status == "FINISHED"
    assert mlflow.get_experiment(stored.info.experiment_id).name == "films"
    assert stored.data.params["loss"] == ranker.loss_.spec()
    assert stored.data.params["regularizer"] == "l2:strength=0.01"
    assert stored.data.params["random_state"] == "3"
    assert stored.data.params["queries"] == str(judged.n_queries)
    assert stored.data.tags["stopped"] == ranker.stopped_
    client = mlflow.MlflowClient()
    for name in ("objective", next(key for key in ranker.history_[0] if key.startswith("ndcg"))):
        key = "".join(one if one.isalnum() or one in "_-./ " else "_" for one in name)
        history = client.get_metric_history(log.run_id, key)
        assert [metric.step for metric in history] == [row["epoch"] for row in ranker.history_]
        assert [metric.value for metric in history] == [row[name] for row in ranker.history_]
    path = mlflow.artifacts.download_artifacts(run_id=log.run_id, artifact_path="model.safetensors")
    again = Ranker.load(path)
    assert np.array_equal(again.predict(judged), ranker.predict(judged))


def test_a_run_that_is_active_is_used_and_left_open(mlflow, judged):
    with mlflow.start_run() as active:
        log = MLflow()
        Ranker(**parts(), callbacks=[log]).fit(judged)
        assert mlflow.active_run().info.run_id == active.info.run_id == log.run_id
    assert not mlflow.MlflowClient().list_artifacts(log.run_id)


def test_each_fit_is_a_run_and_a_resumed_one_goes_on(mlflow, judged):
    log = MLflow()
    ranker = Ranker(**parts(), callbacks=[log])
    ranker.fit(judged)
    first = log.run_id
    run = ranker.plan().trainer(judged)
    run.train()
    assert log.run_id != first
    snapshot, second = run.snapshot(), log.run_id
    snapshot.facts["stopped"] = ""
    ranker.plan().trainer(judged).train(snapshot)
    assert log.run_id == second
    assert len(mlflow.search_runs(output_format="list")) == 2


def test_without_mlflow_the_remedy_is_named(monkeypatch, judged):
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(PartError, match=r'needs MLflow .*pip install "ranking-kit\[mlflow\]"'):
        Ranker(**parts(), callbacks=["mlflow"]).fit(judged)
