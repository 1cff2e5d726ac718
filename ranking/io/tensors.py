"""Tensors and a description in one safetensors file, written atomically and read strictly.

The reader is our own: it opens the file once, checks the header before it allocates anything, and
accepts only what `write_tensors` writes. Nothing in a file is run.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from ranking._utils.files import open_regular, replace_file
from ranking._utils.tensors import Tensors
from ranking.errors import FileError, ModelFileError

KEY = "ranking"
"""Key of the description in the header of a file."""

HEADER_LIMIT = 1 << 20
"""Longest header that is read: a longer one is an attack, or not ours."""

DEPTH_LIMIT = 64
"""Deepest nesting of a description."""

DTYPES = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "I16": "<i2",
    "U16": "<u2",
    "I32": "<i4",
    "U32": "<u4",
    "I64": "<i8",
    "U64": "<u8",
    "F16": "<f2",
    "F32": "<f4",
    "F64": "<f8",
}
"""The types of safetensors that NumPy has."""


def write_tensors(path: Path, tensors: Tensors, description: dict[str, Any]) -> None:
    """Write a file atomically: a temporary file is synced, then renamed over `path`."""
    from safetensors.numpy import save

    try:
        header = json.dumps(description, sort_keys=True, allow_nan=False)
    except ValueError as error:
        raise ModelFileError(f"the description of {path} cannot be written: {error}.") from error
    if len(header) > HEADER_LIMIT // 2:
        raise ModelFileError(
            f"the description of {path} is {len(header)} bytes long, too long to be read back."
        )
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    content = save(contiguous, metadata={KEY: header})
    length = int.from_bytes(content[:8], "little")
    if length > HEADER_LIMIT:
        raise ModelFileError(
            f"the names of the {len(tensors)} tensors of {path} take {length} bytes, too long to "
            "be read back; shorten the names of metrics and callbacks."
        )
    with replace_file(path) as stream:
        stream.write(content)


def read_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Read a file that `write_tensors` wrote; raise `ModelFileError` for anything else."""
    try:
        with open_regular(path) as stream:
            return _read(path, stream, os.fstat(stream.fileno()).st_size)
    except FileError as error:
        raise ModelFileError(str(error)) from error
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror or error}.") from error
    except MemoryError as error:
        raise ModelFileError(f"{path} does not fit into memory.") from error


class _Entry(NamedTuple):
    """Where a tensor is in the file, and what it is."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def _read(path: Path, stream: BinaryIO, size: int) -> tuple[Tensors, dict[str, Any]]:
    length = int.from_bytes(stream.read(8), "little")
    if not 2 <= length <= HEADER_LIMIT:
        raise ModelFileError(
            f"{path} is not a model of `ranking` (its header would be {length} bytes long)."
        )
    header = _json(path, "its header", stream.read(length), length)
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get(KEY), str):
        raise ModelFileError(f"{path} is a safetensors file, but was not written by `ranking`.")
    description = _json(path, "its description", metadata[KEY].encode(errors="replace"))
    entries = sorted((_entry(path, *item) for item in header.items()), key=lambda one: one.start)
    end = 0
    for one in entries:
        if one.start != end:
            _damaged(path, f"tensor {one.name!r} begins at byte {one.start}, expected {end}")
        end = one.stop
    if 8 + length + end != size:
        _damaged(path, f"its tensors end at byte {8 + length + end}, and the file at byte {size}")
    return {one.name: _tensor(path, stream, one) for one in entries}, description


def _json(path: Path, what: str, content: bytes, length: int | None = None) -> dict[str, Any]:
    """Parse JSON strictly: a table of UTF-8, without NaN, Infinity, repeats or deep nesting."""
    if length is not None and len(content) != length:
        _damaged(path, f"{what} is {len(content)} bytes long, and {length} were announced")
    try:
        value = json.loads(content, parse_constant=_no_constant, object_pairs_hook=_once)
    except RecursionError:
        _damaged(path, f"{what} is nested too deeply")
    except ValueError as error:
        _damaged(path, f"{what} is not JSON ({error})")
    if not isinstance(value, dict):
        _damaged(path, f"{what} is not a table")
    if _depth(value) > DEPTH_LIMIT:
        _damaged(path, f"{what} is nested deeper than {DEPTH_LIMIT} levels")
    return value


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number of JSON")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        raise ValueError("a name occurs twice")
    return table


def _depth(value: Any) -> int:
    """Return the depth of nested JSON, level by level, because recursion has a limit."""
    depth, level = 0, [value]
    while level:
        depth += 1
        tables = [one for one in level if isinstance(one, dict | list)]
        level = [
            each for one in tables for each in (one.values() if isinstance(one, dict) else one)
        ]
        if depth > DEPTH_LIMIT:
            break
    return depth


def _entry(path: Path, name: str, facts: Any) -> _Entry:
    """Return an entry of the header, if its type, shape and offsets agree."""
    if not isinstance(facts, dict) or set(facts) != {"dtype", "shape", "data_offsets"}:
        _damaged(path, f"tensor {name!r} needs dtype, shape and data_offsets")
    dtype, shape, offsets = facts["dtype"], facts["shape"], facts["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        known = ", ".join(DTYPES)
        _damaged(path, f"tensor {name!r} has the type {str(dtype)[:20]!r}; known are {known}")
    if not isinstance(shape, list) or len(shape) > 8 or not all(map(_is_size, shape)):
        _damaged(path, f"tensor {name!r} has the shape {str(shape)[:40]}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_size, offsets)):
        _damaged(path, f"tensor {name!r} has the offsets {str(offsets)[:40]}")
    kind = np.dtype(DTYPES[dtype])
    expected = math.prod(shape) * kind.itemsize
    if offsets[1] - offsets[0] != expected:
        _damaged(
            path,
            f"tensor {name!r} takes {offsets[1] - offsets[0]} bytes, expected {expected} for "
            f"shape {tuple(shape)} of {kind.name}",
        )
    return _Entry(name, kind, tuple(shape), *offsets)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62


def _tensor(path: Path, stream: BinaryIO, entry: _Entry) -> NDArray[Any]:
    if entry.dtype == np.bool_:
        flags = np.frombuffer(stream.read(entry.stop - entry.start), np.uint8)
        if flags.size and flags.max() > 1:
            _damaged(path, f"tensor {entry.name!r} of bool has the value {flags.max()}")
        return flags.astype(np.bool_).reshape(entry.shape)
    array = np.empty(entry.shape, entry.dtype)
    content: Any = array.reshape(-1).view(np.uint8)
    reader: Any = stream
    if array.size and reader.readinto(content) != array.nbytes:
        _damaged(path, f"tensor {entry.name!r} is cut off")
    return array if entry.dtype.isnative else array.astype(entry.dtype.newbyteorder("="))


def _damaged(path: Path, message: str) -> NoReturn:
    raise ModelFileError(f"{path} is damaged: {message}.")


def looks_like_tensors(head: bytes) -> bool:
    """Return whether a file begins like safetensors: no text does, as there is a NUL byte."""
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= HEADER_LIMIT
