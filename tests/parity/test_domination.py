"""The domination loops: every kernel has the bits of the reference, for any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.kernels._old_contract import BLOCK, SPREAD
from ranking.kernels.cython import instruction_sets, load_loops
from ranking.kernels.kernel import Kernel

MakeProblem = Callable[..., Any]
THREADS = (1, 2, 5)

LAYOUTS = [
    pytest.param({"sparse": False, "dtype": "float32"}, id="dense-float32"),
    pytest.param({"sparse": False, "dtype": "float64"}, id="dense-float64"),
    *(
        pytest.param({"sparse": True, "dtype": d, "index": i}, id=f"sparse-{d}-{i}")
        for d in ("float32", "float64")
        for i in ("int32", "int64")
    ),
]
PENALTIES = [
    pytest.param({"l1": 0.0, "l2": 0.0}, id="none"),
    pytest.param({"l1": 0.3, "l2": 0.0}, id="l1"),
    pytest.param({"l1": 0.0, "l2": 0.3}, id="l2"),
    pytest.param({"l1": 0.2, "l2": 0.1}, id="l1-l2"),
]


def results(
    kernel: Kernel,
    problem: Any,
    *,
    threads: int = 1,
    sweeps: int = 2,
    start: np.ndarray | None = None,
    radius: float | None = None,
    **how: Any,
) -> dict[str, bytes]:
    """Run everything that a kernel has for domination; return its bits, by name."""
    features, lists, margins = problem
    bounds = problem.bounds(kernel)
    out = {
        "value": np.float64(kernel.domination.value(lists, margins, threads)).tobytes(),
        "bounds": kernel.domination.bounds(features, lists, threads).tobytes(),
    }
    slopes = kernel.domination.slopes(features, lists, margins, problem.columns, threads)
    out["gradient"], out["curvature"] = slopes[0].tobytes(), slopes[1].tobytes()
    moving = margins.copy()
    weights = np.zeros(features.shape[1]) if start is None else start.copy()
    radii = 1.0 / np.where(bounds[1] > 0.0, bounds[1], 1.0)
    if radius is not None:
        radii[:] = radius
    for sweep in range(sweeps):
        kernel.domination.sweep(
            features, lists, moving, weights, radii, bounds, problem.columns, threads=threads, **how
        )
        for name, array in (("margins", moving), ("weights", weights), ("radius", radii)):
            out[f"{name} after sweep {sweep}"] = array.tobytes()
    return out


def check(kernel: Kernel, reference: Kernel, problem: Any, **how: Any) -> None:
    wanted = results(reference, problem, **how)
    for threads in THREADS:
        got = results(kernel, problem, threads=threads, **how)
        assert [name for name in wanted if wanted[name] != got[name]] == []


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("newton", [True, False], ids=["newton", "bound"])
def test_all_parts(
    kernel: Kernel,
    reference: Kernel,
    make_problem: MakeProblem,
    layout: dict[str, Any],
    penalty: dict[str, float],
    newton: bool,
) -> None:
    problem = make_problem(1, **layout)
    check(kernel, reference, problem, newton=newton, **penalty)


@pytest.mark.parametrize("layout", LAYOUTS)
class TestEdges:
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

    def test_thousand_layers(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(5, sizes=[1500], grades=10**9, n_features=2, **layout)
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

    def test_far_lists(
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
    def test_renewal_in_mid_sweep(
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
        how = {"l2": 1e3, "newton": newton, "radius": 100.0, "start": start}
        end = np.frombuffer(results(reference, problem, **how)["weights after sweep 0"])
        steps = np.abs(end - start) * problem.bounds(reference)[2]
        assert np.flatnonzero(np.cumsum(steps) > SPREAD)[0] < 5
        check(kernel, reference, problem, **how)

    def test_last_columns_do_not_move(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        check(kernel, reference, make_problem(10, **layout), l1=1e6)

    def test_repeated_and_chosen_columns(
        self, kernel: Kernel, reference: Kernel, make_problem: MakeProblem, layout: dict[str, Any]
    ) -> None:
        problem = make_problem(11, **layout)
        bounds = problem.bounds(reference)
        columns = np.array([4, 0, 0, 2, 4], dtype=np.int64)
        outcomes = []
        for checked in (kernel, reference):
            margins, weights, radius = problem.margins.copy(), np.zeros(5), 1.0 / bounds[1]
            checked.domination.sweep(
                problem.features, problem.lists, margins, weights, radius, bounds, columns
            )
            outcomes.append((margins.tobytes(), weights.tobytes(), radius.tobytes()))
        assert outcomes[0] == outcomes[1]
        assert weights[[1, 3]].tolist() == [0.0, 0.0]

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
    check(kernel, reference, problem, start=start, l1=l1, l2=l2, newton=newton)


@pytest.mark.parametrize("instructions", instruction_sets())
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("spread", [1.0, 200.0])
def test_every_build_of_cython(
    reference: Kernel,
    make_problem: MakeProblem,
    instructions: str,
    layout: dict[str, Any],
    spread: float,
) -> None:
    built = Kernel("cython", load_loops(instructions), "0")
    assert built.describe()["instructions"] == instructions
    check(built, reference, make_problem(13, spread=spread, **layout), l1=0.01)
    x = np.random.default_rng(0).uniform(-710, 710, 1001)
    assert built.exp(x).tobytes() == reference.random.exp(x).tobytes()
