"""The recipe `recommend`: families compared on held-out positives, and sums of two of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ranking import MatchingData, Ranker, split_data
from ranking.data.exclusions import find_exclusions
from ranking.errors import CombinationError, DataError, ModelFileError, PartError
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.combination import Combination
from ranking.models.item_item import ItemItem
from ranking_plugins import families
from ranking_plugins.families import Trial, families_for
from ranking_plugins.solvers.selection import SHARES

WARP = {"model": "factored:dimensions=8", "solver": "sgd:max_steps=300"}
SMALL = {
    "graph-filter": [
        Trial(
            "graph-filter",
            {"model": "item-item:dimensions=6,low_pass=0.3"},
            [{}, {"dimensions": 3}, {"low_pass": 0.0}],
        ),
    ],
    "ials": [
        Trial(
            "ials",
            {
                "model": "factored:dimensions=8,biases=false",
                "loss": "squared:unobserved=0.01",
                "regularizer": one,
            },
        )
        for one in ("l2:strength=0.05,frequency=1", "l2:strength=1,frequency=1")
    ],
    "warp": [Trial("warp", WARP)],
}


@pytest.fixture
def data() -> MatchingData:
    rng = np.random.default_rng(5)
    tastes = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 25))
    users, items = np.nonzero(tastes + 0.5 * rng.normal(size=tastes.shape) > 1.0)
    return MatchingData.from_interactions(
        [f"u{one}" for one in users], [f"i{one}" for one in items]
    )


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FAMILIES", SMALL)


def fitted(data: MatchingData, solver: str = "selection:share=0.2", **options) -> Ranker:
    loss = "metric:measure=ndcg@5"
    return Ranker.from_recipe("recommend", loss=loss, solver=solver, **options).fit(data)


def test_each_family_is_tried_and_the_best_ones_again(data):
    trials = fitted(data).solver_.report["trials"]
    assert [one["recipe"] for one in trials][:3] == ["graph-filter", "ials", "warp"]
    two = sorted(trials[:3], key=lambda one: -one["value"])[:2]
    assert len(trials) == (4 if any(one["recipe"] == "ials" for one in two) else 3)
    assert len(fitted(data, "selection:max_trials=2").solver_.report["trials"]) == 2


def test_the_reported_values_are_those_of_models_of_the_training_part(data):
    ranker = fitted(data)
    part, held_out = split_data(data, method="random", share=0.2, seed=0, check=False)
    report = ranker.solver_.report
    rankers = [
        Ranker.from_recipe(one["recipe"], **SMALL[one["recipe"]][0].parts).fit(part)
        for one in report["trials"][:3]
    ]
    held_out = held_out.select(np.flatnonzero(np.diff(held_out.relevance.indptr)))
    for one, single in zip(report["trials"], rankers, strict=False):
        single.model_ = single.model_.adjusted(**one["variant"]) or single.model_
        value = single.evaluate(held_out, metrics="ndcg@5", exclude=part).mean("ndcg@5")
        assert value == pytest.approx(one["value"])
    assert report["value"] >= max(one["value"] for one in report["trials"])


def test_the_value_of_a_sum_is_that_of_a_combination(data):
    ranker = fitted(data, "selection:share=0.2,max_trials=3")
    report = ranker.solver_.report
    assert len(report["chosen"]) == 2
    part, held_out = split_data(data, method="random", share=0.2, seed=0, check=False)
    held_out = held_out.select(np.flatnonzero(np.diff(held_out.relevance.indptr)))
    pair = []
    for one in report["chosen"]:
        component = Ranker.from_recipe(one["recipe"], **SMALL[one["recipe"]][0].parts).fit(part)
        component.model_ = component.model_.adjusted(**one["variant"]) or component.model_
        pair.append(component)
    exclusions = find_exclusions(held_out, part, but_relevant=True)

    def value(share: float) -> float:
        model = Combination(pair, normalize=True)
        model.weights = np.array([share, 1.0 - share])
        metric = parse_metric("ndcg@5")
        values = evaluate_model(model, [metric], held_out, ranker.kernel_, 1, exclusions)
        return mean(values[metric.spelled()])

    assert value(report["weights"][0]) == pytest.approx(report["value"])
    assert report["value"] == pytest.approx(max(map(value, SHARES)))


def test_the_model_is_trained_on_all_positives_and_sums_normalized_scores(data):
    ranker = fitted(data)
    report, model = ranker.solver_.report, ranker.model_
    parts = []
    for one in report["chosen"]:
        trial = next(
            trial
            for trial in SMALL[one["recipe"]]
            if all(one[key] == spec for key, spec in trial.parts.items())
        )
        single = Ranker.from_recipe(one["recipe"], **trial.parts).fit(data)
        single.model_ = single.model_.adjusted(**one["variant"]) or single.model_
        parts.append(single.predict(data))
    expected = sum(
        weight * scores / scores.std(axis=1, keepdims=True)
        for weight, scores in zip(report["weights"], parts, strict=True)
    )
    np.testing.assert_allclose(ranker.predict(data), expected, rtol=1e-5)
    assert [one.model.name for one in model.components]
    assert ranker.history_[-1]["value"] == pytest.approx(1.0 - ranker.objective_)


def test_the_same_seed_gives_the_same_bits_and_a_resumed_run_too(data):
    whole = fitted(data)
    again = fitted(data)
    stopped = Ranker.from_recipe(
        "recommend", loss="metric:measure=ndcg@5", solver="selection:share=0.2"
    )
    trainer = stopped.plan().trainer(data)
    epochs = trainer.solver.run_epochs(trainer.problem())
    trainer.record(next(epochs))
    trainer.record(next(epochs))
    snapshot = trainer.snapshot()
    resumed = stopped.plan().trainer(data)
    resumed.train(snapshot)
    for other in (again.model_, resumed.model):
        tensors = other.tensors()
        assert tensors.keys() == whole.model_.tensors().keys()
        for name, array in whole.model_.tensors().items():
            assert np.array_equal(array, tensors[name]), name


def test_a_sum_is_stored_folds_in_and_is_explained(data, tmp_path: Path):
    ranker = fitted(data)
    users = data.query_ids[:4].tolist()
    pair = [
        Ranker.from_recipe("graph-filter", **SMALL["graph-filter"][0].parts).fit(data),
        Ranker.from_recipe("ials", **SMALL["ials"][0].parts).fit(data),
    ]
    model = ranker.model_
    model.attach_models([(one.model_, None, one.loss_, one.regularizer_) for one in pair])
    model.weights = np.array([0.4, 0.6])
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert dict(loaded.recommend(users, 5)) == dict(ranker.recommend(users, 5))

    best = ranker.recommend(users[:1], 1)[users[0]][0]
    parts = loaded.explain(users[0], best[0])
    assert sum(part.contribution for part in parts) == pytest.approx(best[1], rel=1e-5)
    assert [part.query_feature for part in parts].count(pair[1].model_.spec()) == 1

    seen = loaded.seen_.positives[[0]].indices
    history = data.document_ids[seen].tolist()
    folded = [item for item, _ in loaded.fold_in(data, {"new": history}, 5)["new"]]
    assert len(set(folded) & {item for item, _ in loaded.recommend(users[:1], 5)[users[0]]}) >= 3
    assert not set(folded) & set(history)

    ranker.save(tmp_path / "private.safetensors", seen=False)
    private = Ranker.load(tmp_path / "private.safetensors")
    items = [one.model for one in private.model_.components if isinstance(one.model, ItemItem)]
    assert [one.histories.nnz for one in items] == [0]
    assert dict(private.fold_in(data, {"new": history}, 5)) == dict(
        loaded.fold_in(data, {"new": history}, 5)
    )


def test_a_combination_without_losses_cannot_fold_in(data):
    ials = Ranker.from_recipe("ials", **SMALL["ials"][0].parts).fit(data)
    ranker = fitted(data)
    ranker.model_.attach_models([(ials.model_, None)])
    ranker.model_.weights = np.ones(1)
    with pytest.raises(CombinationError, match="without the loss it was trained with"):
        list(ranker.fold_in(data, [["i1", "i2"]]))
    tensors = ranker.model_.tensors()
    specs = np.frombuffer(b'[{"model": "factored", "text": null, "loss": 3}]', np.uint8)
    with pytest.raises(ModelFileError, match="list of models"):
        Combination().restore({**tensors, "specs": specs})


def test_what_cannot_be_compared_is_refused(data):
    with pytest.raises(PartError, match="max_trials"):
        fitted(data, "selection:max_trials=0")
    one = MatchingData.from_interactions(["a"], ["x"])
    with pytest.raises(DataError, match="at least two entries"):
        fitted(one)


def test_families_need_what_they_know(monkeypatch: pytest.MonkeyPatch, data):
    monkeypatch.undo()
    assert list(families_for(data, 1 << 29)) == ["graph-filter", "ials", "slim", "warp", "softmax"]
    assert "slim" not in families_for(data, 10)
    described = MatchingData(
        np.eye(3), np.eye(4), np.ones((3, 4)), query_ids=["a", "b", "c"], document_ids=list("wxyz")
    )
    assert list(families_for(described, 1 << 29)) == ["ials", "warp", "softmax"]


def test_other_settings_of_a_filter_need_no_training(data):
    parts = SMALL["graph-filter"][0].parts
    solver = "graph-filter:max_epochs=40,tolerance=0"
    wide = Ranker.from_recipe("graph-filter", **parts, solver=solver).fit(data)
    narrow = Ranker.from_recipe(
        "graph-filter", model="item-item:dimensions=3,low_pass=0.7", solver=solver
    ).fit(data)
    adjusted = wide.model_.adjusted(dimensions=3, low_pass=0.7)
    scores = adjusted.scores(data, wide.kernel_)
    np.testing.assert_allclose(scores, narrow.predict(data), rtol=1e-3, atol=1e-4)
    assert wide.model_.adjusted(dimensions=7) is None
    assert wide.model_.adjusted(other=1) is None
    assert narrow.model_.adjusted(low_pass=0.1).dimensions == 3
