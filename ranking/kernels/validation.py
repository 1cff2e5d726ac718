"""Input validation: every argument is checked once, before a kernel function that trusts it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ranking._utils.validation import MAX_SEED, MAX_THREADS
from ranking.kernels.contract import Csr, Execution

FLOATS = ("float32", "float64")
INDICES = ("int32", "int64")


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, which NumPy would format on every access."""
    return dtype.name


def check_array(
    name: str,
    array: Any,
    dtypes: tuple[str, ...],
    shape: tuple[int | None, ...],
    *,
    order: str = "C",
    writeable: bool = False,
) -> None:
    """Refuse an array that a kernel function could not trust; inputs may be read-only.

    Parameters
    ----------
    name : str
        Name of the array in messages.
    array : object
    dtypes : tuple of str
        Accepted dtypes, in native byte order.
    shape : tuple of int or None
        Expected length of each axis; None is any.
    order : {"C", "F"}
        Expected contiguity.
    writeable : bool
        Whether the kernel writes to it.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, not {type(array).__name__}.")
    if _name(array.dtype) not in dtypes or not array.dtype.isnative:
        raise TypeError(f"{name} has dtype {array.dtype}; a kernel takes {' or '.join(dtypes)}.")
    if len(array.shape) != len(shape) or any(
        expected is not None and expected != length
        for expected, length in zip(shape, array.shape, strict=True)
    ):
        expected_shape = "(" + ", ".join("*" if n is None else str(n) for n in shape) + ")"
        raise ValueError(f"{name}: expected shape {expected_shape}, got {array.shape}.")
    if not (array.flags.c_contiguous if order == "C" else array.flags.f_contiguous):
        remedy = "ascontiguousarray" if order == "C" else "asfortranarray"
        raise ValueError(f"{name} is not {order}-contiguous; call numpy.{remedy} on it.")
    if not array.flags.aligned:
        raise ValueError(f"{name} is not aligned in memory; copy it.")
    if writeable and not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and the kernel writes to it; copy it.")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only view, so that a checked array stays valid."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_no_overlap(outputs: dict[str, NDArray[Any]], inputs: dict[str, NDArray[Any]]) -> None:
    """Refuse an output that shares memory with an input or with another output."""
    names = list(outputs)
    for position, name in enumerate(names):
        others = {**inputs, **{other: outputs[other] for other in names[position + 1 :]}}
        for other, array in others.items():
            if np.may_share_memory(outputs[name], array):
                raise ValueError(f"{name} and {other} overlap in memory; copy one of them.")


def check_pointer(name: str, pointer: Any, dtypes: tuple[str, ...], length: int, end: int) -> None:
    """Refuse a pointer array that does not rise from 0 to `end` in `length` steps."""
    check_array(name, pointer, dtypes, (length + 1,))
    if pointer[0] != 0 or pointer[-1] != end or np.any(pointer[1:] < pointer[:-1]):
        raise ValueError(f"{name} must rise from 0 to {end}; it is {_shorten(pointer)}.")


def check_compressed(
    indptr: Any, indices: Any, data: Any, majors: int, minors: int, *, sorted_once: bool = False
) -> None:
    """Refuse a compressed sparse matrix (CSR or CSC) that is not valid.

    With `sorted_once`, the indices of a row (CSR) or column (CSC) must rise strictly.
    """
    check_array("data", data, FLOATS, (None,))
    check_array("indices", indices, INDICES, (data.size,))
    if isinstance(indptr, np.ndarray) and indptr.dtype != indices.dtype:
        raise TypeError(
            f"indptr has dtype {indptr.dtype} and indices {indices.dtype}; they must be the same."
        )
    check_pointer("indptr", indptr, INDICES, majors, data.size)
    if indices.size and (indices.min() < 0 or indices.max() >= minors):
        raise ValueError(
            f"indices run from {indices.min()} to {indices.max()}; "
            f"they must lie in 0..{minors - 1}."
        )
    if sorted_once and indices.size:
        falls = np.diff(indices) <= 0
        starts = indptr[1:-1]
        falls[starts[(starts > 0) & (starts < indices.size)] - 1] = False
        if np.any(falls):
            at = int(np.flatnonzero(falls)[0]) + 1
            raise ValueError(
                f"indices are not sorted, or hold duplicates, at position {at} "
                f"({indices[at - 1]} then {indices[at]}); call sum_duplicates() and sort_indices()."
            )


def csr_arrays(name: str, matrix: Any) -> Csr:
    """Return the arrays of a checked CSR matrix, sorted and without duplicates."""
    if not isinstance(matrix, sp.csr_array):
        raise TypeError(f"{name} must be a csr_array, not {type(matrix).__name__}.")
    check_compressed(matrix.indptr, matrix.indices, matrix.data, *matrix.shape, sorted_once=True)
    return Csr(matrix.indptr, matrix.indices, matrix.data)


def check_finite(**arrays: NDArray[Any]) -> None:
    """Refuse arrays with NaN or infinite numbers."""
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name} must be finite.")


def check_below(name: str, values: NDArray[np.int64], bound: int) -> None:
    """Refuse positions outside 0..bound - 1."""
    if values.size and (values.min() < 0 or values.max() >= bound):
        raise ValueError(
            f"{name} run from {values.min()} to {values.max()}; they must lie in 0..{bound - 1}."
        )


def check_not_negative(**values: float) -> None:
    """Refuse numbers that are not finite or are negative."""
    for name, value in values.items():
        if not 0.0 <= value < np.inf:
            raise ValueError(f"{name} is {value}; it must be finite and not negative.")


def validate_integer(name: str, value: Any, least: int, most: int, remedy: str = "") -> int:
    """Return an integer in least..most; refuse other types, booleans and numbers."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(
            f"{name} is {value!r}, a {type(value).__name__}; give an integer in "
            f"{_power(least)}..{_power(most)}.{remedy}"
        )
    if not least <= value <= most:
        raise ValueError(
            f"{name} is {value}; it must lie in {_power(least)}..{_power(most)}.{remedy}"
        )
    return int(value)


def validate_threads(threads: Any) -> int:
    """Return a number of threads."""
    return validate_integer(
        "threads", threads, 1, MAX_THREADS, " For all cores, give os.cpu_count()."
    )


def validate_execution(execution: Execution) -> Execution:
    """Return how steps are executed, as a kernel takes it."""
    return Execution(
        validate_count("batch_size", execution.batch_size),
        bool(execution.hogwild),
        validate_threads(execution.threads),
    )


def validate_seed(seed: Any, name: str = "seed") -> int:
    """Return a seed."""
    return validate_integer(name, seed, 0, MAX_SEED)


def validate_first(first: Any) -> int:
    """Return the number of the first step or random number."""
    return validate_integer("first", first, 0, MAX_SEED)


def validate_count(name: str, count: Any, least: int = 1) -> int:
    """Return a count of at least `least`."""
    return validate_integer(name, count, least, 2**63 - 1)


def _power(number: int) -> str:
    """Write 2**k - 1 for large k."""
    bits = number.bit_length()
    return f"2**{bits} - 1" if bits > 16 and number == 2**bits - 1 else str(number)


def _shorten(array: NDArray[Any]) -> str:
    return np.array2string(array, threshold=8, edgeitems=3)
