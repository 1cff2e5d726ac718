"""SGD on sampled lists: its optimum, its interruptions, and what it refuses."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from ranking import JudgedLists, Ranker
from ranking.contracts.loss import Loss
from ranking.errors import CombinationError
from ranking_plugins.losses import Domination
from ranking_plugins.solvers.listwise_steps import check_shift_invariance

N = 2
"""Negatives per list."""


def small_lists(seed):
    """Return judged lists of three rows of grade 0 and two of grade 1."""
    rng = np.random.default_rng(seed)
    grades = np.tile([1.0, 1.0, 0.0, 0.0, 0.0], 6)
    features = rng.normal(size=(grades.size, 4)) + 0.7 * grades[:, None] * [1.0, -0.5, 0.0, 0.3]
    return JudgedLists(features, grades, np.repeat(np.arange(6), 5))


def expected_loss(data, w):
    """Return the mean over positives, and over all lists of N negatives, of the loss and slopes."""
    total, gradient, count = 0.0, np.zeros(w.size), 0
    for start in range(0, data.n_rows, 5):
        x, grades = data.features[start : start + 5], data.grades[start : start + 5]
        low = np.flatnonzero(grades == 0.0)
        for i in np.flatnonzero(grades > 0.0):
            for js in itertools.product(low, repeat=N):
                e = np.exp((x[list(js)] - x[i]) @ w)
                total += np.log1p(e.sum())
                gradient += (e / (1.0 + e.sum())) @ (x[list(js)] - x[i])
                count += 1
    return total / count, gradient / count


def optimum(data, l1, l2):
    """Return the least objective by L-BFGS; w is the difference of two parts >= 0."""

    def value(parts):
        plus, minus = parts[:4], parts[4:]
        w = plus - minus
        loss, slope = expected_loss(data, w)
        slope = slope + l2 * w
        both = np.concatenate((slope + l1, -slope + l1))
        return loss + l1 * parts.sum() + 0.5 * l2 * w @ w, both

    return minimize(value, np.full(8, 0.1), jac=True, bounds=[(0, None)] * 8).fun


@pytest.mark.parametrize(("l1", "l2"), [(0.03, 0.0), (0.0, 0.1), (0.0, 0.02)])
@pytest.mark.parametrize("kernel", ["cython", "rust"])
def test_linear_domination_reaches_the_optimum(kernel, load_kernel, seed, l1, l2):
    data = small_lists(seed)
    regularizer = f"l1:strength={l1}" if l1 else f"l2:strength={l2}"
    solver = f"sgd:max_steps=60000,n_negatives={N},schedule=inverse-sqrt,learning_rate=0.5"
    fitted = Ranker(
        "linear", "domination", regularizer, solver, kernel=load_kernel(kernel), random_state=seed
    ).fit(data)
    w = np.asarray(fitted.model_.weights, float)
    reached = expected_loss(data, w)[0] + l1 * np.abs(w).sum() + 0.5 * l2 * w @ w
    least = optimum(data, l1, l2)
    assert least - 1e-6 <= reached <= 1.01 * least


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
