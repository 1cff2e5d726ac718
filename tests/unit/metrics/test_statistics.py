"""Intervals and tests: against SciPy, against all signs, and the same on every kernel."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ranking.metrics.bootstrap import RESAMPLES, SEED, bootstrap_interval
from ranking.metrics.comparison import compare
from ranking.metrics.parse import parse_metrics
from ranking.metrics.significance import EXACT, holm, randomisation_test, t_test


def test_the_interval_is_that_of_a_plain_loop(load_kernel):
    values = np.random.default_rng(0).normal(size=7)
    kernel = load_kernel("reference")
    means = []
    for b in range(RESAMPLES):
        sample = kernel.random.below(SEED, b * values.size, values.size, values.size)
        means.append(np.mean([values[at] for at in sample]))
    np.testing.assert_allclose(bootstrap_interval(values), np.quantile(means, [0.025, 0.975]))


def test_the_interval_is_about_that_of_the_normal_distribution():
    values = np.random.default_rng(1).normal(loc=0.5, scale=0.2, size=2000)
    low, high = bootstrap_interval(values)
    margin = 1.96 * values.std() / math.sqrt(values.size)
    assert low == pytest.approx(values.mean() - margin, abs=0.1 * margin)
    assert high == pytest.approx(values.mean() + margin, abs=0.1 * margin)


@pytest.mark.parametrize("name", ["reference", "cython", "rust"])
def test_every_kernel_samples_the_same(load_kernel, name):
    kernel = load_kernel(name)
    values = np.random.default_rng(2).normal(loc=0.1, size=200)
    assert bootstrap_interval(values, kernel) == bootstrap_interval(values, "reference")
    assert randomisation_test(values, kernel) == randomisation_test(values, "reference")


def test_skipped_queries_are_left_out():
    values = np.array([0.1, 0.9, 0.4])
    assert bootstrap_interval(np.append(values, np.nan)) == bootstrap_interval(values)
    assert all(math.isnan(end) for end in bootstrap_interval(np.array([np.nan])))
    assert bootstrap_interval(np.array([0.5])) == (0.5, 0.5)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_few_queries_try_all_signs(differences):
    values = np.array(differences, dtype=float) / 7.0
    sums = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    want = sum(total >= abs(sum(differences)) for total in sums) / len(sums)
    assert randomisation_test(values) == want


def test_many_queries_come_near_to_all_signs():
    values = np.random.default_rng(5).normal(loc=0.3, size=EXACT + 1)
    ours = randomisation_test(values)
    want = stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=np.inf
    ).pvalue
    assert ours == pytest.approx(want, abs=4 * math.sqrt(want / 10_000))


@pytest.mark.parametrize("n", [2, 5, 300])
def test_the_t_test_is_that_of_scipy(n):
    random = np.random.default_rng(n)
    a, b = random.normal(size=n), random.normal(loc=0.2, size=n)
    assert t_test(b - a) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-10)


def test_differences_without_variance():
    assert t_test(np.zeros(4)) == 1.0
    assert t_test(np.full(4, 0.5)) == 0.0
    assert math.isnan(t_test(np.array([1.0])))
    assert randomisation_test(np.zeros(40)) == 1.0
    assert math.isnan(randomisation_test(np.empty(0)))


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_rejects_as_its_steps_say(p_values):
    adjusted = holm(p_values)
    for level in (0.01, 0.05, 0.5):
        rejected = set()
        for place, at in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
            if p_values[at] * (len(p_values) - place) > level:
                break
            rejected.add(at)
        assert {at for at, p in enumerate(adjusted) if p <= level} == rejected


def test_nan_is_not_a_test():
    assert holm([0.5, math.nan])[0] == 0.5
    assert math.isnan(holm([0.5, math.nan])[1])


def test_wins_follow_the_metric():
    metrics = list(parse_metrics("map,pair-error").values())
    names = [metric.spelled() for metric in metrics]
    a = {name: np.array([0.1, 0.2, 0.3, np.nan]) for name in names}
    b = {name: np.array([0.2, 0.2, 0.5, 0.9]) for name in names}
    up, down = compare(metrics, ["w", "x", "y", "z"], {"a": a, "b": b})
    assert (up.wins, up.ties, up.losses) == (2, 1, 0)
    assert (down.wins, down.ties, down.losses) == (0, 1, 2)
    assert up.difference == down.difference == pytest.approx(0.1)
    assert up.queries == ["w", "x", "y"]
    assert up.p_randomisation == 0.5
    assert up.p_randomisation_holm == 1.0


def test_every_pair_of_systems_is_compared():
    metrics = list(parse_metrics("map").values())
    values = {
        system: {metrics[0].spelled(): np.random.default_rng(at).random(30)}
        for at, system in enumerate("abc")
    }
    result = compare(metrics, list(range(30)), values)
    assert [(one.a, one.b) for one in result] == [("a", "b"), ("a", "c"), ("b", "c")]
    assert [one.p_t_holm for one in result] == holm([one.p_t for one in result])
