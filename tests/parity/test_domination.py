"""The domination loss and its coordinate descent."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from parity_helpers import KINDS, Same

from ranking.kernels.contract import BLOCK, SPREAD, CoordinateState, EntryPenalty
from ranking.kernels.kernel import Kernel

MakeProblem = Callable[..., Any]
LAYOUTS = [
    pytest.param({"sparse": False, "dtype": "float32"}, id="dense-float32"),
    pytest.param({"sparse": False, "dtype": "float64"}, id="dense-float64"),
    *(
        pytest.param({"sparse": True, "dtype": data, "index": index}, id=f"sparse-{data}-{index}")
        for data, index in KINDS
    ),
]
PENALTIES = [EntryPenalty(0.0, 0.0), EntryPenalty(0.3, 0.0), EntryPenalty(0.0, 0.3)]
PENALTIES += [EntryPenalty(0.2, 0.1)]


def run(
    kernel: Kernel,
    problem: Any,
    *,
    threads: int = 1,
    sweeps: int = 2,
    start: np.ndarray | None = None,
    radius: float | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Call every function of the family; return all results by name."""
    features, lists, margins = problem
    bounds, domination = problem.bounds(kernel), kernel.domination
    out = {
        "value": domination.value(lists, margins, threads),
        "bounds": domination.bounds(features, lists, threads),
    }
    out["gradient"], out["curvature"] = domination.slopes(
        features, lists, margins, problem.columns, threads
    )
    weights = np.zeros(features.shape[1]) if start is None else start.copy()
    radii = 1.0 / np.where(bounds[1] > 0.0, bounds[1], 1.0)
    if radius is not None:
        radii[:] = radius
    state = CoordinateState(margins.copy(), weights, radii, bounds)
    for sweep in range(sweeps):
        domination.sweep(features, lists, state, problem.columns, threads=threads, **options)
        out |= {f"{k} after sweep {sweep}": v.copy() for k, v in state._asdict().items()}
    return out


def check(same: Same, problem: Any, **options: Any) -> None:
    same(lambda k, threads: run(k, problem, threads=threads, **options))


@pytest.fixture(scope="session", params=LAYOUTS)
def make(request: pytest.FixtureRequest, make_problem: MakeProblem) -> MakeProblem:
    """Build random problems with a layout of the features."""
    return functools.partial(make_problem, **request.param)


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("newton", [True, False], ids=["newton", "bound"])
def test_all_functions(same: Same, make: MakeProblem, penalty: EntryPenalty, newton: bool) -> None:
    check(same, make(1), newton=newton, penalty=penalty)


@pytest.mark.slow
def test_several_blocks(same: Same, make: MakeProblem) -> None:
    sizes = [700, 3, 5000, 64, 65, 4000, 2, 1500]
    problem = make(2, sizes=sizes, n_features=2, grades=3)
    assert problem.lists.block_ptr.size - 1 > 2
    assert problem.lists.n_rows > 2 * BLOCK
    check(same, problem, sweeps=1)


@pytest.mark.parametrize("sizes", [[], [5]], ids=["no-groups", "one-grade"])
def test_no_lists(same: Same, make: MakeProblem, sizes: list[int]) -> None:
    problem = make(3, sizes=sizes, grades=1)
    assert problem.lists.n_lists == 0
    check(same, problem)


def test_no_features_two_rows_and_ties(same: Same, make: MakeProblem) -> None:
    check(same, make(3, n_features=0))
    for seed in range(20):
        check(same, make(seed, sizes=[2], grades=2, density=1.0))
    tied = make(4, spread=0.0)
    check(same, tied)
    tied.margins[::2] = -0.0
    check(same, tied)


@pytest.mark.slow
def test_thousand_layers(same: Same, make: MakeProblem) -> None:
    problem = make(5, sizes=[1100], grades=10**9, n_features=2)
    assert problem.lists.layer_size.size > 1000
    check(same, problem, sweeps=1)


def test_constant_and_empty_features(same: Same, make: MakeProblem) -> None:
    problem = make(6)
    features, lists, _ = problem
    x = features.toarray() if sp.issparse(features) else features
    x[:, 1] = np.where(lists.source >= 0, 3.0, 0.0)
    x[:, 3] = 0.0
    if sp.issparse(features):
        csc = sp.csc_array(x)
        csc.indptr = csc.indptr.astype(features.indptr.dtype)
        csc.indices = csc.indices.astype(features.indices.dtype)
        problem = problem._replace(features=csc)
    bounds = same.reference.domination.bounds(problem.features, lists)
    assert bounds[0, [1, 3]].tolist() == [0.0, 0.0]
    check(same, problem)


def test_wide_range_lists(same: Same, make: MakeProblem) -> None:
    problem = make(7, spread=80.0, scale=10.0)
    starts = problem.lists.layer_ptr[problem.lists.list_ptr[:-1]]
    high, low = (f.reduceat(problem.margins, starts) for f in (np.maximum, np.minimum))
    assert np.any(high - low > SPREAD)
    assert np.any(high - low < SPREAD)
    check(same, problem, sweeps=3)


def test_huge_features_and_weights(same: Same, make: MakeProblem) -> None:
    problem = make(8, scale=1e4)
    weights = np.random.default_rng(8).normal(size=5) * 1e3
    problem = problem._replace(margins=np.asarray(problem.features @ weights, dtype=np.float64))
    assert np.ptp(problem.margins) > 1e6
    check(same, problem, sweeps=3, start=weights)


@pytest.mark.parametrize("newton", [True, False])
def test_exponentials_are_recomputed_within_a_sweep(
    same: Same, make: MakeProblem, newton: bool
) -> None:
    # l2 pulls in weights that are too large: big steps, one after another.
    problem = make(9, scale=3.0, n_features=8)
    start = np.full(8, 40.0)
    options = {"penalty": EntryPenalty(0.0, 1e3), "newton": newton}
    options |= {"radius": 100.0, "start": start}
    end = run(same.reference, problem, **options)["weights after sweep 0"]
    steps = np.abs(end - start) * problem.bounds(same.reference)[2]
    assert np.flatnonzero(np.cumsum(steps) > SPREAD)[0] < 5
    check(same, problem, **options)


def test_columns_that_do_not_move(same: Same, make: MakeProblem) -> None:
    check(same, make(10), penalty=EntryPenalty(1e6, 0.0))


def test_repeated_and_selected_columns(same: Same, make: MakeProblem) -> None:
    problem = make(11)
    bounds = problem.bounds(same.reference)
    columns = np.array([4, 0, 0, 2, 4], dtype=np.int64)

    def sweep(k: Kernel, threads: int) -> CoordinateState:
        state = CoordinateState(problem.margins.copy(), np.zeros(5), 1.0 / bounds[1], bounds)
        k.domination.sweep(problem.features, problem.lists, state, columns, threads=threads)
        return state

    assert same(sweep)[1][[1, 3]].tolist() == [0.0, 0.0]


def test_read_only_inputs(same: Same, make: MakeProblem) -> None:
    problem = make(12)
    features, lists, margins = problem
    arrays = [margins, lists.list_ptr, lists.layer_ptr, lists.layer_size, lists.block_ptr]
    if sp.issparse(features):
        arrays += [features.indptr, features.indices, features.data]
    else:
        arrays.append(features)
    for array in (*arrays, lists.omega):
        array.flags.writeable = False
    check(same, problem)


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=6),
    grades=st.integers(2, 6),
    n_features=st.integers(1, 6),
    scale=st.sampled_from([1e-4, 0.1, 1.0, 30.0, 1e4]),
    spread=st.sampled_from([0.0, 1.0, 50.0, 150.0, 1e5]),
    density=st.sampled_from([0.05, 0.5, 1.0]),
    sparse=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    index=st.sampled_from(["int32", "int64"]),
    l1=st.sampled_from([0.0, 0.01, 1.0]),
    l2=st.sampled_from([0.0, 0.01, 100.0]),
    newton=st.booleans(),
)
def test_any_problem(
    same: Same,
    make_problem: MakeProblem,
    seed: int,
    l1: float,
    l2: float,
    newton: bool,
    **shape: Any,
) -> None:
    problem = make_problem(seed, **shape)
    start = np.random.default_rng(seed).normal(size=shape["n_features"])
    check(same, problem, start=start, penalty=EntryPenalty(l1, l2), newton=newton)


@pytest.mark.parametrize("spread", [1.0, 200.0])
def test_every_build_of_cython(cython_build: Same, make: MakeProblem, spread: float) -> None:
    check(cython_build, make(13, spread=spread), penalty=EntryPenalty(0.01, 0.0))
