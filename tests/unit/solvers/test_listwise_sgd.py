"""SGD on lists, whole and sampled: its optimum, its interruptions, and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranking import JudgedLists, Ranker
from ranking.contracts.loss import Loss
from ranking.errors import CombinationError
from ranking.registry import get_registry
from ranking_plugins.losses import Domination
from ranking_plugins.losses.whole_lists import whole_lists
from ranking_plugins.solvers.listwise_steps import check_shift_invariance

SGD = "sgd:max_steps=3000,schedule=inverse-sqrt,learning_rate=0.5"


def small_lists(seed):
    """Return judged lists of different sizes and three grades; one has a single grade."""
    rng = np.random.default_rng(seed)
    qids = np.repeat(np.arange(7), [5, 8, 4, 6, 5, 7, 3])
    grades = rng.integers(0, 3, qids.size).astype(float)
    grades[np.unique(qids, return_index=True)[1][:6]] = 3.0
    grades[qids == 6] = 1.0
    features = rng.normal(size=(qids.size, 4)) + 0.5 * grades[:, None] * [1.0, -0.5, 0.0, 0.3]
    return JudgedLists(features, grades, qids)


def mean_loss(data, w, weights="one"):
    """Return the weighted mean over dominating rows of the domination loss, and its gradient."""
    total, gradient, count = 0.0, np.zeros(w.size), 0.0
    for i in range(data.n_rows):
        own = data.row_groups == data.row_groups[i]
        below = np.flatnonzero(own & (data.grades < data.grades[i]))
        if not below.size:
            continue
        omega = 2.0 ** data.grades[i] - 1.0 if weights == "gain" else 1.0
        difference = data.features[below] - data.features[i]
        e = np.exp(difference @ w)
        total += omega * np.log1p(e.sum())
        gradient += omega * (e / (1.0 + e.sum())) @ difference
        count += omega
    return total / count, gradient / count


def optimum(data, l1, l2):
    """Return the least objective by L-BFGS; w is the difference of two parts >= 0."""

    def value(parts):
        plus, minus = parts[:4], parts[4:]
        w = plus - minus
        loss, slope = mean_loss(data, w)
        slope = slope + l2 * w
        both = np.concatenate((slope + l1, -slope + l1))
        return loss + l1 * parts.sum() + 0.5 * l2 * w @ w, both

    return minimize(value, np.full(8, 0.1), jac=True, bounds=[(0, None)] * 8).fun


def objective(data, w, l1, l2):
    """Return mean loss and penalty."""
    return mean_loss(data, w)[0] + l1 * np.abs(w).sum() + 0.5 * l2 * w @ w


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.sampled_from(["none", "l1", "l2"]), st.floats(-3.0, 0.0))
def test_linear_domination_reaches_the_optimum_over_whole_lists(name, log_strength):
    data, strength = small_lists(0), 10.0**log_strength
    l1, l2 = strength * (name == "l1"), strength * (name == "l2")
    regularizer = "none" if name == "none" else f"{name}:strength={strength}"
    least = optimum(data, l1, l2)
    for solver in (SGD, "coordinate"):
        fitted = Ranker("linear", "domination", regularizer, solver, random_state=1).fit(data)
        w = np.asarray(fitted.model_.weights, float)
        assert least - 1e-6 <= objective(data, w, l1, l2) <= 1.01 * least
        reported = fitted.history_[-1]["objective"]
        assert reported == pytest.approx(objective(data, w, l1, l2), rel=1e-9)


@pytest.mark.parametrize("sampling", ["positives", "queries"])
def test_sampling_of_lists_does_not_change_the_objective(seed, sampling):
    data = small_lists(seed)
    solver = f"{SGD},sampling={sampling}"
    fitted = Ranker("linear", "domination", "l2:strength=0.1", solver, random_state=seed).fit(data)
    w = np.asarray(fitted.model_.weights, float)
    assert objective(data, w, 0.0, 0.1) <= 1.01 * optimum(data, 0.0, 0.1)


@pytest.mark.parametrize(
    "loss",
    [
        "domination",
        "domination:weights=gain",
        "domination:margin=layers,boundaries=1+2+1.5",
        "smooth-warp",
    ],
)
def test_slopes_of_a_whole_list_are_its_derivative(loss, seed, fast_kernel):
    data, rng = small_lists(seed), np.random.default_rng(seed)
    part = get_registry().create("loss", loss)
    lists = whole_lists(part, data, fast_kernel)
    assert lists.shares.sum() == pytest.approx(1.0)
    scores = rng.normal(size=lists.rows.size)
    total = 0.0
    for at, (start, stop) in enumerate(itertools.pairwise(lists.list_ptr.tolist())):
        own, steps = scores[start:stop], 1e-6 * np.eye(stop - start)
        value, slopes = lists.list_slopes(at, own)
        total += lists.shares[at] * value
        numeric = [
            (lists.list_slopes(at, own + e)[0] - lists.list_slopes(at, own - e)[0]) / 2e-6
            for e in steps
        ]
        np.testing.assert_allclose(slopes, numeric, atol=1e-8)
    assert total == pytest.approx(lists.value(scores, 1), rel=1e-12)


@pytest.mark.parametrize("kernel", ["cython", "rust"])
def test_steps_on_whole_lists_have_the_same_bits(kernel, load_kernel, seed):
    def weights(name):
        parts = ("linear", "domination", "l1:strength=0.02", "sgd:max_steps=50")
        ranker = Ranker(*parts, kernel=load_kernel(name), random_state=seed)
        return ranker.fit(small_lists(seed)).model_.weights.tobytes()

    assert weights(kernel) == weights("reference")


def test_sampled_list_form_is_the_loss_of_a_list():
    rng = np.random.default_rng(0)
    grades = np.array([1.0, 0.0, 0.0, 0.0])
    for parameters in ({}, {"margin": "grade", "slope": 0.7}, {"weights": "gain"}):
        loss = Domination(**parameters)
        _, weight, margin = loss.sampled_list_form()
        for scores in rng.normal(size=(5, 4)):
            value = weight * np.log1p(np.exp(scores[1:] - scores[0] + margin).sum())
            assert loss.listwise_value(scores, grades) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize("solver", ["sgd:epochs={}", "alternating:max_epochs={},tolerance=0"])
def test_a_resumed_training_on_lists_has_the_same_bits(make_tastes, fast_kernel, solver):
    data = make_tastes()

    def trainer(epochs):
        parts = ("factored:dimensions=5", "domination", "none", solver.format(epochs))
        return Ranker(*parts, kernel=fast_kernel, random_state=1).plan().trainer(data)

    whole, begun, rest = trainer(4), trainer(2), trainer(4)
    whole.train()
    begun.train()
    snapshot = begun.snapshot()
    snapshot.facts["stopped"] = ""
    rest.train(snapshot)
    assert rest.history == whole.history
    for name, tensor in whole.model.tensors().items():
        assert rest.model.tensors()[name].tobytes() == tensor.tobytes()


def test_a_loss_that_depends_on_a_shift_is_refused():
    class Sum(Loss):
        name = "sum"

        def listwise_slopes(self, scores, grades):
            return np.ones(scores.size)

    with pytest.raises(CombinationError, match="slopes of loss 'sum' add to 4, so it is not inv"):
        check_shift_invariance(Sum(), 3)
