"""Self-description, random numbers, sums and the exponential."""

from __future__ import annotations

import decimal
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from parity_helpers import Same, bits

from ranking.kernels import contract
from ranking.kernels.kernel import Kernel

VECTORS = Path(__file__).parent.parent / "vectors" / "splitmix64.json"
FINITE = st.floats(allow_nan=False, allow_infinity=False, min_value=-1e100, max_value=1e100)


def test_self_description(same: Same) -> None:
    description, expected = same.kernel.describe(), same.reference.describe()
    assert description.keys() == expected.keys()
    for key in ("abi", "lanes", "block", "rng", "exp"):
        assert description[key] == expected[key]
    assert description["threads"] in {"openmp", "rayon", "none"}


@pytest.mark.parametrize("vector", json.loads(VECTORS.read_text()), ids=lambda v: f"{v['seed']}")
def test_random_numbers_match_test_vectors(same: Same, vector: dict[str, Any]) -> None:
    seed, first = int(vector["seed"]), int(vector["first"])
    for random in (same.kernel.random, same.reference.random):
        numbers = random.bits(seed, first, len(vector["bits"]))
        assert [f"{number:#018x}" for number in numbers.tolist()] == vector["bits"]
        uniform = random.uniform(seed, first, len(vector["uniform"]))
        assert uniform.tolist() == vector["uniform"]
        below = random.below(seed, first, len(vector["below"]), int(vector["bound"]))
        assert below.tolist() == vector["below"]


def test_random_numbers_can_be_resumed(kernel: Kernel) -> None:
    parts = [kernel.random.bits(7, 0, 9), kernel.random.bits(7, 9, 11)]
    assert bits(kernel.random.bits(7, 0, 20)) == bits(np.concatenate(parts))


@given(data=hnp.arrays(np.float64, st.integers(0, 50), elements=FINITE), seed=st.integers(0, 2**32))
def test_dot_and_exp(same: Same, data: np.ndarray, seed: int) -> None:
    other = np.random.default_rng(seed).normal(size=data.size)
    same(lambda k, threads: [k.random.dot(data, other), k.random.exp(data)])


@pytest.mark.parametrize("size", [0, 1, 3, 4, 4095, 4096, 4097, 20001])
def test_block_sum(same: Same, size: int) -> None:
    a = np.random.default_rng(size).normal(size=size)
    a.flags.writeable = False
    same(lambda k, threads: [k.random.block_sum(a, threads)])


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
        for x, actual in zip(points.tolist(), kernel.random.exp(points).tolist(), strict=True):
            exact = decimal.Decimal(x).exp()
            assert abs(decimal.Decimal(actual) - exact) <= decimal.Decimal("4e-16") * exact, x


def test_exp_saturates(kernel: Kernel) -> None:
    values = kernel.random.exp(np.array([1e4, np.inf, 708.0, -1e4, -np.inf, -708.0, np.nan]))
    assert values[0] == values[1] == values[2]
    assert values[3] == values[4] == values[5]
    assert math.isfinite(values[0])
    assert values[5] > np.finfo(np.float64).smallest_normal
    assert math.isnan(values[6])


def test_exp_does_not_depend_on_the_position(kernel: Kernel) -> None:
    x = np.random.default_rng(3).uniform(-700, 700, 41)
    alone = np.concatenate([kernel.random.exp(x[i : i + 1].copy()) for i in range(x.size)])
    assert bits(alone) == bits(kernel.random.exp(x))


def test_exp_of_every_build(cython_build: Same) -> None:
    x = np.random.default_rng(0).uniform(-710, 710, 1001)
    cython_build(lambda k, threads: [k.random.exp(x)])


def test_constants() -> None:
    assert contract.EXP_Q[0] == pytest.approx(0.5, rel=1e-15)
    assert math.log(2.0) == contract.LN2_HIGH + contract.LN2_LOW
