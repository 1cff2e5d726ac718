"""Regularizers against brute force: a grid finds what prox and maximize claim."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranking.errors import CombinationError, PartError
from ranking_plugins.regularizers.l1 import L1
from ranking_plugins.regularizers.l2 import L2
from ranking_plugins.regularizers.none import NoPenalty

REGULARIZERS = [NoPenalty(), L1(0.3), L2(0.7), L1(0.0), L2(0.0)]
numbers = st.floats(-5, 5)


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: r.spec())
@given(value=numbers, step=st.floats(0.01, 3))
def test_prox_is_the_minimiser(regularizer, value, step):
    grid = np.linspace(-6, 6, 4001)
    cost = [0.5 * (v - value) ** 2 + step * regularizer.penalty(np.array([v])) for v in grid]
    found = regularizer.prox(np.array([value]), step)
    claimed = 0.5 * (found[0] - value) ** 2 + step * regularizer.penalty(found)
    assert claimed <= min(cost) + 1e-9


@pytest.mark.parametrize("regularizer", REGULARIZERS, ids=lambda r: r.spec())
@given(value=numbers)
def test_the_inlined_form_is_the_penalty(regularizer, value):
    l1, l2 = regularizer.entry_penalty()
    assert regularizer.penalty(np.array([value])) == pytest.approx(
        l1 * abs(value) + l2 / 2 * value**2
    )


@given(gain=numbers)
def test_l2_maximize_is_the_maximiser(gain):
    regularizer = L2(0.7)
    grid = np.linspace(-10, 10, 4001)
    value = [gain * p - regularizer.penalty(np.array([p])) for p in grid]
    found = regularizer.maximize(np.array([gain]))
    assert gain * found[0] - regularizer.penalty(found) >= max(value) - 1e-9


@pytest.mark.parametrize("regularizer", [NoPenalty(), L1(0.1), L2(0.0)])
def test_no_maximum_is_refused(regularizer):
    with pytest.raises(CombinationError):
        regularizer.maximize(np.ones(2))


@pytest.mark.parametrize("kind", [L1, L2])
@pytest.mark.parametrize("strength", [-1.0, float("nan"), float("inf"), "much"])
def test_a_bad_strength_is_refused(kind, strength):
    with pytest.raises(PartError, match="strength"):
        kind(strength)
    with pytest.raises(PartError, match="strength"):
        kind().set_params(strength=strength)


def test_params():
    assert L2(0.5).get_params() == {"strength": 0.5}
    assert L2().set_params(strength=2.0).spec() == "l2:strength=2.0"
    with pytest.raises(ValueError, match=r"no parameter 'weight'.*strength"):
        L2().set_params(weight=1)
