"""Reference of the letor family: regular expressions, one line at a time.

It defines what is accepted and in which order defects are checked.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np

from ranking.kernels.contract import (
    LARGEST_INDEX,
    PAIR_BYTES,
    Defect,
    Features,
    Floats,
    Int32s,
    Ints,
    LetorBuffers,
    LetorText,
)

NUMBER = re.compile(rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
DOCID = re.compile(rb"(?:^|\s)docid\s*=\s*(\S+)")
WORD = re.compile(rb"\S+")
MISSING = (b"null", b"none", b"na", b"nan", b"?")
MOST_DIGITS = 20
"""Twenty digits hold every index that could be meant."""


class LineError(Exception):
    """A defect of a line, and the word that has it, if it is one word's."""

    def __init__(self, defect: Defect, start: int = 0, word: bytes = b"") -> None:
        super().__init__(defect)
        self.location = (int(defect), start, len(word))


def parse_letor(source: LetorText, out: LetorBuffers, threads: int) -> None:
    """Parse chunk by chunk."""
    text = source.text.tobytes()
    for chunk, (start, stop) in enumerate(itertools.pairwise(source.chunk_ptr.tolist())):
        row, pair = source.row_ptr[chunk], start // PAIR_BYTES
        out.chunk_info[chunk] = _parse_chunk(
            text, start, stop, out.grades[row:], out.row_info[row:], out.indices[pair:],
            out.values[pair:],
        )  # fmt: skip


def _parse_chunk(
    text: bytes,
    start: int,
    stop: int,
    grades: Floats,
    row_info: Ints,
    indices: Int32s,
    values: Features,
) -> tuple[Any, ...]:
    largest = float(np.finfo(values.dtype).max)
    rows = pairs = lines = 0
    seen: list[list[int]] = []
    defect = (int(Defect.NONE), 0, 0)
    qid = (0, 0)
    while start < stop:
        lines += 1
        end = text.index(b"\n", start) + 1
        try:
            parsed = _parse_line(text[start:end], start, largest)
        except LineError as error:
            defect = error.location
            break
        start = end
        if parsed is None:
            continue
        grade, name, document, own_indices, own_values = parsed
        if text[slice(*qid)] != text[slice(*name)]:
            qid = name
        grades[rows] = grade
        row_info[rows] = lines, len(own_indices), qid[0], qid[1] - qid[0], *document
        indices[pairs : pairs + len(own_indices)] = own_indices
        values[pairs : pairs + len(own_indices)] = own_values
        seen.append(own_indices)
        rows += 1
        pairs += len(own_indices)
    first = seen[0] if seen else []
    regular = first == list(range(first[0], first[0] + len(first))) if first else True
    width = len(first) if regular and all(row == first for row in seen) else -1
    low = min((min(row) for row in seen if row), default=LARGEST_INDEX + 1)
    high = max((max(row) for row in seen if row), default=-1)
    return rows, pairs, lines, width, low, high, *defect


def defect_of_line(line: bytes, start: int, largest: float) -> tuple[int, int, int]:
    """Return a line's defect, and start and length of the word that has it, if it is a word's.

    `start` is where the line starts. Compiled kernels only see that there is a defect.
    """
    try:
        _parse_line(line, start, largest)
    except LineError as error:
        return error.location
    raise AssertionError(f"a compiled kernel refused a line without a defect: {line!r}")


def _parse_line(
    line: bytes, at: int, largest: float
) -> tuple[float, tuple[int, int], tuple[int, int], list[int], list[float]] | None:
    """Return grade, span of the qid, position of the document's id, indices and values."""
    if b"\0" in line:
        raise LineError(Defect.NUL_BYTE)
    body, _, comment = line.partition(b"#")
    words = [(at + match.start(), match[0]) for match in WORD.finditer(body)]
    if not words:
        return None
    if len(words) < 2 or not words[1][1].startswith(b"qid:"):
        raise LineError(Defect.NO_QID)
    qid = words[1][0] + len(b"qid:"), words[1][0] + len(words[1][1])
    try:
        words[1][1].decode()
        comment.decode()
    except UnicodeDecodeError:
        raise LineError(Defect.NOT_UTF8) from None
    if qid[0] == qid[1]:
        raise LineError(Defect.EMPTY_QID)
    grade = float(words[0][1]) if NUMBER.fullmatch(words[0][1]) else np.inf
    if not np.isfinite(grade):
        raise LineError(Defect.BAD_GRADE, *words[0])
    indices: dict[int, None] = {}
    values = []
    for start, word in words[2:]:
        defect = pair_defect(word, largest)
        if defect:
            raise LineError(defect, start, word)
        index, _, value = word.partition(b":")
        if int(index) in indices:
            raise LineError(Defect.REPEATED, start, word)
        indices[int(index)] = None
        values.append(float(value))
    match = DOCID.search(comment)
    document = (0, 0)
    if match:
        document = at + len(body) + 1 + match.start(1), len(match[1])
    return grade, qid, document, list(indices), values


def pair_defect(word: bytes, largest: float) -> Defect:
    """Return what is wrong with a feature's word, seen in isolation."""
    index, colon, value = word.partition(b":")
    if index == b"qid":
        return Defect.QID_ELSEWHERE
    if not colon or not index or not value:
        return Defect.NOT_A_PAIR
    if re.fullmatch(rb"-\d+", index):
        return Defect.NEGATIVE_INDEX
    if not re.fullmatch(rb"\d+", index):
        return Defect.BAD_INDEX
    if len(index) > MOST_DIGITS or int(index) > LARGEST_INDEX:
        return Defect.LARGE_INDEX
    if value.lower() in MISSING:
        return Defect.MISSING_VALUE
    if not NUMBER.fullmatch(value) or np.isinf(float(value)):
        return Defect.BAD_VALUE
    if abs(float(value)) > largest:
        return Defect.LARGE_VALUE
    return Defect.NONE
