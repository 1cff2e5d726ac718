"""The exponential loss: a built-in loss whose C functions all kernels call."""

from __future__ import annotations

import numpy as np
import pytest

from ranking import Ranker
from ranking.kernels.builtin import cython_kernel, reference_kernel
from ranking.testing.common import same_bits, small_matching
from ranking_plugins.losses import Exponential


def tangent_below(margin: np.ndarray) -> np.ndarray:
    return np.where(margin >= -1.0, np.exp(-np.maximum(margin, -1.0)), -np.e * margin)


def test_value_is_the_exponential_and_its_tangent_below_minus_one() -> None:
    margin = np.concatenate([np.linspace(-20.0, 20.0, 101), [-1e6, -1.0, 709.0, 1e6]])
    assert np.allclose(Exponential().pairwise_value(margin), tangent_below(margin), rtol=1e-14)


def test_slope_is_the_derivative_bounded_and_continuous() -> None:
    margin, step, loss = np.linspace(-20.0, 20.0, 101), 1e-5, Exponential()
    higher, lower = tangent_below(margin + step), tangent_below(margin - step)
    assert np.allclose(loss.pairwise_slope(margin), (higher - lower) / (2 * step), atol=2e-5)
    assert loss.pairwise_slope(np.array([-1e6, -1.0 - 1e-9, -1.0])) == pytest.approx(-np.e)


def test_parabola_of_the_curvature_bounds_the_loss() -> None:
    loss, at = Exponential(), np.linspace(-5.0, 5.0, 41)[:, None]
    margin = np.linspace(-30.0, 30.0, 601)
    shift = margin - at
    parabola = loss.pairwise_value(at) + loss.pairwise_slope(at) * shift
    parabola += 0.5 * loss.pairwise_curvature(at) * shift**2
    assert (parabola >= loss.pairwise_value(margin) - 1e-12).all()


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
