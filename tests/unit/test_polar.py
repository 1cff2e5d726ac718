"""The polar factor against a singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest

from ranking_plugins.regularizers import polar
from ranking_plugins.regularizers.polar import polar_factor


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e6])
def test_it_is_that_of_the_svd(seed, dtype, condition):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(300, 12)) * np.geomspace(1.0, 1.0 / condition, 12)
    matrix = (matrix @ np.linalg.qr(rng.normal(size=(12, 12)))[0]).astype(dtype)
    factor = polar_factor(matrix)
    assert factor.dtype == dtype
    near = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(factor.T.astype(float) @ factor, np.eye(12), atol=near)
    values = np.linalg.svd(matrix.astype(float), compute_uv=False)
    assert np.vdot(matrix.astype(float), factor) == pytest.approx(values.sum(), rel=1e-6)


def test_dependent_columns_are_left_to_qr(seed):
    rng = np.random.default_rng(seed)
    for matrix in (np.zeros((9, 3)), np.outer(rng.normal(size=50), np.ones(4))):
        factor = polar_factor(matrix)
        np.testing.assert_allclose(factor.T @ factor, np.eye(matrix.shape[1]), atol=1e-12)
        values = np.linalg.svd(matrix, compute_uv=False)
        assert np.vdot(matrix, factor) == pytest.approx(values.sum(), abs=1e-9)


def test_threads_change_nothing(seed, monkeypatch):
    monkeypatch.setattr(polar, "BLOCK", 64)
    matrix = np.random.default_rng(seed).normal(size=(1000, 7)).astype(np.float32)
    expected = polar_factor(matrix).tobytes()
    assert all(polar_factor(matrix, threads).tobytes() == expected for threads in (2, 3, 5))
