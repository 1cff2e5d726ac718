"""The domination loss and its coordinate descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from parity_helpers import KINDS, assert_same, build_kernel, every_cython_build

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


def check(kernel: Kernel, reference: Kernel, problem: Any, **options: Any) -> None:
    assert_same(lambda k, threads: run(k, problem, threads=threads, **options), kernel, reference)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@pytest.mark.parametrize("newton", [True, False], ids=["newton", "bound"])
def test_all_functions(
    kernel: Kernel,
    reference: Kernel,
    make_problem: MakeProblem,
    layout: dict[str, Any],
    penalty: EntryPenalty,
    newton: bool,
) -> None:
    check(kernel, reference, make_problem(1, **layout), newton=newton, penalty=penalty)


@pytest.mark.parametrize("layout", LAYOUTS)
class TestEdges:
    @pytest.mark.slow
    def test_several_blocks(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        sizes = [700, 3, 5000, 64, 65, 4000, 2, 1500]
        problem = make_problem(2, sizes=sizes, n_features=2, grades=3, **layout)
        assert problem.lists.block_ptr.size - 1 > 2
        assert problem.lists.n_rows > 2 * BLOCK
        check(kernel, reference, problem, sweeps=1)

    @pytest.mark.parametrize("sizes", [[], [5]], ids=["no-groups", "one-grade"])
    def test_no_lists(
        self,
        kernel: Kernel,
        reference: Kernel,
        make_problem: MakeProblem,
        layout: dict[str, Any],
        sizes: list[int],
    ) -> None:
        problem = make_problem(3, sizes=sizes, grades=1, **layout)
        assert problem.lists.n_lists == 0
        check(kernel, reference, problem)

    def test_no_features(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        check(kernel, reference, make_problem(3, n_features=0, **layout))

    def test_one_list_of_two_rows(
        self, kernel: Kernel, reference: Kernel, layout: dict[str, Any], make_problem: MakeProblem
    ) -> None:
        for seed in range(20):
            problem = make_problem(seed, sizes=[2], grades=2, density=1.0, **layout)
            check(kernel, reference, problem)

    def test_tied_margins(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        check(kernel, reference, make_problem(4, spread=0.0, **layout))

    def test_negative_zeros(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(4, spread=0.0, **layout)
        problem.margins[::2] = -0.0
        check(kernel, reference, problem)

    @pytest.mark.slow
    def test_thousand_layers(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(5, sizes=[1100], grades=10**9, n_features=2, **layout)
        assert problem.lists.layer_size.size > 1000
        check(kernel, reference, problem, sweeps=1)

    def test_constant_and_empty_features(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        features, lists, margins = make_problem(6, **layout)
        x = features.toarray() if sp.issparse(features) else features
        x[:, 1] = np.where(lists.source >= 0, 3.0, 0.0)
        x[:, 3] = 0.0
        if sp.issparse(features):
            csc = sp.csc_array(x)
            csc.indptr = csc.indptr.astype(features.indptr.dtype)
            csc.indices = csc.indices.astype(features.indices.dtype)
            features = csc
        problem = make_problem(6, **layout)._replace(features=features, margins=margins)
        assert reference.domination.bounds(features, lists)[0, [1, 3]].tolist() == [0.0, 0.0]
        check(kernel, reference, problem)

    def test_wide_range_lists(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(7, spread=80.0, scale=10.0, **layout)
        starts = problem.lists.layer_ptr[problem.lists.list_ptr[:-1]]
        width = np.maximum.reduceat(problem.margins, starts) - np.minimum.reduceat(
            problem.margins, starts
        )
        assert np.any(width > SPREAD)
        assert np.any(width < SPREAD)
        check(kernel, reference, problem, sweeps=3)

    def test_huge_features_and_weights(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(8, scale=1e4, **layout)
        weights = np.random.default_rng(8).normal(size=5) * 1e3
        problem = problem._replace(margins=np.asarray(problem.features @ weights, dtype=np.float64))
        assert np.ptp(problem.margins) > 1e6
        check(kernel, reference, problem, sweeps=3, start=weights)

    @pytest.mark.parametrize("newton", [True, False])
    def test_exponentials_are_recomputed_within_a_sweep(
        self,
        kernel: Kernel,
        reference: Kernel,
        make_problem: MakeProblem,
        layout: dict[str, Any],
        newton: bool,
    ) -> None:
        # l2 pulls in weights that are too large: big steps, one after another.
        problem = make_problem(9, scale=3.0, n_features=8, **layout)
        start = np.full(8, 40.0)
        options = {"penalty": EntryPenalty(0.0, 1e3), "newton": newton}
        options |= {"radius": 100.0, "start": start}
        end = run(reference, problem, **options)["weights after sweep 0"]
        steps = np.abs(end - start) * problem.bounds(reference)[2]
        assert np.flatnonzero(np.cumsum(steps) > SPREAD)[0] < 5
        check(kernel, reference, problem, **options)

    def test_columns_that_do_not_move(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        check(kernel, reference, make_problem(10, **layout), penalty=EntryPenalty(1e6, 0.0))

    def test_repeated_and_selected_columns(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(11, **layout)
        bounds = problem.bounds(reference)
        columns = np.array([4, 0, 0, 2, 4], dtype=np.int64)

        def sweep(k: Kernel, threads: int) -> CoordinateState:
            state = CoordinateState(problem.margins.copy(), np.zeros(5), 1.0 / bounds[1], bounds)
            k.domination.sweep(problem.features, problem.lists, state, columns, threads=threads)
            return state

        state = assert_same(sweep, kernel, reference)
        assert state[1][[1, 3]].tolist() == [0.0, 0.0]

    def test_read_only_inputs(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(12, **layout)
        features, lists, margins = problem
        arrays = [margins, lists.list_ptr, lists.layer_ptr, lists.layer_size, lists.block_ptr]
        if sp.issparse(features):
            arrays += [features.indptr, features.indices, features.data]
        else:
            arrays.append(features)
        for array in (*arrays, lists.omega):
            array.flags.writeable = False
        check(kernel, reference, problem)


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
    kernel: Kernel,
    reference: Kernel,
    make_problem: MakeProblem,
    seed: int,
    l1: float,
    l2: float,
    newton: bool,
    **shape: Any,
) -> None:
    problem = make_problem(seed, **shape)
    start = np.random.default_rng(seed).normal(size=shape["n_features"])
    penalty = EntryPenalty(l1, l2)
    check(kernel, reference, problem, start=start, penalty=penalty, newton=newton)


@every_cython_build
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spread", [1.0, 200.0])
def test_every_build_of_cython(
    reference: Kernel, make_problem: MakeProblem, build: str, layout: dict[str, Any], spread: float
) -> None:
    problem = make_problem(13, spread=spread, **layout)
    check(build_kernel(build), reference, problem, penalty=EntryPenalty(0.01, 0.0))
