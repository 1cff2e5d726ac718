"""The door: every array is checked here, once, before a loop that trusts it."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

FLOATS = ("float32", "float64")
INDICES = ("int32", "int64")


@functools.cache
def _name(dtype: np.dtype[Any]) -> str:
    """Return the name of a dtype, which NumPy spells anew each time."""
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
    """Refuse an array that a loop could not trust; read-only inputs are welcome.

    Parameters
    ----------
    name : str
        How the array is called in the message.
    array : object
        What was handed in.
    dtypes : tuple of str
        The dtypes that the loop takes, in native byte order.
    shape : tuple of int or None
        The wanted length of each axis; None is any.
    order : {"C", "F"}
        The wanted contiguity.
    writeable : bool
        Whether the loop writes to it.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{name} must be a NumPy array, not {type(array).__name__}.")
    if _name(array.dtype) not in dtypes or not array.dtype.isnative:
        raise TypeError(f"{name} has dtype {array.dtype}; a kernel takes {' or '.join(dtypes)}.")
    if len(array.shape) != len(shape) or any(
        wanted is not None and wanted != length
        for wanted, length in zip(shape, array.shape, strict=True)
    ):
        wanted_shape = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise ValueError(f"{name} has shape {array.shape}; wanted is {wanted_shape}.")
    if not (array.flags.c_contiguous if order == "C" else array.flags.f_contiguous):
        remedy = "ascontiguousarray" if order == "C" else "asfortranarray"
        raise ValueError(f"{name} is not {order}-contiguous; call numpy.{remedy} on it.")
    if not array.flags.aligned:
        raise ValueError(f"{name} is not aligned in memory; copy it.")
    if writeable and not array.flags.writeable:
        raise ValueError(f"{name} is read-only, and the kernel writes to it; copy it.")


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to: what was checked then stays as it was."""
    view = array.view()
    view.flags.writeable = False
    return view


def check_apart(outputs: dict[str, NDArray[Any]], inputs: dict[str, NDArray[Any]]) -> None:
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
    if pointer[0] != 0 or pointer[-1] != end or np.any(np.diff(pointer) < 0):
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


def check_below(name: str, values: NDArray[np.int64], bound: int) -> None:
    """Refuse positions outside 0..bound - 1."""
    if values.size and (values.min() < 0 or values.max() >= bound):
        raise ValueError(
            f"{name} run from {values.min()} to {values.max()}; they must lie in 0..{bound - 1}."
        )


def checked_threads(threads: int) -> int:
    """Return a number of threads, or refuse it."""
    if not 1 <= threads <= 1024:
        raise ValueError(f"threads is {threads}; it must lie in 1..1024.")
    return int(threads)


def _shorten(array: NDArray[Any]) -> str:
    return np.array2string(array, threshold=8, edgeitems=3)
