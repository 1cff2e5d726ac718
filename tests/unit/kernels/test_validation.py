"""Input validation: the checked side refuses what a kernel function could not trust."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from parity_helpers import refuses

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


BAD_VECTORS = {
    "list": (lambda a: a.tolist(), "TypeError: {}.*must be a NumPy array, not list"),
    "float32": (lambda a: a.astype("float32"), "TypeError: {}.*dtype float32; a kernel"),
    "byte-order": (lambda a: a.astype(">f8"), "TypeError: {}.*dtype >f8; a kernel"),
    "dimensions": (lambda a: a[:, None], r"{}.*expected shape .*, got \(\d+, 1\)"),
    "length": (lambda a: a[:-1].copy(), r"{}.*expected shape .*, got \(\d+,\)"),
    "strided": (strided, "{}.*not C-contiguous; call numpy.ascontig"),
    "unaligned": (unaligned, "{}.*not aligned in memory"),
}


@pytest.mark.parametrize(("change", "words"), BAD_VECTORS.values(), ids=BAD_VECTORS)
def test_invalid_vectors(
    kernel: Kernel, make_problem: MakeProblem, change: Any, words: str
) -> None:
    problem = make_problem(0)
    with refuses(words.format("^b")):
        kernel.random.dot(np.ones(4), change(np.ones(4)))
    with refuses(words.format("weights")):
        kernel.linear.scores(np.ones((3, 4)), change(np.ones(4)))
    with refuses(words.format("margins")):
        kernel.domination.value(problem.lists, change(problem.margins))
    for sparse in (False, True):
        for name in ("margins", "weights", "radius"):
            call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
            call[name] = change(call[name])
            with refuses(words.format(name)):
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


def with_entry(name: str, place: Any, value: float) -> Callable[[dict[str, Any]], Any]:
    """Return a change of one number of an array."""

    def change(call: dict[str, Any]) -> Any:
        array = call[name].copy()
        array[place] = value
        return array

    return change


def feature_memory(call: dict[str, Any]) -> Any:
    """Return as many numbers as there are rows, in the memory of the features."""
    features, rows = call["features"], call["lists"].n_rows
    return features.data[:rows] if sp.issparse(features) else features[:, 0]


INVALID_SWEEPS = [
    ("margins", lambda call: read_only(call["margins"]), "margins is read-only"),
    ("weights", lambda call: read_only(call["weights"]), "weights is read-only"),
    ("radius", lambda call: read_only(call["radius"]), "radius is read-only"),
    ("weights", lambda call: call["radius"], "weights and radius overlap"),
    ("radius", lambda call: call["bounds"][1], "radius and bounds overlap"),
    ("margins", feature_memory, "margins and features overlap"),
    ("bounds", with_entry("bounds", (0, 0), -1.0), "bounds must not be negative"),
    ("bounds", with_entry("bounds", (1, 0), 0.0), "a feature that varies has a range"),
    ("radius", with_entry("radius", 2, 0.0), "radius must be at least"),
    ("columns", lambda call: np.array([-1]), r"columns run from .* they must lie in 0\.\.4"),
    ("columns", lambda call: np.array([0, 5]), r"columns run from .* they must lie in 0\.\.4"),
    (
        "columns",
        lambda call: call["columns"].astype(np.int32),
        "TypeError: columns has dtype int32",
    ),
]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("name", "change", "words"), INVALID_SWEEPS)
def test_invalid_sweeps(
    kernel: Kernel, make_problem: MakeProblem, sparse: bool, name: str, change: Any, words: str
) -> None:
    call = sweep_arguments(kernel, make_problem(0, sparse=sparse, density=1.0))
    call[name] = change(call)
    with refuses(words):
        sweep(kernel, call)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["l1", "l2"])
@pytest.mark.parametrize("value", [-1.0, np.inf, np.nan])
def test_a_refused_penalty_writes_nothing(
    kernel: Kernel, make_problem: MakeProblem, sparse: bool, name: str, value: float
) -> None:
    call = sweep_arguments(kernel, make_problem(0, sparse=sparse))
    before = call["margins"].copy()
    with refuses(f"{name} is {value}; it must be finite"):
        sweep(kernel, call, penalty=EntryPenalty(**{"l1": 0.0, "l2": 0.0, name: value}))
    assert call["margins"].tobytes() == before.tobytes()
    assert not call["weights"].any()


def test_invalid_dense_features(kernel: Kernel, make_problem: MakeProblem) -> None:
    features, lists, _ = make_problem(0)
    for change, words in (
        (np.ascontiguousarray(features), r"not F-contiguous; call numpy\.asfortran"),
        (features.astype(np.float16), "TypeError: features has dtype float16"),
        (np.asfortranarray(features[:-4]), "features: expected shape"),
    ):
        with refuses(words):
            kernel.domination.bounds(change, lists)
    lists = make_problem(0, sparse=True).lists
    with refuses("padded to a multiple of 4"):
        kernel.domination.bounds(np.zeros((lists.n_rows, 2), order="F"), lists)


def compressed(
    kind: Any, indptr: list[int], indices: list[int], shape: tuple[int, int], dtype: str = "int32"
) -> Any:
    """A CSC or CSR array that SciPy itself has not checked."""
    out = kind(shape)
    out.indptr, out.indices = np.array(indptr, dtype=dtype), np.array(indices, dtype=dtype)
    out.data = np.ones(len(indices))
    return out


BAD_ROWS = [
    ([0, 2, 1, 3], [0, 1, 2], "indptr must rise from 0"),
    ([1, 1, 2, 3], [0, 1, 2], "indptr must rise from 0"),
    ([0, 1, 2, 4], [0, 1, 2], "indptr must rise from 0"),
    ([0, 1, 3], [0, 1, 2], "indptr: expected shape"),
    ([0, 1, 2, 3], [0, 4, 2], r"must lie in 0\.\.3"),
    ([0, 1, 2, 3], [0, -1, 2], r"must lie in 0\.\.3"),
]
UNSORTED = [([0, 2, 2, 3], [1, 0, 2]), ([0, 0, 2, 3], [1, 1, 2])]
BAD_COLUMNS = [*BAD_ROWS, *((*each, "not sorted, or hold dup") for each in UNSORTED)]


@pytest.fixture
def lists(make_problem: MakeProblem) -> Any:
    """Lists of four rows in all."""
    result = (make_problem(seed, sizes=[4], grades=2, sparse=True).lists for seed in range(100))
    return next(lists for lists in result if lists.n_rows == 4)


@pytest.mark.parametrize(("indptr", "indices", "words"), BAD_COLUMNS)
def test_invalid_columns(kernel: Kernel, lists: Any, indptr: Any, indices: Any, words: str) -> None:
    columns = compressed(sp.csc_array, indptr, indices, (4, 3))
    with refuses(words):
        kernel.domination.bounds(columns, lists)
    with refuses(words):
        SparseColumns.of(columns)


@pytest.mark.parametrize(("indptr", "indices", "words"), BAD_ROWS)
def test_invalid_rows(kernel: Kernel, indptr: list[int], indices: list[int], words: str) -> None:
    with refuses(words):
        kernel.linear.scores(compressed(sp.csr_array, indptr, indices, (3, 4)), np.ones(4))


def test_order_restarts_in_each_column(kernel: Kernel, lists: Any) -> None:
    columns = compressed(sp.csc_array, [0, 0, 2, 3], [1, 3, 0], (4, 3))
    kernel.domination.bounds(columns, lists)


def test_invalid_sparse_features(kernel: Kernel, lists: Any, make_problem: MakeProblem) -> None:
    for name, change, words in (
        ("indptr", np.int64, "TypeError: indptr has dtype int64 and indices int32"),
        ("data", np.int64, "TypeError: data has dtype int64"),
        ("data", None, "indices: expected shape"),
    ):
        features = compressed(sp.csc_array, [0, 1, 2, 3], [0, 1, 2], (4, 3))
        array = getattr(features, name).astype(change) if change else np.ones(4)
        setattr(features, name, array)
        with refuses(words):
            kernel.domination.bounds(features, lists)
    with refuses("TypeError: indices has dtype int16"):
        features = compressed(sp.csc_array, [0, 1, 2, 3], [0, 1, 2], (4, 3), "int16")
        kernel.domination.bounds(features, lists)
    with refuses("features have 5 rows and the lists 4"):
        kernel.domination.bounds(compressed(sp.csc_array, [0, 1], [0], (5, 1)), lists)
    padded = make_problem(0).lists
    with refuses("must not be padded; build them with pad=1"):
        kernel.domination.bounds(sp.csc_array((padded.n_rows, 2)), padded)


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
    with refuses(words):
        kernel.domination.value(lists, problem.margins)


def test_list_with_one_layer(kernel: Kernel, make_problem: MakeProblem) -> None:
    problem = make_problem(0)
    list_ptr = np.insert(problem.lists.list_ptr, 1, 1)
    block_ptr = np.array([0, list_ptr.size - 1])
    lists = dataclasses.replace(problem.lists, list_ptr=list_ptr, block_ptr=block_ptr)
    with refuses("two layers or more"):
        kernel.domination.value(lists, problem.margins)


def test_writeable_lists_are_checked_each_time(kernel: Kernel, make_problem: MakeProblem) -> None:
    problem = make_problem(0)
    own = dataclasses.replace(problem.lists, layer_ptr=problem.lists.layer_ptr.copy())
    kernel.domination.value(own, problem.margins)
    own.layer_ptr[1] = 10**9
    with refuses("layer_ptr must rise"):
        kernel.domination.value(own, problem.margins)


def test_arrays_that_are_checked_once_are_read_only(make_problem: MakeProblem) -> None:
    problem = make_problem(0, sparse=True)
    columns = SparseColumns.of(problem.features)
    for array in (*columns.arrays, problem.lists.layer_ptr, problem.lists.omega):
        with refuses("read-only"):
            array[0] = 7


@pytest.mark.parametrize("threads", [0, -1, 1025])
def test_threads_out_of_range(kernel: Kernel, threads: int) -> None:
    with refuses(rf"threads is {threads}; .* 1\.\.1024.*os\.cpu_count\(\)"):
        kernel.random.block_sum(np.ones(3), threads)


@pytest.mark.parametrize("threads", [2.5, None, "2", True])
def test_threads_of_another_type(threads: Any) -> None:
    with refuses(r"TypeError: threads is .*; give an integer in 1\.\.1024"):
        validate_threads(threads)
    assert validate_threads(np.int64(2)) == 2


@pytest.mark.parametrize("seed", [2.5, None, "1", True])
def test_seeds_of_another_type(kernel: Kernel, seed: Any) -> None:
    with refuses(r"TypeError: seed is .*; give an integer in 0\.\.2\*\*64 - 1"):
        kernel.random.bits(seed, 0, 1)
    assert validate_seed(np.uint64(2**63)) == 2**63


@pytest.mark.parametrize("number", [-1, 2**64])
def test_seeds_and_steps_out_of_range(kernel: Kernel, number: int) -> None:
    with refuses(f"seed is {number}"):
        kernel.random.bits(number, 0, 1)
    with refuses(f"first is {number}"):
        kernel.random.uniform(0, number, 1)


@pytest.mark.parametrize("bound", [0, -5, 2**32])
def test_random_bound(kernel: Kernel, bound: int) -> None:
    with refuses(f"bound is {bound}"):
        kernel.random.below(0, 0, 1, bound)


def test_random_count(kernel: Kernel) -> None:
    with refuses("count is -1"):
        kernel.random.bits(0, 0, -1)
