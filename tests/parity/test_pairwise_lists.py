"""Pairwise losses over judged lists, and the quadratic model of a Newton step."""

from __future__ import annotations

import ctypes
from ctypes import c_double, c_void_p
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from parity_helpers import EXAMPLES, KINDS, SEEDS, Same

from ranking.kernels.contract import BLOCK, CHUNK, PRODUCTS, EntryPenalty, PairCurve
from ranking.kernels.domination import Columns, LayeredLists
from ranking.kernels.kernel import Kernel
from ranking.kernels.pairwise_lists import (
    UNIFORM,
    logistic,
    native,
    smoothed_hinge,
    squared_hinge,
)
from ranking.native import PairwiseFunctions

# Callbacks of ctypes take the GIL, so they may be called from any thread, as C functions are.


@ctypes.CFUNCTYPE(c_double, c_double, c_void_p)
def softplus(z: float, context: int | None) -> float:
    return max(1.0 - z, 0.0) ** 3 / 3.0


@ctypes.CFUNCTYPE(c_double, c_double, c_void_p)
def softplus_slope(z: float, context: int | None) -> float:
    return -(max(1.0 - z, 0.0) ** 2)


def address_of(function: Any) -> int:
    address = ctypes.cast(function, c_void_p).value
    assert address is not None
    return address


CUBIC = PairwiseFunctions.from_addresses(
    value=address_of(softplus), slope=address_of(softplus_slope), keep=(softplus, softplus_slope)
)
CURVES = {
    "hinge": smoothed_hinge(0.1),
    "squared-hinge": squared_hinge(),
    "uniform": UNIFORM,
    "logistic": logistic(),
    "native": native(CUBIC, 1.5),
}
LAYOUTS = [("dense", "float32", ""), ("dense", "float64", "")]
LAYOUTS += [("sparse", data, index) for data, index in KINDS]
PENALTIES = [EntryPenalty(0.0, 0.0), EntryPenalty(0.3, 0.0), EntryPenalty(0.0, 0.3)]
PENALTIES += [EntryPenalty(0.02, 0.1)]


class Problem:
    """Random lists, features and margins; some margins are tied, some weights are 0."""

    def __init__(
        self,
        seed: int,
        sizes: tuple[int, ...] = (7, 1, 12, 2, 30),
        kind: str = "dense",
        dtype: str = "float64",
        index: str = "int32",
        **options: Any,
    ) -> None:
        grades, n_features, spread = (
            options.get(name, default)
            for name, default in (("grades", 3), ("n_features", 5), ("spread", 1.0))
        )
        rng = np.random.default_rng(seed)
        group_ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        rows = int(group_ptr[-1])
        grade = rng.integers(0, grades, size=rows).astype(np.float64)
        omega = rng.random(rows) * (rng.random(rows) < 0.9)
        self.lists = LayeredLists.build(group_ptr, grade, omega, pad=1)
        n = self.lists.n_rows
        x = rng.normal(size=(n, n_features)).astype(dtype)
        self.margins = np.round(spread * rng.normal(size=n), 2)
        self.features: Columns = np.asfortranarray(x)
        if kind == "sparse":
            csc = sp.csc_array(np.where(rng.random(x.shape) < 0.3, x, 0.0).astype(dtype))
            csc.indptr, csc.indices = csc.indptr.astype(index), csc.indices.astype(index)
            self.features = csc
        self.columns = rng.permutation(n_features)
        self.selected = np.flatnonzero(rng.random(self.lists.n_lists) < 0.8)


def run(kernel: Kernel, problem: Problem, curve: PairCurve, threads: int) -> dict[str, Any]:
    """Call every function of the family; return all results by name."""
    family, x, columns = kernel.pairwise_lists, problem.features, problem.columns
    value, slopes = family.slopes(problem.lists, problem.margins, curve, threads)
    gram = family.gram(
        x,
        problem.lists,
        problem.margins,
        curve,
        columns,
        selected=problem.selected,
        threads=threads,
    )
    products = family.products(x, columns, slopes, threads)
    weights = np.where(np.arange(columns.size) % 3 == 2, 0.0, products)
    out = {"value": value, "slopes": slopes, "gram": gram, "products": products}
    out["combination"] = family.combination(x, columns, weights, threads)
    for penalty in PENALTIES:
        gradient, at = products.copy(), weights.copy()
        out[f"sweeps {penalty}"] = family.descend(
            gram, gradient, at, penalty, sweeps=50, tolerance=1e-6
        )
        out |= {f"gradient {penalty}": gradient, f"weights {penalty}": at}
    return out


def check(same: Same, problem: Problem, curve: PairCurve) -> None:
    same(lambda k, threads: run(k, problem, curve, threads))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("layout", LAYOUTS, ids="-".join)
def test_all_functions(same: Same, name: str, layout: tuple[str, str, str]) -> None:
    kind, dtype, index = layout
    problem = Problem(1, kind=kind, dtype=dtype, index=index or "int32")
    check(same, problem, CURVES[name])


@pytest.mark.parametrize("name", CURVES)
@EXAMPLES
@given(
    seed=SEEDS,
    sizes=st.lists(st.integers(0, 20), max_size=40),
    grades=st.integers(1, 6),
    n_features=st.sampled_from([0, 1, 3, 8, 9]),
    spread=st.sampled_from([0.0, 0.05, 1.0, 30.0, 1e4]),
    kind=st.sampled_from(["dense", "sparse"]),
)
def test_any_lists(same: Same, name: str, seed: int, sizes: list[int], **options: Any) -> None:
    check(same, Problem(seed, tuple(sizes), **options), CURVES[name])


@pytest.mark.parametrize("name", ["hinge", "squared-hinge", "logistic"])
def test_long_lists_and_several_blocks(same: Same, name: str) -> None:
    sizes = (2 * CHUNK + 1, BLOCK // 4, 3, BLOCK // 8, 2 * PRODUCTS + 7, BLOCK // 2, 2)
    problem = Problem(2, sizes, grades=2, n_features=2)
    if name == "logistic":  # a pair at a time, in NumPy
        problem = Problem(2, (2 * CHUNK + 1, 2 * PRODUCTS + 7), grades=2, n_features=1)
        problem.selected = problem.selected[:1]
    check(same, problem, CURVES[name])


@pytest.mark.parametrize("name", CURVES)
def test_every_cython_build(cython_build: Same, name: str) -> None:
    check(cython_build, Problem(3, n_features=17), CURVES[name])
