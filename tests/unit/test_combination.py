"""Combinations: sums of scores by hand, weights by brute force, files."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker, TextCollection
from ranking.errors import ModelFileError, PartError
from ranking.metrics.evaluation import evaluate_model, mean
from ranking.metrics.parse import parse_metric
from ranking.models.combination import Combination

WORDS = ["wing", "flow", "heat", "shock", "layer", "body", "wave", "drag", "lift", "the", "a"]


@pytest.fixture
def texts() -> TextCollection:
    rng = np.random.default_rng(3)
    documents = [" ".join(rng.choice(WORDS, rng.integers(3, 20))) for _ in range(40)]
    queries = [" ".join(rng.choice(WORDS[:9], 3)) for _ in range(12)]
    relevance = (rng.random((12, 40)) < 0.15).astype(float)
    relevance[:, 0] = 1.0
    ids = [f"q{at}" for at in range(12)], [f"d{at:02d}" for at in range(40)]
    return TextCollection(ids[0], queries, ids[1], documents, relevance)


def ids_only(texts: TextCollection) -> MatchingData:
    clicks = sp.csr_array(np.random.default_rng(4).poisson(0.3, texts.relevance.shape), dtype=float)
    return MatchingData(
        None, None, clicks, query_ids=texts.query_ids, document_ids=texts.document_ids
    )


@pytest.fixture
def models(texts) -> list[Ranker]:
    return [
        Ranker.from_recipe("bm25").fit(texts),
        Ranker.from_recipe("lsi-documents", model="factored:dimensions=4,biases=false").fit(texts),
        Ranker.from_recipe("cosine", features="text:hashing=64,stop_words=english").fit(texts),
        Ranker.from_recipe("random-walk").fit(ids_only(texts)),
        Ranker.from_recipe(
            "bm25-hinge", solver="sgd:max_steps=300,learning_rate=0.01", regularizer="none"
        ).fit(texts),
    ]


def own_scores(models, texts) -> list[np.ndarray]:
    clicks = ids_only(texts)
    return [one.predict(texts if one.text_ is not None else clicks) for one in models]


def test_scores_are_the_weighted_sum_of_those_of_the_models(models, texts):
    ranker = Ranker.from_recipe("combine", model=Combination(models)).fit(texts)
    ranker.model_.weights[:] = [1.0, -2.0, 0.5, 3.0, 0.25]
    parts = own_scores(models, texts)
    expected = sum(w * part for w, part in zip(ranker.model_.weights, parts, strict=True))
    np.testing.assert_allclose(ranker.predict(texts), expected, rtol=1e-5, atol=1e-5)


def test_the_weights_improve_the_metric_over_each_model_and_over_a_grid(models, texts):
    pair = [models[0], models[1]]
    ranker = Ranker.from_recipe("combine", model=Combination(pair), loss="metric:measure=map").fit(
        texts
    )
    metric = parse_metric("map")
    data = ranker.to_model_data(texts)

    def measured(weights) -> float:
        ranker.model_.weights = np.asarray(weights, float)
        values = evaluate_model(ranker.model_, [metric], data, ranker.kernel_)
        return mean(values[metric.spelled()])

    combined = ranker.model_.weights.copy()
    reached = measured(combined)
    assert ranker.objective_ == pytest.approx(1.0 - reached)
    assert reached >= max(measured([1, 0]), measured([0, 1]))
    # No single multiple of one weight is better.
    steps = [
        measured(combined * np.where(np.arange(2) == at, factor, 1.0))
        for at in range(2)
        for factor in (0.25, 0.5, 0.7, 1.4, 2.0, 4.0)
    ]
    assert reached >= max(steps)
    assert [row["objective"] for row in ranker.history_] == sorted(
        (row["objective"] for row in ranker.history_), reverse=True
    )


def test_one_file_holds_all_models(models, texts, tmp_path):
    names = []
    for at, one in enumerate(models[:4]):
        one.save(tmp_path / f"{at}.safetensors")
        names.append(str(tmp_path / f"{at}.safetensors"))
    ranker = Ranker.from_recipe("combine", model=f"combination:models={'+'.join(names)}").fit(texts)
    same = Ranker.from_recipe("combine", model=Combination(models[:4])).fit(texts)
    assert np.array_equal(ranker.model_.weights, same.model_.weights)
    path = tmp_path / "combined.safetensors"
    ranker.save(path)
    for name in names:
        (tmp_path / name).unlink()
    loaded = Ranker.load(path)
    assert np.array_equal(loaded.predict(texts), same.predict(texts))
    assert list(loaded.search(["shock wave"], k=5)) == list(same.search(["shock wave"], k=5))
    with pytest.raises(PartError, match="may not choose which files are read"):
        loaded.fit(texts)


def test_misuse_is_refused(texts, models):
    with pytest.raises(PartError, match="combination has no models; give model combination:models"):
        Ranker.from_recipe("combine").fit(texts)
    with pytest.raises(PartError, match="lower is better"):
        Ranker.from_recipe("combine", loss="metric:measure=mean-rank").fit(texts)
    pairs = Ranker.from_recipe("cosine", features="text:ngrams=1-2").fit(texts)
    with pytest.raises(PartError, match="train it with ngrams=1"):
        Combination([pairs])
    whole = Combination(models[:2]).tensors()
    for damage in (
        {"weights": np.ones(3)},
        {"weights": np.array([1.0, np.nan])},
        {"specs": np.frombuffer(b"{}", np.uint8)},
        {"specs": np.frombuffer(b"[", np.uint8)},
        {"specs": np.frombuffer(b'[{"model": "no", "text": null}]', np.uint8)},
    ):
        with pytest.raises(ModelFileError):
            Combination().restore({**whole, **damage})
