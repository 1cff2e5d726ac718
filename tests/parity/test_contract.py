"""What the kernels say about themselves, and random numbers, sums, products, exponentials."""

from __future__ import annotations

import decimal
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ranking.kernels import _old_contract as contract
from ranking.kernels.kernel import Kernel

VECTORS = Path(__file__).parent.parent / "vectors" / "splitmix64.json"
FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)
THREADS = (1, 2, 5)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def test_contract(kernel: Kernel, reference: Kernel) -> None:
    said, wanted = kernel.describe(), reference.describe()
    assert said.keys() == wanted.keys()
    for key in ("abi", "lanes", "block", "rng", "exp"):
        assert said[key] == wanted[key]
    assert said["threads"] in {"openmp", "rayon", "none"}


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text()), ids=lambda v: f"{v['seed']}")
def test_random_vectors(kernel: Kernel, reference: Kernel, vector: dict[str, Any]) -> None:
    seed, first = int(vector["seed"]), int(vector["first"])
    for checked in (kernel, reference):
        bits = checked.random.bits(seed, first, len(vector["bits"]))
        assert [f"{draw:#018x}" for draw in bits.tolist()] == vector["bits"]
        uniform = checked.random.uniform(seed, first, len(vector["uniform"]))
        assert uniform.tolist() == vector["uniform"]
        below = checked.random.below(seed, first, len(vector["below"]), int(vector["bound"]))
        assert below.tolist() == vector["below"]


def test_draws_can_be_resumed(kernel: Kernel) -> None:
    whole = kernel.random.bits(7, 0, 20)
    parts = [kernel.random.bits(7, 0, 9), kernel.random.bits(7, 9, 11)]
    assert same(whole, np.concatenate(parts))


@given(
    data=hnp.arrays(np.float64, st.integers(0, 50), elements=FINITE),
    seed=st.integers(0, 2**32),
)
def test_dot_and_exp(kernel: Kernel, reference: Kernel, data: np.ndarray, seed: int) -> None:
    other = np.random.default_rng(seed).normal(size=data.size)
    assert kernel.random.dot(data, other).hex() == reference.random.dot(data, other).hex()
    assert same(kernel.random.exp(data), reference.random.exp(data))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("size", [0, 1, 3, 4, 4095, 4096, 4097, 20001])
def test_block_sum(kernel: Kernel, reference: Kernel, size: int, threads: int) -> None:
    a = np.random.default_rng(size).normal(size=size)
    a.flags.writeable = False
    assert kernel.random.block_sum(a, threads).hex() == reference.random.block_sum(a).hex()


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (13, 7), (50, 8)])
def test_scores_dense(
    kernel: Kernel, reference: Kernel, shape: tuple[int, int], dtype: str, threads: int
) -> None:
    rng = np.random.default_rng(0)
    x, weights = rng.normal(size=shape).astype(dtype), rng.normal(size=shape[1])
    x.flags.writeable = weights.flags.writeable = False
    scores = kernel.linear.scores(x, weights, threads)
    assert same(scores, reference.linear.scores(x, weights))


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("index", ["int32", "int64"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (30, 17)])
def test_scores_sparse(
    kernel: Kernel,
    reference: Kernel,
    shape: tuple[int, int],
    index: str,
    dtype: str,
    threads: int,
) -> None:
    x = sp.random_array(shape, density=0.3, rng=1, format="csr", dtype=dtype)
    x.indptr, x.indices = x.indptr.astype(index), x.indices.astype(index)
    for array in (x.indptr, x.indices, x.data):
        array.flags.writeable = False
    weights = np.random.default_rng(0).normal(size=shape[1])
    scores = kernel.linear.scores(x, weights, threads)
    assert same(scores, reference.linear.scores(x, weights))


def test_exp_is_accurate(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    points = np.concatenate(
        [
            rng.uniform(-708, 708, 300),
            rng.uniform(-0.5, 0.5, 300),
            np.linspace(-20, 20, 81) * math.log(2.0) / 2.0,  # ends of the reduced range
            [0.0, -0.0, 1e-300, -1e-300, 1.0, 708.0, -708.0],
        ]
    )
    with decimal.localcontext(prec=60):
        for x, got in zip(points.tolist(), kernel.random.exp(points).tolist(), strict=True):
            exact = decimal.Decimal(x).exp()
            assert abs(decimal.Decimal(got) - exact) <= decimal.Decimal("4e-16") * exact, x


def test_exp_saturates(kernel: Kernel) -> None:
    values = kernel.random.exp(np.array([1e4, np.inf, 708.0, -1e4, -np.inf, -708.0, np.nan]))
    assert values[0] == values[1] == values[2]
    assert values[3] == values[4] == values[5]
    assert math.isfinite(values[0])
    assert values[5] > np.finfo(np.float64).smallest_normal
    assert math.isnan(values[6])


def test_exp_of_one_is_that_of_four(kernel: Kernel) -> None:
    x = np.random.default_rng(3).uniform(-700, 700, 41)
    alone = np.concatenate([kernel.random.exp(x[i : i + 1].copy()) for i in range(x.size)])
    assert same(alone, kernel.random.exp(x))


def test_constants() -> None:
    assert contract.EXP_Q[0] == pytest.approx(0.5, rel=1e-15)
    assert math.log(2.0) == contract.LN2_HIGH + contract.LN2_LOW
