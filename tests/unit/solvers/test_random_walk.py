"""The random walk against powers of its transition matrix."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.errors import DataError, DataWarning
from ranking_plugins.reproductions.text_baselines import random_walk


def make_clicks(seed: int) -> np.ndarray:
    clicks = np.random.default_rng(seed).poisson(0.6, (6, 8)).astype(float)
    clicks[0, 0] = 3.0
    return clicks


def power(clicks: np.ndarray, steps: int, stay: float) -> np.ndarray:
    """Return the probability of being at a query when the walk began at a document."""
    q, d = clicks.shape
    graph = np.block([[np.zeros((q, q)), clicks], [clicks.T, np.zeros((d, d))]])
    sums = graph.sum(axis=1, keepdims=True)
    step = stay * np.eye(q + d) + (1.0 - stay) * graph / np.where(sums > 0, sums, 1.0)
    return np.linalg.matrix_power(step, steps)[q:, :q].T


@pytest.mark.parametrize(("steps", "stay"), [(1, 0.9), (4, 0.9), (7, 0.0), (25, 0.5)])
def test_scores_are_those_of_a_power_of_the_transition_matrix(seed, steps, stay):
    clicks = make_clicks(seed)
    data = MatchingData(None, None, sp.csr_array(clicks))
    solver = f"random-walk:steps={steps},stay={stay}"
    ranker = Ranker.from_recipe("random-walk", solver=solver).fit(data)
    expected = power(clicks, steps, stay)
    np.testing.assert_allclose(ranker.predict(data), expected, rtol=1e-5, atol=1e-8)
    counts = np.maximum((clicks > 0).sum(axis=1), 1)
    mean = ((clicks * expected).sum(axis=1) / counts)[clicks.any(axis=1)].sum() / clicks.shape[0]
    assert ranker.objective_ == pytest.approx(-mean)


def test_it_is_the_walk_of_the_reproduction(seed):
    clicks = sp.csr_array(make_clicks(seed))
    ranker = Ranker.from_recipe("random-walk").fit(MatchingData(None, None, clicks))
    expected = random_walk(clicks, sp.eye_array(6, format="csr"), 5)
    np.testing.assert_allclose(ranker.model_.weights.toarray(), expected, rtol=1e-5, atol=1e-8)


def test_validation_chooses_the_steps(tmp_path):
    # d2 is clicked for q0 in the validation data only, and reached over d0 and q1 in three steps.
    clicks = np.array([[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
    data = MatchingData(None, None, sp.csr_array(clicks))
    valid = MatchingData(None, None, sp.csr_array(np.array([[0.0, 0, 1, 0], [0] * 4, [0] * 4])))
    ranker = Ranker.from_recipe("random-walk").fit(data, valid=valid, exclude_seen=True)
    assert ranker.solver_.steps == 3
    ranker.save(tmp_path / "model.safetensors")
    loaded = Ranker.load(tmp_path / "model.safetensors")
    assert np.array_equal(loaded.predict(data), ranker.predict(data))
    assert [one.feature for one in loaded.related_features(0, 2)] == [0, 2]


def test_features_are_left_out_and_negative_clicks_are_refused():
    clicks = sp.csr_array(np.array([[1.0, -1.0], [0.0, 1.0]]))
    with pytest.raises(DataError, match="needs clicks from 0, and one is -1"):
        Ranker.from_recipe("random-walk").fit(MatchingData(None, None, clicks))
    rich, plain = (MatchingData(rows, None, abs(clicks)) for rows in (np.ones((2, 3)), None))
    with pytest.warns(DataWarning, match="random-walk knows queries .* by id only"):
        ranker = Ranker.from_recipe("random-walk").fit(rich)
    expected = Ranker.from_recipe("random-walk").fit(plain).predict(plain)
    assert np.array_equal(ranker.predict(rich), expected)
