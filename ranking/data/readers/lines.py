"""Lines and columns of text files, with the policies shared by all readers of text.

UTF-8 with or without a byte-order mark, LF or CRLF; a NUL byte or text that is not UTF-8 is
refused with its line, and so is a line of more than `LONGEST_LINE` bytes.
"""

from __future__ import annotations

import codecs
import csv
import math
import warnings
from array import array
from collections.abc import Callable, Sequence
from io import BufferedIOBase
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ranking.data.readers.opening import open_bytes
from ranking.errors import DataError, DataWarning

LONGEST_LINE = 1 << 26
"""Bytes of the longest line: a compressed file of a few MB may hold one of any length."""

CHUNK = 1 << 22
"""Bytes that are read at a time."""


def refuse(path: Path, line: int, message: str) -> NoReturn:
    """Raise `DataError` because of one line of a file."""
    raise DataError(f"{path}, line {line}: {message}.")


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Return the whole text of a file, with LF line ends."""
    with open_bytes(path) as stream:
        content = _read_lines(path, stream)
    content = content.removeprefix(codecs.BOM_UTF8)
    if b"\0" in content:
        line = content[: content.index(b"\0")].count(b"\n") + 1
        refuse(path, line, "there is a NUL byte, so this is not text; download or export it again")
    try:
        text = content.decode(encoding)
    except LookupError as error:
        raise DataError(f"there is no encoding {encoding!r}; try utf-8 or latin-1.") from error
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        refuse(path, line, "the text is not UTF-8; convert the file, for example with iconv")
    return text.replace("\r\n", "\n")


def refuse_long_line(path: Path, line: int) -> NoReturn:
    """Raise `DataError` for a line of more than `LONGEST_LINE` bytes."""
    refuse(path, line, f"the line is longer than {LONGEST_LINE >> 20} MiB; check the file")


def _read_lines(path: Path, stream: BufferedIOBase) -> bytes:
    """Return the whole content, unless a line is too long."""
    chunks: list[bytes] = []
    line, length = 1, 0
    while chunk := stream.read(CHUNK):
        chunks.append(chunk)
        newlines = chunk.count(b"\n")
        length = length + len(chunk) if not newlines else len(chunk) - chunk.rindex(b"\n") - 1
        line += newlines
        if length > LONGEST_LINE:
            refuse_long_line(path, line)
    return b"".join(chunks)


def read_lines(path: Path) -> list[str]:
    """Return the lines of a file, at least one of them not blank."""
    lines = read_text(path).split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    if not lines:
        raise DataError(f"{path} has no lines; download or write it again.")
    return lines


def head_lines(head: bytes, limit: int = 5) -> list[str]:
    """Return the first whole lines of a file that are not blank, to recognise its format."""
    if b"\0" in head:
        return []
    text = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", errors="replace")
    lines = text.split("\n")
    # The last of several lines may be cut off; a single line is used as it is.
    whole = lines[:-1] if len(lines) > 1 else lines
    return [line.rstrip("\r") for line in whole if line.strip()][:limit]


def split_line(path: Path, number: int, line: str, split: Callable[[str], list[str]]) -> list[str]:
    """Return the cells of a line, or raise `DataError` if its quotes do not match."""
    try:
        return split(line)
    except csv.Error as error:
        refuse(path, number, f"this is not a row of CSV ({error}); correct its quotes")


class Columns:
    """The columns of a file, which must have the same number of cells in each row.

    Attributes
    ----------
    numbers : array of int
        The line of each row.
    """

    def __init__(
        self,
        path: Path,
        lines: Sequence[str],
        split: Callable[[str], list[str]],
        names: Sequence[str],
        first: int = 1,
    ) -> None:
        self.path = path
        self.names = list(names)
        self.numbers = array("q")
        # One flat list: a list per row would keep the garbage collector busy for seconds.
        cells: list[str] = []
        width = len(self.names)
        for number, line in enumerate(lines, start=first):
            if not line or line.isspace():
                continue
            words = split_line(path, number, line, split)
            if len(words) != width:
                refuse(
                    path,
                    number,
                    f"there are {len(words)} columns and should be {width} "
                    f"({', '.join(self.names)}); complete or remove the line",
                )
            cells.extend(words)
            self.numbers.append(number)
        if not cells:
            raise DataError(f"{path} has no rows; write the columns {', '.join(self.names)}.")
        self._columns = {name: cells[at::width] for at, name in enumerate(self.names)}

    def texts(self, name: str) -> list[str]:
        """Return a column of ids or texts; none is empty."""
        column = self._columns[name]
        if "" in column:
            refuse(self.path, self.numbers[column.index("")], f"the {name} is empty; fill it in")
        return column

    def raw(self, name: str) -> list[str]:
        """Return a column without checks."""
        return self._columns[name]

    def floats(self, name: str, *, infinite: bool = False) -> NDArray[np.float64]:
        """Return a column of numbers, finite unless `infinite` allows infinity."""
        column = self._columns[name]
        try:
            values = np.array(list(map(float, column)))
            good = not np.isnan(values).any() and (infinite or np.isfinite(values).all())
            # Python reads 1_0 as ten, other tools do not.
            if good and not any("_" in word for word in column):
                return values
        except ValueError:
            pass
        row = next(row for row, word in enumerate(column) if not _is_number(word, infinite))
        word = column[row] if len(column[row]) <= 30 else column[row][:30] + "..."
        refuse(
            self.path, self.numbers[row], f"the {name} {word!r} is not a finite number; correct it"
        )

    def drop_repeats(self, one: str, other: str, value: str) -> None:
        """Drop rows that repeat another one, with a warning; refuse those with another value."""
        first: dict[tuple[str, str], int] = {}
        repeats = []
        values = self._columns[value]
        for row, key in enumerate(zip(self._columns[one], self._columns[other], strict=True)):
            before = first.setdefault(key, row)
            if before == row:
                continue
            if values[before] != values[row]:
                refuse(
                    self.path,
                    self.numbers[row],
                    f"{other} {key[1]!r} of {one} {key[0]!r} was on line {self.numbers[before]} "
                    f"already, with the {value} {values[before]} and not {values[row]}; keep one "
                    "of them",
                )
            repeats.append(row)
        if not repeats:
            return
        warnings.warn(
            f"{self.path}: {len(repeats)} lines repeat an earlier one, such as line "
            f"{self.numbers[repeats[0]]}; they are left out.",
            DataWarning,
            stacklevel=3,
        )
        dropped = set(repeats)
        remaining = [row for row in range(len(values)) if row not in dropped]
        self.numbers = array("q", (self.numbers[row] for row in remaining))
        for name, cells in self._columns.items():
            self._columns[name] = [cells[row] for row in remaining]

    def refuse_repeats(self, one: str, other: str) -> None:
        """Raise `DataError` for two rows that are equal in two columns."""
        seen: dict[tuple[str, str], int] = {}
        for row, key in enumerate(zip(self._columns[one], self._columns[other], strict=True)):
            before = seen.setdefault(key, row)
            if before != row:
                refuse(
                    self.path,
                    self.numbers[row],
                    f"{other} {key[1]!r} of {one} {key[0]!r} was on line {self.numbers[before]} "
                    "already; keep one of them",
                )


def is_number(word: str) -> bool:
    """Return whether a word is a finite number."""
    return _is_number(word, infinite=False)


def _is_number(word: str, infinite: bool) -> bool:
    try:
        value = float(word)
    except ValueError:
        return False
    return "_" not in word and not math.isnan(value) and (infinite or math.isfinite(value))
