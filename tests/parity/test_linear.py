"""Scores of the linear model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from parity_helpers import KINDS, Same, csr


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (13, 7), (50, 8)])
def test_dense_scores(same: Same, shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=shape).astype(dtype), rng.normal(size=shape[1])
    x.flags.writeable = weights.flags.writeable = False
    same(lambda k, threads: [k.linear.scores(x, weights, threads)])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (30, 17)])
def test_sparse_scores(same: Same, shape: tuple[int, int], kind: tuple[str, str]) -> None:
    x = csr(sp.random_array(shape, density=0.3, rng=1).toarray(), kind)
    for array in (x.indptr, x.indices, x.data):
        array.flags.writeable = False
    weights = np.random.default_rng(0).normal(size=shape[1])
    same(lambda k, threads: [k.linear.scores(x, weights, threads)])
