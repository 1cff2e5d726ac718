"""Parsing of LETOR text, with checked arguments: chunks of rows as flat arrays."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from ranking.kernels.contract import (
    PAIR_BYTES,
    Defect,
    Features,
    Floats,
    Int32s,
    Ints,
    LetorBuffers,
    LetorFamily,
    LetorText,
)
from ranking.kernels.validation import FLOATS, validate_threads

CHUNK = 1 << 19
"""Approximate number of bytes that a thread parses at a time."""


class DefectLocation(NamedTuple):
    """A defect, its line in the chunk, from 1, and the word that has it, if it is one word's."""

    defect: Defect
    line: int
    start: int
    length: int


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Rows of adjacent lines; positions are those in the whole text.

    Attributes
    ----------
    n_lines : int
        Blank ones included; up to and with the defective one, if there is one.
    width : int
        If all rows have the indices low, low + 1, ..., high: how many; else -1.
    low, high : int
        The smallest and the largest index; 2**31 and -1 if there is none.
    grades : float64 array
        One per row, as `lines` (in the chunk, from 1), `sizes` (numbers of features), `qids` and
        `documents` (start and length; adjacent rows with the same qid share one start; length 0 if
        there is no document).
    indices, values
        One per feature.
    defect : DefectLocation or None
        The defect that ended the chunk.
    """

    n_lines: int
    width: int
    low: int
    high: int
    grades: Floats
    lines: Ints
    sizes: Ints
    qids: Ints
    documents: Ints
    indices: Int32s
    values: Features
    defect: DefectLocation | None


class LetorKernel:
    """Parsing of LETOR text; see :mod:`ranking.kernels.contract.letor`."""

    def __init__(self, implementation: LetorFamily) -> None:
        self.implementation = implementation

    def parse(
        self,
        text: bytes | bytearray,
        start: int = 0,
        stop: int | None = None,
        *,
        dtype: DTypeLike = np.float64,
        threads: int = 1,
    ) -> list[Chunk]:
        """Return the rows of the whole lines text[start:stop], in chunks.

        A line that is refused ends its chunk; chunks after it are to be ignored.
        """
        end = len(text) if stop is None else stop
        if not 0 <= start <= end <= len(text):
            raise ValueError(f"start and stop are {start} and {end}; text has {len(text)} bytes.")
        if start < end and text[end - 1] != ord("\n"):
            raise ValueError("text does not end with a newline; add one.")
        if np.dtype(dtype).name not in FLOATS:
            raise TypeError(f"dtype is {np.dtype(dtype)}; a kernel takes {' or '.join(FLOATS)}.")
        source = _split(text, start, end)
        rows, pairs = source.row_ptr[-1] + 1, end // PAIR_BYTES + 1
        buffers = LetorBuffers(
            grades=np.empty(rows),
            row_info=np.empty((rows, 6), np.int64),
            indices=np.empty(pairs, np.int32),
            values=np.empty(pairs, dtype),
            chunk_info=np.empty((source.chunk_ptr.size - 1, 9), np.int64),
        )
        self.implementation.parse_letor(source, buffers, validate_threads(threads))
        return [_chunk(source, buffers, number) for number in range(source.chunk_ptr.size - 1)]


def _chunk(source: LetorText, buffers: LetorBuffers, number: int) -> Chunk:
    info = buffers.chunk_info[number].tolist()
    rows, pairs, lines, width, low, high, defect, start, length = info
    if defect == Defect.NO_MEMORY:
        raise MemoryError("there is not enough memory to check the features of a row.")
    row = int(source.row_ptr[number])
    pair = int(source.chunk_ptr[number]) // PAIR_BYTES
    row_info = buffers.row_info[row : row + rows]
    return Chunk(
        n_lines=lines,
        width=width,
        low=low,
        high=high,
        grades=buffers.grades[row : row + rows],
        lines=row_info[:, 0],
        sizes=row_info[:, 1],
        qids=row_info[:, 2:4],
        documents=row_info[:, 4:6],
        indices=buffers.indices[pair : pair + pairs],
        values=buffers.values[pair : pair + pairs],
        defect=DefectLocation(Defect(defect), lines, start, length) if defect else None,
    )


def _split(text: bytes | bytearray, start: int, stop: int) -> LetorText:
    """Split text into chunks of whole lines, and count the lines of each."""
    array, chunk_ptr = np.frombuffer(text, np.uint8), _cut(text, start, stop)
    cuts = itertools.pairwise(chunk_ptr.tolist())
    lines = [np.count_nonzero(array[slice(*cut)] == ord("\n")) for cut in cuts]
    return LetorText(array, chunk_ptr, np.concatenate(([0], np.cumsum(lines, dtype=np.int64))))


def _cut(text: bytes | bytearray, start: int, stop: int) -> Ints:
    """Return the starts of the chunks, and the end of the last one."""
    cuts = [start]
    while cuts[-1] < stop:
        near = cuts[-1] + CHUNK
        cuts.append(stop if near >= stop else text.index(b"\n", near - 1, stop) + 1)
    return np.array(cuts, dtype=np.int64)
