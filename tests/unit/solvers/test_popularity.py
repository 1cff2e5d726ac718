"""Popularity against column means, and a least-squares solution of the biases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.errors import CombinationError, DataWarning


def make_counts(seed: int) -> sp.csr_array:
    rng = np.random.default_rng(seed)
    return sp.csr_array(rng.poisson(1.0, (14, 9)) * (rng.random((14, 9)) < 0.5), dtype=np.float64)


def test_biases_are_the_least_squares_solution(seed):
    counts = make_counts(seed)
    ranker = Ranker.from_recipe("popularity").fit(MatchingData(None, None, counts))
    dense = counts.toarray()
    # One equation per pair: bias of the document = relevance.
    design = np.tile(np.eye(9), (14, 1))
    biases, residual, _, _ = np.linalg.lstsq(design, dense.ravel(), rcond=None)
    np.testing.assert_allclose(ranker.model_.document_biases, biases, rtol=1e-6, atol=1e-7)
    assert ranker.objective_ == pytest.approx(residual[0])
    scores = ranker.predict(MatchingData(None, None, counts))
    np.testing.assert_allclose(scores, np.tile(dense.mean(axis=0), (14, 1)), rtol=1e-6, atol=1e-7)


def test_recommendations_are_the_most_popular_items_that_are_not_known(tmp_path):
    seen = MatchingData.from_interactions(
        ["ann", "ann", "bob", "cy", "cy"], ["alien", "heat", "heat", "heat", "brazil"]
    )
    ranker = Ranker.from_recipe("popularity").fit(seen)
    assert [item for item, _ in ranker.recommend(["bob"])["bob"]] == ["alien", "brazil"]
    assert [score for _, score in ranker.recommend(["bob"])["bob"]] == pytest.approx([1 / 3, 1 / 3])
    path = tmp_path / "model.safetensors"
    ranker.save(path)
    assert list(Ranker.load(path).recommend(["ann"])) == list(ranker.recommend(["ann"]))


def test_features_are_left_out_with_a_warning(seed, tmp_path):
    counts = make_counts(seed)
    users, items = np.eye(counts.shape[0]), np.ones((counts.shape[1], 2))
    plain, rich = MatchingData(None, None, counts), MatchingData(users, items, counts)
    expected = Ranker.from_recipe("popularity").fit(plain)
    with pytest.warns(DataWarning, match="popularity knows queries .* by id only"):
        ranker = Ranker.from_recipe("popularity").fit(rich, valid=rich)
    ranker.save(tmp_path / "model.safetensors")
    for each in (ranker, Ranker.load(tmp_path / "model.safetensors")):
        assert np.array_equal(each.predict(rich), expected.predict(plain))
        assert list(each.recommend([0], k=2)) == list(expected.recommend([0], k=2))


def test_a_model_without_biases_is_refused(seed):
    counts = make_counts(seed)
    with pytest.raises(CombinationError, match="set biases=true"):
        Ranker("factored:biases=false", "squared", "none", "popularity").fit(
            MatchingData(None, None, counts)
        )
