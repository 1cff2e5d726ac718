"""The MLflow flavour writes a model file and a description, no pickle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import make_judged

from ranking import Ranker
from ranking.errors import PartError


@pytest.mark.filterwarnings("ignore:.*Any type hint:UserWarning")  # mlflow's own, at its import
def test_a_model_comes_back_from_its_folder(tmp_path: Path):
    pytest.importorskip("mlflow", reason="mlflow is not installed", exc_type=ImportError)
    import mlflow.pyfunc

    from ranking_plugins import mlflow_flavor

    data = make_judged(0)
    ranker = Ranker.from_recipe("listnet").fit(data)
    mlflow_flavor.save_model(ranker, tmp_path / "m")
    assert {one.name for one in (tmp_path / "m").iterdir()} == {"MLmodel", "model.safetensors"}
    assert np.array_equal(mlflow_flavor.load_model(tmp_path / "m").coef_, ranker.coef_)
    scores = mlflow.pyfunc.load_model(str(tmp_path / "m")).predict(data.features)
    assert np.array_equal(scores, ranker.predict(data.features))
    with pytest.raises(PartError, match="not empty"):
        mlflow_flavor.save_model(ranker, tmp_path / "m")
