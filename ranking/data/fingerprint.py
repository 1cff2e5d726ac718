"""A hash of the content of data, to recognise the same data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray


def fingerprint(arrays: Iterable[Any]) -> str:
    """Return a hash of arrays and sparse matrices, their types and shapes; None is skipped."""
    digest = hashlib.blake2b(digest_size=16)
    for array in _stored(arrays):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _stored(arrays: Iterable[Any]) -> Iterator[NDArray[Any]]:
    for array in arrays:
        if isinstance(array, np.ndarray):
            yield array.view(np.uint8) if array.dtype.kind == "U" else array
        elif array is not None:
            yield from (array.indptr, array.indices, array.data)
