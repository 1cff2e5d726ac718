"""LETOR text, parsed: chunks of rows as flat arrays."""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ranking.kernels._old_contract import PAIR_BYTES, Defect, Features, Floats, Ints

CHUNK = 1 << 19
"""About how many bytes a thread parses at a time."""


class Place(NamedTuple):
    """Where a defect is: the line in the chunk, from 1, and the word, if it is one word's."""

    defect: Defect
    line: int
    start: int
    length: int


@dataclasses.dataclass(frozen=True)
class Chunk:
    """Rows of neighbouring lines; positions count in the text that was parsed.

    Attributes
    ----------
    n_lines : int
        With blank ones; up to and with the defective one, if there is one.
    width : int
        If all rows have the indices low, low + 1, ..., high: how many; else -1.
    low, high : int
        The smallest and the largest index; 2**31 and -1 if there is none.
    grades : float64 array
        One a row, as `lines` (in the chunk, from 1), `sizes` (numbers of features), `qids` and
        `documents` (start and length; neighbours with the same qid share one start; length 0 if
        there is no document).
    indices, values
        One a feature.
    defect : Place or None
        What the rows end with, if a line is refused.
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
    indices: NDArray[np.int32]
    values: Features
    defect: Place | None


class Room:
    """The arrays that chunks of a text are parsed into."""

    def __init__(self, text: bytes | bytearray, start: int, stop: int, dtype: DTypeLike) -> None:
        self.text = np.frombuffer(text, np.uint8)
        self.chunk_ptr = _cut(text, start, stop)
        cuts = itertools.pairwise(self.chunk_ptr.tolist())
        lines = [np.count_nonzero(self.text[slice(*cut)] == ord("\n")) for cut in cuts]
        self.row_ptr = np.concatenate(([0], np.cumsum(lines, dtype=np.int64)))
        rows, pairs = self.row_ptr[-1] + 1, stop // PAIR_BYTES + 1
        self.grades = np.empty(rows)
        self.places = np.empty((rows, 6), np.int64)
        self.indices = np.empty(pairs, np.int32)
        self.values: Features = np.empty(pairs, dtype)
        self.counts = np.empty((self.chunk_ptr.size - 1, 9), np.int64)

    def chunks(self) -> list[Chunk]:
        """Return what was parsed, in the order of the text."""
        return [self._chunk(number) for number in range(self.counts.shape[0])]

    def _chunk(self, number: int) -> Chunk:
        rows, pairs, lines, width, low, high, defect, start, length = self.counts[number].tolist()
        if defect == Defect.NO_MEMORY:
            raise MemoryError("there is no memory left to check the features of a row.")
        row = int(self.row_ptr[number])
        pair = int(self.chunk_ptr[number]) // PAIR_BYTES
        places = self.places[row : row + rows]
        return Chunk(
            n_lines=lines,
            width=width,
            low=low,
            high=high,
            grades=self.grades[row : row + rows],
            lines=places[:, 0],
            sizes=places[:, 1],
            qids=places[:, 2:4],
            documents=places[:, 4:6],
            indices=self.indices[pair : pair + pairs],
            values=self.values[pair : pair + pairs],
            defect=Place(Defect(defect), lines, start, length) if defect else None,
        )


def _cut(text: bytes | bytearray, start: int, stop: int) -> Ints:
    """Return where chunks begin, and where the last one ends."""
    cuts = [start]
    while cuts[-1] < stop:
        near = cuts[-1] + CHUNK
        cuts.append(stop if near >= stop else text.index(b"\n", near - 1, stop) + 1)
    return np.array(cuts, dtype=np.int64)
