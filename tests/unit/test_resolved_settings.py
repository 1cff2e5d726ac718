"""Model files record the settings that were used, never "auto", and a schema version."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import Ranker, TextCollection
from ranking.io.model_file import SCHEMA_VERSION
from ranking.io.tensors import read_tensors
from ranking.registry.spec import parse_spec
from ranking_plugins.solvers.factored_steps import FactoredSteps


def recorded(ranker: Ranker, path) -> dict[str, str]:
    ranker.save(path)
    description = read_tensors(path)[1]
    assert description["schema_version"] == SCHEMA_VERSION
    assert description["kernel"]["name"] == ranker.kernel_.name
    return {kind: part["spec"] for kind, part in description["parts"].items()}


@pytest.mark.parametrize(
    ("model", "loss", "regularizer", "solver"),
    [
        ("auto", "warp", "none", "auto"),
        ("factored:dimensions=4", "bpr", "l2:strength=0.01", "sgd:epochs=2"),
        ("bilinear", "hinge", "l1:strength=0.001", "sgd:max_steps=100"),
        ("bilinear", "hinge", "none", "sgd:epochs=1,steps_per_epoch=50,refit=true"),
        ("structured:dimensions=4,stages=1,k=2", "warp", "none", "sgd:epochs=1"),
        ("factored:dimensions=4", "alignment", "l1l2-row:strength=0.1", "alternating"),
        ("factored:dimensions=4", "alignment", "orthonormal", "alternating"),
    ],
)
def test_no_spec_says_auto(make_tastes, tmp_path, model, loss, regularizer, solver):
    ranker = Ranker(model, loss, regularizer, solver).fit(make_tastes(0))
    specs = recorded(ranker, tmp_path / "model")
    assert not [spec for spec in specs.values() if "auto" in spec]
    if not solver.startswith("alternating"):
        params = parse_spec(specs["solver"]).params
        names = {"learning_rate", "schedule", "sampling", "batch_size", "prox_interval"}
        assert names | {"steps_per_epoch"} <= set(params)
        assert ("max_steps" in params) != ("epochs" in params)


def test_judged_rows_record_the_estimated_learning_rate(judged, tmp_path):
    ranker = Ranker("linear", "hinge", "l2:strength=0.1", "sgd:max_steps=200").fit(judged)
    spec = recorded(ranker, tmp_path / "model")["solver"]
    again = Ranker("linear", "hinge", "l2:strength=0.1", spec).fit(judged)
    assert parse_spec(spec).params["learning_rate"] != 200.0
    assert again.model_.weights.tobytes() == ranker.model_.weights.tobytes()


@pytest.mark.parametrize("loss", ["warp", "bpr"])
def test_the_recorded_settings_train_the_same_model(make_tastes, tmp_path, loss):
    data = make_tastes(0)
    ranker = Ranker("factored:dimensions=4", loss, "none", "sgd:epochs=2").fit(data)
    specs = recorded(ranker, tmp_path / "model")
    again = Ranker(**specs).fit(data)
    for name, tensor in ranker.model_.tensors().items():
        assert np.array_equal(tensor, again.model_.tensors()[name]), name


def test_the_recorded_batch_size_is_the_one_in_use(make_tastes, tmp_path, monkeypatch):
    sizes = []
    run = FactoredSteps._take_steps

    def spy(self, *args):
        sizes.append(self.batch_size)
        return run(self, *args)

    monkeypatch.setattr(FactoredSteps, "_take_steps", spy)
    for features in ("none", "both"):
        sizes.clear()
        ranker = Ranker("factored:dimensions=4", "warp", "none", "sgd:epochs=1")
        ranker.fit(make_tastes(0, features=features))
        spec = recorded(ranker, tmp_path / "model")["solver"]
        assert set(sizes) == {parse_spec(spec).params["batch_size"]}


def test_features_of_texts_are_recorded_without_auto(tmp_path):
    words = ["red wine", "blue sea"], ["red", "sea water", "wine"]
    relevance = [[1, 0, 1], [0, 1, 0]]
    texts = TextCollection([1, 2], words[0], [1, 2, 3], words[1], relevance)
    ranker = Ranker("bilinear", "hinge", solver="sgd:max_steps=10").fit(texts)
    ranker.save(tmp_path / "model")
    assert "unit_length=True" in read_tensors(tmp_path / "model")[1]["text"]
    assert Ranker.load(tmp_path / "model").predict(texts).shape == (2, 3)
