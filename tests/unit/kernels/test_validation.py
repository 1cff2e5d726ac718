"""Input validation: the checked side refuses what a kernel function could not trust."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ranking.kernels.builtin import reference_kernel
from ranking.kernels.contract import CoordinateState, EntryPenalty
from ranking.kernels.domination import SparseColumns
from ranking.kernels.kernel import Kernel
from ranking.kernels.validation import validate_seed, validate_threads

MakeProblem = Callable[..., Any]


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    """One kernel: validation comes before all of them."""
    return reference_kernel()


def unaligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that starts at an odd address."""
    buffer = np.zeros(array.nbytes + 1, dtype=np.uint8)
    out = buffer[1:].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def strided(array: np.ndarray) -> np.ndarray:
    return np.repeat(array, 2)[::2]


def read_only(array: np.ndarray) -> np.ndarray:
    array = array.copy()
    array.flags.writeable = False
    return array


BAD_VECTORS = [
    pytest.param(lambda a: a.tolist(), TypeError, "must be a NumPy array, not list", id="list"),
    pytest.param(lambda a: a.astype("float32"), TypeError, "dtype float32; a kernel", id="float32"),
    pytest.param(lambda a: a.astype(">f8"), TypeError, "dtype >f8; a kernel", id="byte-order"),
    pytest.param(
        lambda a: a[:, None], ValueError, r"expected shape .*, got \(\d+, 1\)", id="dimensions"
    ),
    pytest.param(
        lambda a: a[:-1].copy(), ValueError, r"expected shape .*, got \(\d+,\)", id="length"
    ),
    pytest.param(strided, ValueError, "not C-contiguous; call numpy.ascontig", id="strided"),
    pytest.param(unaligned, ValueError, "not aligned in memory", id="unaligned"),
]


@pytest.mark.parametrize(("spoil", "error", "words"), BAD_VECTORS)
class TestVectors:
    def test_dot(
        self, kernel: Kernel, spoil: Callable[..., Any], error: type[Exception], words: str
    ) -> None:
        with pytest.raises(error, match=f"^b.*{words}"):
            kernel.random.dot(np.ones(4), spoil(np.ones(4)))

    def test_linear_scores(
        self, kernel: Kernel, spoil: Callable[..., Any], error: type[Exception], words: str
    ) -> None:
        with pytest.raises(error, match=f"weights.*{words}"):
            kernel.linear.scores(np.ones((3, 4)), spoil(np.ones(4)))

    def test_value(
        self,
        kernel: Kernel,
        make_problem: MakeProblem,
        spoil: Callable[..., Any],
        error: type[Exception],
        words: str,
    ) -> None:
        problem = make_problem(0)
        with pytest.raises(error, match=f"margins.*{words}"):
            kernel.domination.value(problem.lists, spoil(problem.margins))

    @pytest.mark.parametrize("name", ["margins", "weights", "radius"])
    @pytest.mark.parametrize("sparse", [False, True])
    def test_sweep(
        self,
        kernel: Kernel,
        make_problem: MakeProblem,
        spoil: Callable[..., Any],
        error: type[Exception],
        words: str,
        name: str,
        sparse: bool,
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call[name] = spoil(call[name])
        with pytest.raises(error, match=f"{name}.*{words}"):
            sweep(kernel, call)


def sweep_arguments(kernel: Kernel, problem: Any) -> dict[str, Any]:
    width = problem.features.shape[1]
    return {
        "features": problem.features,
        "lists": problem.lists,
        "margins": problem.margins,
        "weights": np.zeros(width),
        "radius": np.ones(width),
        "bounds": problem.bounds(kernel),
        "columns": problem.columns,
    }


def sweep(kernel: Kernel, call: dict[str, Any], **options: Any) -> None:
    """Call sweep with arrays by name."""
    state = CoordinateState(*(call[name] for name in CoordinateState._fields))
    kernel.domination.sweep(call["features"], call["lists"], state, call["columns"], **options)


@pytest.mark.parametrize("sparse", [False, True])
class TestSweep:
    @pytest.mark.parametrize("name", ["margins", "weights", "radius"])
    def test_read_only_output(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool, name: str
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call[name] = read_only(call[name])
        with pytest.raises(ValueError, match=f"{name} is read-only"):
            sweep(kernel, call)

    @pytest.mark.parametrize(("one", "other"), [("weights", "radius"), ("radius", "bounds")])
    def test_overlap(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool, one: str, other: str
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call[one] = call[other][1] if call[other].ndim == 2 else call[other]
        with pytest.raises(ValueError, match=f"{one} and {other} overlap"):
            sweep(kernel, call)

    def test_margins_overlap_features(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool
    ) -> None:
        problem = make_problem(0, sparse=sparse, density=1.0)
        call = sweep_arguments(kernel, problem)
        rows = problem.lists.n_rows
        call["margins"] = problem.features.data[:rows] if sparse else problem.features[:, 0]
        with pytest.raises(ValueError, match="margins and features overlap"):
            sweep(kernel, call)

    @pytest.mark.parametrize("name", ["l1", "l2"])
    @pytest.mark.parametrize("value", [-1.0, np.inf, np.nan])
    def test_penalty(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool, name: str, value: float
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        with pytest.raises(ValueError, match=f"{name} is {value}; it must be finite"):
            sweep(kernel, call, penalty=EntryPenalty(**{"l1": 0.0, "l2": 0.0, name: value}))

    def test_negative_bound(self, kernel: Kernel, make_problem: MakeProblem, sparse: bool) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call["bounds"][0, 0] = -1.0
        with pytest.raises(ValueError, match="bounds must not be negative"):
            sweep(kernel, call)

    def test_bound_without_range(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call["bounds"][1, 0] = 0.0
        with pytest.raises(ValueError, match="a feature that varies has a range"):
            sweep(kernel, call)

    def test_radius(self, kernel: Kernel, make_problem: MakeProblem, sparse: bool) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call["radius"][2] = 0.0
        with pytest.raises(ValueError, match="radius must be at least"):
            sweep(kernel, call)

    @pytest.mark.parametrize("columns", [[-1], [0, 5]])
    def test_columns_out_of_range(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool, columns: list[int]
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call["columns"] = np.array(columns, dtype=np.int64)
        with pytest.raises(ValueError, match=r"columns run from .* they must lie in 0\.\.4"):
            sweep(kernel, call)

    def test_columns_of_another_type(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        call["columns"] = call["columns"].astype(np.int32)
        with pytest.raises(TypeError, match="columns has dtype int32"):
            sweep(kernel, call)

    def test_a_refused_call_writes_nothing(
        self, kernel: Kernel, make_problem: MakeProblem, sparse: bool
    ) -> None:
        call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
        before = call["margins"].copy()
        with pytest.raises(ValueError, match="l1 is"):
            sweep(kernel, call, penalty=EntryPenalty(-1.0, 0.0))
        assert call["margins"].tobytes() == before.tobytes()
        assert not call["weights"].any()


class TestDenseFeatures:
    def test_c_order(self, kernel: Kernel, make_problem: MakeProblem) -> None:
        features, lists, _ = make_problem(0)
        with pytest.raises(ValueError, match=r"not F-contiguous; call numpy\.asfortran"):
            kernel.domination.bounds(np.ascontiguousarray(features), lists)

    def test_dtype(self, kernel: Kernel, make_problem: MakeProblem) -> None:
        features, lists, _ = make_problem(0)
        with pytest.raises(TypeError, match="features has dtype float16"):
            kernel.domination.bounds(features.astype(np.float16), lists)

    def test_rows(self, kernel: Kernel, make_problem: MakeProblem) -> None:
        features, lists, _ = make_problem(0)
        with pytest.raises(ValueError, match="features: expected shape"):
            kernel.domination.bounds(np.asfortranarray(features[:-4]), lists)

    def test_lists_without_padding(self, kernel: Kernel, make_problem: MakeProblem) -> None:
        lists = make_problem(0, sparse=True).lists
        with pytest.raises(ValueError, match="padded to a multiple of 4"):
            kernel.domination.bounds(np.zeros((lists.n_rows, 2), order="F"), lists)


def csc(
    indptr: list[int], indices: list[int], shape: tuple[int, int], dtype: str = "int32"
) -> sp.csc_array:
    """A CSC array that SciPy itself has not checked."""
    out = sp.csc_array(shape)
    out.indptr, out.indices = np.array(indptr, dtype=dtype), np.array(indices, dtype=dtype)
    out.data = np.ones(len(indices))
    return out


BAD_SPARSE = [
    pytest.param([0, 2, 1, 3], [0, 1, 2], ValueError, "indptr must rise from 0", id="falls"),
    pytest.param([1, 1, 2, 3], [0, 1, 2], ValueError, "indptr must rise from 0", id="start"),
    pytest.param([0, 1, 2, 4], [0, 1, 2], ValueError, "indptr must rise from 0", id="end"),
    pytest.param([0, 1, 3], [0, 1, 2], ValueError, "indptr: expected shape", id="length"),
    pytest.param([0, 1, 2, 3], [0, 4, 2], ValueError, r"must lie in 0\.\.3", id="high"),
    pytest.param([0, 1, 2, 3], [0, -1, 2], ValueError, r"must lie in 0\.\.3", id="negative"),
]
BAD_COLUMNS = [
    *BAD_SPARSE,
    pytest.param([0, 2, 2, 3], [1, 0, 2], ValueError, "not sorted, or hold dup", id="unsorted"),
    pytest.param([0, 0, 2, 3], [1, 1, 2], ValueError, "not sorted, or hold dup", id="duplicate"),
]


class TestSparseFeatures:
    @pytest.fixture
    def lists(self, make_problem: MakeProblem) -> Any:
        for seed in range(100):
            lists = make_problem(seed, sizes=[4], grades=2, sparse=True).lists
            if lists.n_rows == 4:
                return lists
        raise AssertionError("no list of four rows")

    @pytest.mark.parametrize(("indptr", "indices", "error", "words"), BAD_COLUMNS)
    def test_columns(
        self,
        kernel: Kernel,
        lists: Any,
        indptr: list[int],
        indices: list[int],
        error: type[Exception],
        words: str,
    ) -> None:
        with pytest.raises(error, match=words):
            kernel.domination.bounds(csc(indptr, indices, (4, 3)), lists)

    def test_order_restarts_in_each_column(self, kernel: Kernel, lists: Any) -> None:
        kernel.domination.bounds(csc([0, 0, 2, 3], [1, 3, 0], (4, 3)), lists)

    @pytest.mark.parametrize(("indptr", "indices", "error", "words"), BAD_SPARSE)
    def test_rows(
        self,
        kernel: Kernel,
        indptr: list[int],
        indices: list[int],
        error: type[Exception],
        words: str,
    ) -> None:
        rows = sp.csr_array((3, 4))
        rows.indptr, rows.indices = (
            np.array(indptr, dtype=np.int32),
            np.array(indices, dtype=np.int32),
        )
        rows.data = np.ones(len(indices))
        with pytest.raises(error, match=words):
            kernel.linear.scores(rows, np.ones(4))

    def test_two_index_types(self, kernel: Kernel, lists: Any) -> None:
        features = csc([0, 1, 2, 3], [0, 1, 2], (4, 3))
        features.indptr = features.indptr.astype(np.int64)
        with pytest.raises(TypeError, match="indptr has dtype int64 and indices int32"):
            kernel.domination.bounds(features, lists)

    def test_index_type(self, kernel: Kernel, lists: Any) -> None:
        features = csc([0, 1, 2, 3], [0, 1, 2], (4, 3), "int16")
        with pytest.raises(TypeError, match="indices has dtype int16"):
            kernel.domination.bounds(features, lists)

    def test_data_type(self, kernel: Kernel, lists: Any) -> None:
        features = csc([0, 1, 2, 3], [0, 1, 2], (4, 3))
        features.data = features.data.astype(np.int64)
        with pytest.raises(TypeError, match="data has dtype int64"):
            kernel.domination.bounds(features, lists)

    def test_data_of_another_length(self, kernel: Kernel, lists: Any) -> None:
        features = csc([0, 1, 2, 3], [0, 1, 2], (4, 3))
        features.data = np.ones(4)
        with pytest.raises(ValueError, match="indices: expected shape"):
            kernel.domination.bounds(features, lists)

    def test_rows_of_another_number(self, kernel: Kernel, lists: Any) -> None:
        with pytest.raises(ValueError, match="features have 5 rows and the lists 4"):
            kernel.domination.bounds(csc([0, 1], [0], (5, 1)), lists)

    def test_padded_lists(self, kernel: Kernel, make_problem: MakeProblem) -> None:
        lists = make_problem(0).lists
        with pytest.raises(ValueError, match="must not be padded; build them with pad=1"):
            kernel.domination.bounds(sp.csc_array((lists.n_rows, 2)), lists)


INVALID_LISTS = [
    pytest.param("list_ptr", lambda a: a + 1, "list_ptr must rise", id="list-start"),
    pytest.param("layer_ptr", lambda a: a[::-1].copy(), "layer_ptr must rise", id="layer-falls"),
    pytest.param(
        "layer_ptr", lambda a: a[:-1].copy(), "layer_ptr: expected shape", id="layer-length"
    ),
    pytest.param("layer_size", lambda a: a + 10**6, "every layer must have rows", id="size-high"),
    pytest.param("layer_size", lambda a: a * 0, "every layer must have rows", id="size-zero"),
    pytest.param("block_ptr", lambda a: a + 1, "block_ptr must rise", id="block-start"),
    pytest.param("omega", lambda a: a[:-1].copy(), "omega: expected shape", id="omega-length"),
]


@pytest.mark.parametrize(("name", "spoil", "words"), INVALID_LISTS)
def test_invalid_lists(
    kernel: Kernel, make_problem: MakeProblem, name: str, spoil: Callable[..., Any], words: str
) -> None:
    problem = make_problem(0)
    lists = dataclasses.replace(problem.lists, **{name: spoil(getattr(problem.lists, name))})
    with pytest.raises(ValueError, match=words):
        kernel.domination.value(lists, problem.margins)


def test_list_with_one_layer(kernel: Kernel, make_problem: MakeProblem) -> None:
    problem = make_problem(0)
    list_ptr = np.insert(problem.lists.list_ptr, 1, 1)
    block_ptr = np.array([0, list_ptr.size - 1])
    lists = dataclasses.replace(problem.lists, list_ptr=list_ptr, block_ptr=block_ptr)
    with pytest.raises(ValueError, match="two layers or more"):
        kernel.domination.value(lists, problem.margins)


def test_writeable_lists_are_checked_each_time(kernel: Kernel, make_problem: MakeProblem) -> None:
    problem = make_problem(0)
    own = dataclasses.replace(problem.lists, layer_ptr=problem.lists.layer_ptr.copy())
    kernel.domination.value(own, problem.margins)
    own.layer_ptr[1] = 10**9
    with pytest.raises(ValueError, match="layer_ptr must rise"):
        kernel.domination.value(own, problem.margins)


def test_arrays_that_are_checked_once_are_read_only(make_problem: MakeProblem) -> None:
    problem = make_problem(0, sparse=True)
    columns = SparseColumns.of(problem.features)
    for array in (*columns.arrays, problem.lists.layer_ptr, problem.lists.omega):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


@pytest.mark.parametrize(("indptr", "indices", "error", "words"), BAD_COLUMNS)
def test_bad_columns_are_refused_at_construction(
    indptr: list[int], indices: list[int], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        SparseColumns.of(csc(indptr, indices, (4, 3)))


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_threads_out_of_range(kernel: Kernel, threads: int) -> None:
    with pytest.raises(ValueError, match=rf"threads is {threads}; .* 1\.\.1024.*os\.cpu_count\(\)"):
        kernel.random.block_sum(np.ones(3), threads)


@pytest.mark.parametrize("threads", [2.5, None, "2", True])
def test_threads_of_another_type(threads: Any) -> None:
    with pytest.raises(TypeError, match=r"threads is .*; give an integer in 1\.\.1024"):
        validate_threads(threads)
    assert validate_threads(np.int64(2)) == 2


@pytest.mark.parametrize("seed", [2.5, None, "1", True])
def test_seeds_of_another_type(kernel: Kernel, seed: Any) -> None:
    with pytest.raises(TypeError, match=r"seed is .*; give an integer in 0\.\.2\*\*64 - 1"):
        kernel.random.bits(seed, 0, 1)
    assert validate_seed(np.uint64(2**63)) == 2**63


@pytest.mark.parametrize("number", [-1, 2**64])
def test_seeds_and_steps_out_of_range(kernel: Kernel, number: int) -> None:
    with pytest.raises(ValueError, match=f"seed is {number}"):
        kernel.random.bits(number, 0, 1)
    with pytest.raises(ValueError, match=f"first is {number}"):
        kernel.random.uniform(0, number, 1)


@pytest.mark.parametrize("bound", [0, -5, 2**32])
def test_random_bound(kernel: Kernel, bound: int) -> None:
    with pytest.raises(ValueError, match=f"bound is {bound}"):
        kernel.random.below(0, 0, 1, bound)


def test_random_count(kernel: Kernel) -> None:
    with pytest.raises(ValueError, match="count is -1"):
        kernel.random.bits(0, 0, -1)
