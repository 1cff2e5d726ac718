"""The exponential loss: a built-in loss whose C functions all kernels call."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import Ranker
from ranking.kernels.builtin import cython_kernel, reference_kernel
from ranking.testing.common import same_bits, small_matching
from ranking_plugins.losses import Exponential


def test_value_and_slope_are_those_of_the_exponential() -> None:
    margin = np.linspace(-20.0, 20.0, 101)
    loss = Exponential()
    assert np.allclose(loss.pairwise_value(margin), np.exp(-margin), rtol=1e-14)
    step = 1e-5
    higher, lower = loss.pairwise_value(margin + step), loss.pairwise_value(margin - step)
    assert np.allclose(loss.pairwise_slope(margin), (higher - lower) / (2 * step), rtol=1e-8)


def test_value_is_finite_where_the_exponential_overflows() -> None:
    margin = np.array([-1e6, -709.0, 709.0, 1e6])
    assert np.isfinite(Exponential().pairwise_value(margin)).all()
    assert np.isfinite(Exponential().pairwise_slope(margin)).all()


@pytest.mark.parametrize("model", ["bilinear", "factored:dimensions=5"])
def test_training_has_the_bits_of_the_reference(model: str) -> None:
    data = small_matching(3)
    trained = [
        Ranker(
            model=model,
            loss="exponential",
            regularizer="none",
            solver="sgd:max_steps=200,learning_rate=0.1",
            kernel=kernel,
            threads=threads,
            random_state=0,
        ).fit(data)
        for kernel, threads in ((reference_kernel(), 1), (cython_kernel(), 1), (cython_kernel(), 2))
    ]
    expected = trained[0].model_.tensors()
    for ranker in trained[1:]:
        for name, tensor in ranker.model_.tensors().items():
            assert same_bits(tensor, expected[name])
