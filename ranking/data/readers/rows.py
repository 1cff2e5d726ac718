"""Rows of ``index:value ...``, as in LETOR and SVMlight files, parsed by a kernel.

A file is divided into blocks of whole lines; the kernel parses a block, and the rows are collected.
"""

from __future__ import annotations

import codecs
import mmap
import sys
from collections.abc import Iterator, Mapping
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking._utils.validation import MAX_THREADS, validate_threads
from ranking.data.readers.lines import LONGEST_LINE, refuse
from ranking.errors import DataError, PartError
from ranking.kernels.contract import LARGEST_INDEX, Defect
from ranking.kernels.letor import Chunk

BLOCK = 1 << 22
"""Number of bytes that are parsed at a time."""

SMALL = 1_000_000
"""Number of entries up to which features are always dense."""

STEP = 1 << 16
"""Approximate number of entries of a dense array that are written at a time."""

SMALL_BYTES = 1 << 16
"""Number of bytes up to which a growing array is copied."""

MOVABLE = sys.platform == "linux"
"""Whether the system grows a map by moving its pages."""

MESSAGES: Mapping[Defect, str] = {
    Defect.NUL_BYTE: "there is a NUL byte, so this is not text; download or export the file again",
    Defect.NOT_A_PAIR: "{word} is not <index>:<value>; write both, without a space between",
    Defect.NEGATIVE_INDEX: "{word} has a negative index; number features from 0 or 1",
    Defect.BAD_INDEX: "{word} has an index that is not a number; number features from 1",
    Defect.LARGE_INDEX: (
        f"{{word}} has an index above {LARGEST_INDEX}; renumber the features or hash them"
    ),
    Defect.MISSING_VALUE: (
        "{word} is a missing value; fill it in, or leave it out if zero is meant"
    ),
    Defect.BAD_VALUE: "{word} has a value that is not a finite number; correct it",
    Defect.LARGE_VALUE: "{word} is too large for float32; rescale the feature",
    Defect.REPEATED: "{word} gives feature {index} a second time; keep one",
}
"""Messages for defects of the features of a line; each format adds its own."""


def blocks(stream: BufferedIOBase, path: Path) -> Iterator[tuple[bytearray, int, int]]:
    """Yield a buffer, and the start and stop of whole lines in it; the buffer is reused."""
    buffer = bytearray(BLOCK)
    start = filled = 0
    first = True
    while True:
        # A byte stays free for the newline that the last line may lack.
        with memoryview(buffer)[filled:-1] as free:
            count = stream.readinto(free)
        filled += count
        if count and filled + 1 < len(buffer):
            continue
        if first and filled:
            start, first = len(codecs.BOM_UTF8) * buffer.startswith(codecs.BOM_UTF8), False
        if not count:
            if start < filled:
                buffer[filled] = ord("\n")
                yield buffer, start, filled + 1
            return
        stop = buffer.rfind(b"\n", start, filled) + 1
        if not stop:
            if filled - start > LONGEST_LINE:
                message = f"{path}: a line is longer than {LONGEST_LINE >> 20} MiB; check the file."
                raise DataError(message)
            # One line is longer than the buffer.
            buffer = buffer + bytes(len(buffer))
            continue
        yield buffer, start, stop
        buffer[: filled - stop] = buffer[stop:filled]
        start, filled = 0, filled - stop


def first_words(head: bytes) -> list[bytes]:
    """Return the words of the first row in a file's first bytes, without its comment."""
    for line in head.removeprefix(codecs.BOM_UTF8).splitlines():
        words = line.partition(b"#")[0].split()
        if words:
            return words
    return []


def check_threads(reader: str, threads: int) -> None:
    """Raise `PartError` for an invalid number of threads."""
    try:
        validate_threads(threads)
    except PartError as error:
        message = f"reader {reader}: threads={threads!r} must lie in 1..{MAX_THREADS}."
        raise PartError(message) from error


class Growing:
    """An array that grows without a copy: the system moves pages, where it can (Linux).

    `ndarray.resize` does not promise that, and copies in NumPy 2.5; elsewhere it is used all the
    same. Small arrays are always copied.
    """

    def __init__(self, dtype: Any) -> None:
        self.buffer = np.empty(0, dtype)
        self.memory: mmap.mmap | None = None
        self.size = 0

    def add(self, items: NDArray[Any]) -> None:
        """Add items at the end."""
        size = self.size + items.size
        if size > self.buffer.size:
            self.resize(size + size // 8)
        self.buffer[self.size : size] = items
        self.size = size

    def fill(self, items: NDArray[Any], times: int) -> None:
        """Store the same items many times."""
        self.size = items.size * times
        self.resize(self.size)
        self.buffer.reshape(times, -1)[:] = items

    def resize(self, size: int) -> None:
        """Change the capacity; no other reference to the array may exist."""
        dtype = self.buffer.dtype
        n_bytes = size * dtype.itemsize
        if self.memory is not None:
            self.buffer = np.empty(0, dtype)  # pages that an array refers to cannot be moved
            self.memory.resize(max(n_bytes, 1))
        elif MOVABLE and n_bytes > SMALL_BYTES:
            self.memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        else:
            self.buffer.resize(size, refcheck=False)
            return
        # Not the map itself: joblib takes an array on top of a map for one that has a file.
        memory = np.frombuffer(memoryview(self.memory), dtype, size)
        memory[: self.buffer.size] = self.buffer
        self.buffer = memory

    def take(self) -> NDArray[Any]:
        """Return the array, after the last item was added."""
        self.resize(self.size)
        return self.buffer


class Rows:
    """The rows of one file, collected while it is read.

    Parameters
    ----------
    path : Path
    dtype : dtype
        Of the features.
    messages : mapping
        Message for each defect; ``{word}``, ``{index}`` and ``{where}`` are filled in.
    """

    def __init__(self, path: Path, dtype: np.dtype[Any], messages: Mapping[Defect, str]) -> None:
        self.path = path
        self.messages = messages
        self.n_lines = 0
        self.n_rows = 0
        self.low, self.high = LARGEST_INDEX + 1, -1
        self.width: int | None = None
        """The number of features of every row so far, if they all are low, low + 1, ..., high;
        then only the values are stored. -1 if the rows differ."""
        self.values = Growing(dtype)
        self.indices = Growing(np.int32)
        self.sizes = Growing(np.int64)
        self.grades = Growing(np.float64)

    def add(self, chunk: Chunk, text: bytearray) -> None:
        """Add some lines, or raise `DataError` for the first defective one."""
        if chunk.grades.size:
            self.add_rows(chunk, text)
        if chunk.defect:
            defect, line, start, length = chunk.defect
            word = bytes(text[start : start + length])
            index = int(word.partition(b":")[0]) if defect is Defect.REPEATED else None
            where = "though rows before have one" if self.n_rows else "and it is the first row"
            message = self.messages[defect].format(word=short(word), index=index, where=where)
            refuse(self.path, self.n_lines + line, message)
        self.n_lines += chunk.n_lines

    def add_rows(self, chunk: Chunk, text: bytearray) -> None:
        """Add at least one row."""
        self.add_features(chunk)
        self.grades.add(chunk.grades)
        self.n_rows += chunk.grades.size

    def add_features(self, chunk: Chunk) -> None:
        """Add values and, unless every row has the same features, their indices."""
        low, high = min(self.low, chunk.low), max(self.high, chunk.high)
        if self.width is None:
            self.width = chunk.width
        if (low, high, self.width) != (chunk.low, chunk.high, chunk.width):
            self.width = -1
        if self.width == -1:
            if not self.indices.size and self.values.size:
                self.indices.fill(np.arange(self.low, self.high + 1), self.n_rows)
            self.indices.add(chunk.indices)
        self.low, self.high = low, high
        self.values.add(chunk.values)
        self.sizes.add(chunk.sizes)

    def features(self) -> tuple[Any, NDArray[np.int64]]:
        """Return the features, dense or sparse, and their ids."""
        if self.width != -1:
            if self.low == min(1, self.low) and self.high - self.low < self.values.size:
                dense = self.values.take().reshape(self.n_rows, -1)
                return dense, np.arange(self.low, self.high + 1)
            self.indices.fill(np.arange(self.low, self.high + 1), self.n_rows)
        return build_features(self.sizes.take(), self.indices, self.values)


def build_features(
    sizes: NDArray[np.int64], indices: Growing, values: Growing
) -> tuple[Any, NDArray[np.int64]]:
    """Return rows of these sizes as features, dense or CSR, and their ids.

    The arrays are consumed.
    """
    columns, count = indices.take(), values.size
    high, first = int(columns.max()), min(1, int(columns.min()))
    if high - first < count:
        feature_ids = np.arange(first, high + 1)
        columns -= first
    else:
        feature_ids, columns = np.unique(columns, return_inverse=True)
    entries = sizes.size * feature_ids.size
    if entries <= SMALL or count >= entries / 4:
        return _densify(sizes, columns, values, feature_ids.size), feature_ids
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    shape = (sizes.size, feature_ids.size)
    return sparse.csr_array((values.take(), columns, indptr), shape=shape), feature_ids


def _densify(
    sizes: NDArray[np.int64], columns: NDArray[Any], values: Growing, width: int
) -> NDArray[Any]:
    """Return the values as a dense array, built in place.

    Rows only move towards the end, as none has more values than there are columns, so writing
    backwards overwrites nothing that is still to be read.
    """
    ends = np.cumsum(sizes)
    values.resize(sizes.size * width)
    dense = values.buffer.reshape(sizes.size, width)
    step = max(1, STEP // width)
    for start in reversed(range(0, sizes.size, step)):
        rows = slice(start, min(start + step, sizes.size))
        span = slice(int(ends[start] - sizes[start]), int(ends[rows.stop - 1]))
        own = values.buffer[span].copy()
        dense[rows] = 0.0
        dense[np.repeat(np.arange(start, rows.stop), sizes[rows]), columns[span]] = own
    return dense


def short(word: bytes) -> str:
    """Quote a word for a message, cut if it is long."""
    text = word.decode(errors="replace")
    return repr(text if len(text) <= 30 else text[:30] + "...")
