"""The search for a strength: the density that was asked for, in two pilots at most."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ranking import MatchingData, Ranker
from ranking.contracts.solver import TrainingProblem
from ranking.data.triplets import positive_lists
from ranking.models.bilinear import Bilinear
from ranking_plugins.losses import Hinge
from ranking_plugins.regularizers import L1
from ranking_plugins.solvers import sgd as sgd_module
from ranking_plugins.solvers.density import POWER, Trial, first_guess, next_guess


@pytest.fixture(scope="module")
def data():
    """Texts of four classes with words of their own, by a Zipf law, unit length."""
    rng = np.random.default_rng(8)
    n_objects, n_words, classes = 60, 40, 4
    labels = np.arange(n_objects) % classes
    chance = 1.0 / np.arange(1, n_words + 1)
    rows = np.zeros((n_objects, n_words), np.float32)
    for row, label in zip(rows, labels, strict=True):
        liked = chance * np.where(np.arange(n_words) % classes == label, 4.0, 1.0)
        np.add.at(row, rng.choice(n_words, 8, p=liked / liked.sum()), 1.0)
    rows /= np.linalg.norm(rows, axis=1)[:, None]
    features = sp.csr_array(rows)
    return MatchingData(features, features, labels=(labels, labels), queries_are_documents=True)


def ranker(kernel, density, **solver):
    params = {
        "max_steps": 250,
        "learning_rate": 5,
        "steps_per_epoch": 125,
        "prox_interval": 25,
        **solver,
    }
    spec = "sgd:" + ",".join(f"{key}={value}" for key, value in params.items())
    return Ranker(
        loss="hinge", regularizer=L1(density=density), solver=spec, kernel=kernel, random_state=2
    )


def test_target_densities_are_reached(matching_kernel, data):
    """Densities are noisy, and two pilots are few: most are within 15 %, and none is far off."""
    if matching_kernel.name == "reference":
        pytest.skip("many trainings, which the others do with the same bits")
    off = []
    for density in (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5):
        for seed in range(4):
            model = ranker(
                matching_kernel, density, max_steps=5000, steps_per_epoch=5000, prox_interval=100
            )
            fitted = model.set_params(random_state=seed).fit(data)
            assert len(fitted.description_["density search"]) <= 2
            off.append(abs(fitted.model_.density / density - 1.0))
    assert np.median(off) <= 0.05
    assert np.mean(np.array(off) <= 0.15) >= 0.9
    assert max(off) <= 0.4


def test_pilots_are_recorded(matching_kernel, data, monkeypatch):
    calls = []
    monkeypatch.setattr(
        sgd_module, "_pilot", lambda *args, pilot=sgd_module._pilot: calls.append(1) or pilot(*args)
    )
    fitted = ranker(matching_kernel, 0.2).fit(data)
    trials = fitted.description_["density search"]
    assert 1 <= len(trials) == len(calls) <= 2
    assert all(set(trial) == {"strength", "density"} for trial in trials)
    # It is the very training that the strength alone would give.
    strength = fitted.regularizer_.strength
    plain = ranker(matching_kernel, 0.0).set_params(regularizer=L1(strength)).fit(data)
    assert plain.model_.weights.data.tobytes() == fitted.model_.weights.data.tobytes()
    assert "density search" not in plain.description_


def test_the_file_tells_strength_and_density(matching_kernel, data, tmp_path):
    model = ranker(matching_kernel, 0.2)
    fitted = model.fit(data)
    assert model.regularizer == L1(density=0.2)  # the user's own stays as it was
    fitted.save(tmp_path / "model")
    loaded = Ranker.load(tmp_path / "model", kernel=matching_kernel)
    strength = fitted.regularizer_.strength
    assert loaded.description_["parts"]["regularizer"]["spec"] == (
        f"l1:strength={strength},density=0.2"
    )
    assert loaded.description_["density search"] == fitted.description_["density search"]
    assert loaded.history_[-1]["density"] == fitted.model_.density == loaded.model_.density


def test_a_refit_keeps_the_density(matching_kernel, data):
    fitted = ranker(matching_kernel, 0.1, max_steps=100, steps_per_epoch=50, refit="true").fit(data)
    densities = [row["density"] for row in fitted.history_]
    assert len(densities) == 4
    assert densities[3] == pytest.approx(densities[1], rel=0.02)


def test_the_density_of_a_diagonal_is_of_its_own_weights(matching_kernel, data):
    plain = ranker(matching_kernel, 0.0).set_params(model="diagonal", regularizer=L1(0.01))
    model = plain.fit(data).model_
    assert 0 < model.weights.nnz < 40
    assert model.density == model.weights.nnz / 40


def test_the_first_guess_is_a_share_of_the_mean_gradient(matching_kernel, data):
    model = Bilinear(dtype="float64")
    model.initialize(data, 0, matching_kernel)
    problem = TrainingProblem(model, Hinge(), L1(density=0.1), data, matching_kernel, 1, 2)
    rows = data.query_rows.toarray().astype(np.float64)
    gradient = np.zeros((40, 40))
    for q, better, worse in matching_kernel.sampling.sample_triplets(
        positive_lists(data), 2, 0, 1000
    ).tolist():
        gradient += np.outer(rows[q], rows[better] - rows[worse]) / 1000
    guess = first_guess(problem, 0.1)
    selection = np.count_nonzero(gradient) // 10
    assert np.count_nonzero(np.abs(gradient) > guess * (1 + 1e-9)) == selection
    assert guess == pytest.approx(np.sort(np.abs(gradient).ravel())[-1 - selection])


def curve(strength, power=0.8, scale=3.0):
    return float(np.exp(-scale * strength**power))


def test_the_next_guess_is_on_the_curve():
    # From one point the power is taken as POWER, from two as they have it.
    one = [Trial(0.5, curve(0.5, POWER))]
    assert curve(next_guess(one, 0.02), POWER) == pytest.approx(0.02)
    for others in ((0.1, 0.4), (0.9, 0.5), (0.1, 2.0)):
        two = [Trial(strength, curve(strength)) for strength in others]
        assert curve(next_guess(two, 0.05)) == pytest.approx(0.05)


@pytest.mark.parametrize(
    "trials",
    [
        [Trial(0.008, 0.14), Trial(0.06, 0.0)],  # the second left nothing
        [Trial(1e-4, 1.0), Trial(0.05, 0.01)],  # the first left everything
        [Trial(0.05, 0.001), Trial(0.008, 0.14)],
    ],
)
def test_the_guess_stays_between_pilots_on_both_sides(trials):
    low, high = sorted(trial.strength for trial in trials)
    assert low < next_guess(trials, 0.05) < high


def test_odd_pilots_give_a_strength_all_the_same():
    for trials in (
        [Trial(1.0, 0.0)],
        [Trial(1.0, 1.0)],
        [Trial(1.0, 0.5), Trial(1.0, 0.5)],
        [Trial(1.0, 0.5), Trial(2.0, 0.5)],
        [Trial(1.0, 0.5), Trial(2.0, 0.9)],
        [Trial(1.0, 0.0), Trial(1e-3, 0.0)],
    ):
        assert 0.0 < next_guess(trials, 0.1) < 1e6


def test_a_noisy_slope_does_not_lead_far():
    # A tenth less after half as much again: the old line in logarithms went on to 4.3 times that.
    assert next_guess([Trial(9.394e-5, 0.1519), Trial(1.427e-4, 0.1441)], 0.1) < 2 * 1.427e-4
