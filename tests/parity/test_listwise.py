"""Losses of sampled lists."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_double, c_int64, c_void_p
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parity_helpers import EXAMPLES, SEEDS, Same
from scipy.special import logsumexp

from ranking.kernels.contract import ListwiseForm
from ranking.kernels.kernel import Kernel
from ranking.kernels.listwise import ListTrainingLoss
from ranking.native import ListwiseFunctions

DOUBLES = POINTER(c_double)

# Callbacks of ctypes take the GIL, so they may be called from any thread, as C functions are.


@ctypes.CFUNCTYPE(c_double, DOUBLES, DOUBLES, c_int64, c_void_p)
def squares(scores: Any, grades: Any, n: int, context: int) -> float:
    return sum(((scores[i] - scores[0] - 1.0) ** 2 / 7.0 for i in range(1, n)), grades[0] - 1.0)


@ctypes.CFUNCTYPE(None, DOUBLES, DOUBLES, c_int64, DOUBLES, c_void_p)
def square_slopes(scores: Any, grades: Any, n: int, out: Any, context: int) -> None:
    for i in range(n):
        out[i] = (scores[i] - scores[0] - 1.0) * 2.0 / 7.0 + grades[i] * context


def native() -> ListTrainingLoss:
    """Return a native loss; the slope of the positive, which is not read, is nonsense."""
    addresses = [ctypes.cast(each, c_void_p).value for each in (squares, square_slopes)]
    functions = ListwiseFunctions.from_addresses(
        value=addresses[0], slopes=addresses[1], context=123
    )
    return ListTrainingLoss(ListwiseForm.NATIVE, functions=functions)


def domination(margins: Any, weight: float, margin: float) -> Any:
    """Return the losses by SciPy."""
    u = np.column_stack((np.zeros(margins.shape[0]), margin - margins))
    return weight * logsumexp(u, axis=1)


@EXAMPLES
@given(
    seed=SEEDS,
    lists=st.sampled_from([0, 1, 2, 33]),
    negatives=st.integers(1, 13),
    scale=st.sampled_from([0.0, 1.0, 30.0, 1e4]),
    weight=st.sampled_from([0.0, 1.0, 2.5]),
    margin=st.sampled_from([0.0, -0.5, 3.0]),
)
def test_domination(same: Same, seed, lists, negatives, scale, weight, margin) -> None:
    margins = scale * np.random.default_rng(seed).normal(size=(lists, negatives))
    loss = ListTrainingLoss(weight=weight, margin=margin)
    losses, slopes = same(lambda k, threads: k.listwise.slopes(margins, loss, threads))
    expected = domination(margins, weight, margin)
    np.testing.assert_allclose(losses, expected, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(slopes.sum(axis=1), 0.0, atol=1e-14)


def test_slopes_are_numerical_derivatives(kernel: Kernel) -> None:
    margins = np.random.default_rng(0).normal(size=(5, 7))
    for loss in (ListTrainingLoss(weight=1.5, margin=0.3), native()):
        slopes = kernel.listwise.slopes(margins, loss).slopes
        for negative in range(7):
            step = 1e-5 * (np.arange(7) == negative)
            after, before = (
                kernel.listwise.slopes(margins + s, loss).losses for s in (step, -step)
            )
            derivative = (after - before) / 2e-5
            np.testing.assert_allclose(-slopes[:, 1 + negative], derivative, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("negatives", [1, 4, 6])
def test_native(same: Same, negatives: int) -> None:
    margins = np.random.default_rng(1).normal(size=(40, negatives))
    losses, slopes = same(lambda k, threads: k.listwise.slopes(margins, native(), threads))
    np.testing.assert_allclose(losses, ((-margins - 1.0) ** 2).sum(axis=1) / 7.0, rtol=1e-13)
    np.testing.assert_allclose(slopes[:, 0], -slopes[:, 1:].sum(axis=1), rtol=1e-13)


@pytest.mark.parametrize("loss", [ListTrainingLoss(), native()], ids=["domination", "native"])
def test_a_list_that_is_not_finite_has_no_loss(same: Same, loss: ListTrainingLoss) -> None:
    margins = np.zeros((4, 5))
    margins[1, 3], margins[2, 0], margins[3, 4] = np.nan, -np.inf, np.inf
    losses, _ = same(lambda k, threads: k.listwise.slopes(margins, loss, threads))
    assert np.isnan(losses[1:3]).all()
    assert np.isfinite(losses[0])


def test_arguments_that_do_not_fit_are_refused(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="expected one or more negatives per list, got none"):
        kernel.listwise.slopes(np.zeros((3, 0)))
    with pytest.raises(TypeError, match="form NATIVE needs ListwiseFunctions, not NoneType"):
        ListTrainingLoss(ListwiseForm.NATIVE)
    with pytest.raises(ValueError, match="form DOMINATION is built in; leave the functions out"):
        ListTrainingLoss(functions=native().functions)
    with pytest.raises(ValueError, match=r"weight is -1\.0 and margin 0\.0; they must be finite"):
        ListTrainingLoss(weight=-1.0)
