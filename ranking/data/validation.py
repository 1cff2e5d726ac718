"""Validate arrays of input data: return them in canonical form, or raise `DataError`."""

from __future__ import annotations

import copy
import itertools
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.errors import DataError

Ints = NDArray[np.int64]
Ids = NDArray[np.int64] | NDArray[np.str_]
Array = TypeVar("Array", bound=NDArray[Any])


def read_only(array: Array) -> Array:
    """Return a read-only view; the caller's array stays writeable."""
    view = array.view()
    view.flags.writeable = False
    return view


def read_only_matrix(features: Any) -> Any:
    """Return a read-only view of a dense or CSR array."""
    if not sparse.issparse(features):
        return read_only(features)
    parts = (read_only(features.data), read_only(features.indices), read_only(features.indptr))
    return sparse.csr_array(parts, shape=features.shape)


def as_features(features: Any, name: str = "features") -> Any:
    """Return a C-contiguous float array or a canonical CSR array of two dimensions."""
    if sparse.issparse(features):
        _check_shape(features.shape, name)
        return as_csr(features, f"sparse {name}")
    try:
        array = np.asarray(features)
        _check_shape(array.shape, name)
        if array.dtype.kind in "US":
            raise DataError(f"{name} are text; encode them as numbers first.")
        return np.require(
            array.astype(_float_type(array.dtype), copy=False), requirements=["C", "A"]
        )
    except DataError:
        raise
    except (TypeError, ValueError) as error:
        raise DataError(f"{name} are not an array of numbers: {error}") from error


def _float_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    if dtype.kind == "c":
        raise DataError("Complex data not supported: features must be real numbers.")
    is_float = dtype in (np.dtype(np.float32), np.dtype(np.float64))
    return dtype if is_float else np.dtype(np.float64)


def _check_shape(shape: tuple[int, ...], name: str) -> None:
    if len(shape) != 2:
        raise DataError(
            f"{name} must have 2 dimensions, rows and features, and have shape {shape}. "
            "Reshape your data: X.reshape(-1, 1) if it is one feature, X.reshape(1, -1) if one row."
        )
    if shape[0] == 0:
        raise DataError(f"{name} have no rows (shape={shape}); give at least one.")
    if shape[1] == 0:
        raise DataError(
            f"{name} have 0 feature(s) (shape={shape}) while a minimum of 1 is required."
        )


def as_csr(matrix: Any, name: str) -> Any:
    """Return a sparse matrix as CSR with sorted indices, or raise `DataError` if it is damaged.

    The structure (indptr and indices) is copied before it is checked: compiled loops trust it, so
    that no other owner can change it later. The values are shared, as any value is safe.
    """
    matrix = _with_own_structure(matrix)
    # SciPy converts without checks, so a damaged matrix is rejected before it is converted.
    if matrix.format == "csr":
        check_compressed(matrix.indptr, matrix.indices, matrix.data, matrix.shape, name)
    elif matrix.format == "csc":
        check_compressed(matrix.indptr, matrix.indices, matrix.data, matrix.shape[::-1], name)
    elif matrix.format == "bsr":
        height, width = matrix.blocksize
        blocks = (matrix.shape[0] // height, matrix.shape[1] // width)
        check_compressed(matrix.indptr, matrix.indices, matrix.data, blocks, name)
    elif matrix.format == "coo":
        for axis, index, bound in zip(("row", "column"), matrix.coords, matrix.shape, strict=True):
            if index.size and not 0 <= index.min() <= index.max() < bound:
                raise DataError(
                    f"{name}: a {axis} index is outside 0..{bound - 1}; "
                    "the matrix is damaged, build it again."
                )
    dtype = _float_type(matrix.dtype)
    csr = sparse.csr_array(matrix)
    if matrix.format == "coo" and csr.nnz < matrix.nnz:
        raise DataError(
            f"{name}: {matrix.nnz - csr.nnz} entries are stored twice; "
            "call X.sum_duplicates() if their sum is meant."
        )
    if _within_rows(csr, csr.indices[1:] < csr.indices[:-1]).any():
        csr = csr.sorted_indices()
    repeated = _within_rows(csr, csr.indices[1:] == csr.indices[:-1])
    if repeated.any():
        entry = int(np.argmax(repeated))
        row = int(np.searchsorted(csr.indptr, entry, side="right")) - 1
        raise DataError(
            f"{name}: row {row} has column {csr.indices[entry]} twice; "
            "call X.sum_duplicates() if their sum is meant."
        )
    return csr.astype(dtype, copy=False)


def _with_own_structure(matrix: Any) -> Any:
    """Return a CSR, CSC or BSR matrix with copies of its index arrays; others are converted."""
    if matrix.format not in ("csr", "csc", "bsr"):
        return matrix
    own = copy.copy(matrix)
    own.indptr, own.indices = np.array(matrix.indptr), np.array(matrix.indices)
    for flag in ("_has_sorted_indices", "_has_canonical_format"):  # SciPy's, maybe out of date
        own.__dict__.pop(flag, None)
    return own


def _within_rows(csr: Any, flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Clear the flags of adjacent entries that belong to different rows."""
    starts = csr.indptr[1:-1]
    flags[starts[(starts > 0) & (starts < csr.nnz)] - 1] = False
    return flags


def check_compressed(
    indptr: Any, indices: Any, data: Any, shape: tuple[int, ...], name: str
) -> None:
    """Raise `DataError` if the index arrays of a compressed matrix point outside of it."""
    majors, minors = shape
    wrong = None
    if indptr.shape != (majors + 1,):
        wrong = f"indptr has {indptr.size} entries and should have {majors + 1}"
    elif indptr[0] != 0:
        wrong = f"indptr starts with {indptr[0]} and should start with 0"
    elif (indptr[1:] < indptr[:-1]).any():  # a difference of extreme numbers would overflow
        wrong = f"indptr decreases after entry {int(np.argmax(indptr[1:] < indptr[:-1]))}"
    elif not indptr[-1] == len(data) == len(indices):
        wrong = (
            f"indptr ends with {indptr[-1]}, and there are {len(data)} values and "
            f"{len(indices)} indices; the three should be equal"
        )
    elif len(indices) and not 0 <= indices.min() <= indices.max() < minors:
        wrong = f"an index is outside 0..{minors - 1}"
    if wrong:
        raise DataError(f"{name}: {wrong}; the matrix is damaged, build it again.")


def as_feature_ids(feature_ids: Any, n_features: int | None) -> Ints:
    """Return the ids of the columns, by default from 1."""
    if feature_ids is None and n_features is not None:
        return np.arange(1, n_features + 1)
    array = np.asarray(feature_ids)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DataError("feature_ids must be a sequence of whole numbers, one per column.")
    if n_features is not None and array.size != n_features:
        raise DataError(
            f"feature_ids has {array.size} entries and the data {n_features} columns; "
            "give one id per column."
        )
    ids = array.astype(np.int64, copy=False)
    if ids.size and ids.min() < 0:
        raise DataError(f"feature_ids has {ids.min()}; ids must not be negative.")
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if repeated.size:
        raise DataError(f"feature_ids has {repeated[0]} twice; give each column its own id.")
    return ids


def refuse_infinite(
    features: Any, feature_ids: Ids, ids: Ids, name: str = "features", row_name: str = "query"
) -> None:
    """Raise `DataError` for NaN and infinity, with their position."""
    is_sparse = sparse.issparse(features)
    values = features.data if is_sparse else features
    # A sum needs no memory, and is finite unless a value is not or it overflows.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()):
            return
    good = np.isfinite(values)
    if good.all():
        return
    if is_sparse:
        entry = int(np.argmin(good))
        row = int(np.searchsorted(features.indptr, entry, side="right")) - 1
        column, value = int(features.indices[entry]), features.data[entry]
    else:
        row, column = (int(i) for i in np.unravel_index(np.argmin(good), good.shape))
        value = features[row, column]
    raise DataError(
        f"{name} must not be NaN or inf: row {row} ({row_name} {ids[row]}), feature "
        f"{feature_ids[column]} is {value}; fill in or drop missing values first."
    )


def as_grades(grades: Any, qids: Ids) -> NDArray[np.float64]:
    """Return the grades as float64, one per row and finite."""
    array = np.asarray(grades)
    if array.ndim != 1:
        raise DataError(
            f"grades must have 1 dimension and have shape {array.shape}; pass grades.ravel()."
        )
    _check_length("grades", array.size, qids.size)
    if array.dtype.kind not in "buif":
        try:
            array = np.asarray([float(grade) for grade in array])
        except (TypeError, ValueError) as error:
            raise DataError(f"grades are not real numbers: {error}.") from error
    numbers = np.require(array, np.float64, ["C", "A"])
    good = np.isfinite(numbers)
    if not good.all():
        row = int(np.argmin(good))
        raise DataError(
            f"grades must not be NaN or inf: row {row} (query {qids[row]}) is {numbers[row]}; "
            "drop rows that were not judged."
        )
    return numbers


def as_ids(name: str, values: Any, n_rows: int, rows_of: str = "features") -> Ids:
    """Return ids as int64 or str, one per row."""
    if isinstance(values, str | bytes):
        raise DataError(f"{name} is one text, {values[:20]!r}; give a sequence, one per row.")
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise DataError(f"{name} is not a sequence of ids: {error}") from error
    if array.ndim != 1:
        raise DataError(f"{name} must have 1 dimension, one per row, and has shape {array.shape}.")
    _check_length(name, array.size, n_rows, rows_of)
    if array.dtype.kind == "U" and isinstance(values, np.ndarray):
        _check_code_points(name, array)
        return array
    if array.dtype.kind == "i":
        return array.astype(np.int64, copy=False)
    remedy = "ids are whole numbers of 64 bits or text, all of one type; convert them first."
    # The slow path: Python objects, and mixed types that NumPy would convert silently.
    listed = list(values)
    for row, value in enumerate(listed):
        fits = isinstance(value, int | np.integer) and -(2**63) <= value < 2**63
        if isinstance(value, bool | np.bool_) or not (isinstance(value, str) or fits):
            raise DataError(f"{name}: row {row} is {value!r}; {remedy}")
        if isinstance(value, str) != isinstance(listed[0], str):
            raise DataError(f"{name}: rows 0 and {row} are {listed[0]!r} and {value!r}; {remedy}")
    if not isinstance(listed[0], str):
        return np.array(listed, dtype=np.int64)
    if "\0" in "".join(listed):
        row = next(row for row, value in enumerate(listed) if "\0" in value)
        raise DataError(f"{name}: row {row} is {listed[row]!r}, with a NUL; remove it.")
    texts = np.array(listed, dtype=np.str_)
    _check_code_points(name, texts)
    return texts


def _check_code_points(name: str, texts: NDArray[np.str_]) -> None:
    """Refuse ids that no file can hold: with a NUL inside, or half a surrogate pair."""
    if not texts.size or not texts.dtype.itemsize:
        return
    native = np.ascontiguousarray(texts.astype(texts.dtype.newbyteorder("="), copy=False))
    codes = native.view(np.uint32).reshape(texts.size, -1)
    if codes.max() < 0xD800 and codes[:, 0].all() and codes.shape[1] == 1:
        return
    wrong = ((codes >= 0xD800) & (codes <= 0xDFFF)).any(axis=1)
    wrong |= ((codes[:, :-1] == 0) & (codes[:, 1:] != 0)).any(axis=1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise DataError(
            f"{name}: row {row} is {texts[row].item()!r}, which has a NUL or a lone surrogate and "
            "cannot be written as UTF-8; rename it."
        )


def _check_length(name: str, length: int, n_rows: int, rows_of: str = "features") -> None:
    if length != n_rows:
        raise DataError(
            f"{name} has {length} entries and {rows_of} {n_rows} rows; give one per row."
        )


def first_repeat(groups: Ints, ids: Ids) -> tuple[int, int] | None:
    """Return the first two rows of a group with the same id, or None."""
    seen: dict[tuple[int, int | str], int] = {}
    for row, key in enumerate(zip(groups.tolist(), ids.tolist(), strict=True)):
        before = seen.setdefault(key, row)
        if before != row:
            return before, row
    return None


def take_columns(features: Any, names: Ids, target: Ids) -> Any:
    """Return the columns `target` of features whose columns are `names`; missing ones are zero."""
    if np.array_equal(names, target):
        return features
    order = np.argsort(names)
    position = order[np.searchsorted(names, target, sorter=order).clip(max=names.size - 1)]
    exists = names[position] == target
    if not sparse.issparse(features):
        selection = np.zeros((features.shape[0], target.size), features.dtype)
        selection[:, exists] = features[:, position[exists]]
        return selection
    new_column = np.full(names.size, -1)
    new_column[position[exists]] = np.flatnonzero(exists)
    columns = new_column[features.indices]
    mask = columns >= 0
    indptr = np.concatenate(([0], np.cumsum(mask)))[features.indptr]
    parts = (features.data[mask], columns[mask], indptr)
    return sparse.csr_array(parts, shape=(features.shape[0], target.size)).sorted_indices()


def row_bytes(features: Any) -> list[bytes]:
    """Return the bytes of each row of a dense or CSR array, as keys of equal rows."""
    if not sparse.issparse(features):
        return [row.tobytes() for row in features]
    indices, values = features.indices, features.data
    return [
        indices[start:stop].tobytes() + values[start:stop].tobytes()
        for start, stop in itertools.pairwise(features.indptr.tolist())
    ]
