"""The LETOR reader: SVMlight with queries, one judged document a line.

A line is ``<grade> qid:<id> <index>:<value> ... # comment``. A file is read as a whole or refused
with ``FILE, line N: what is wrong; what to do``.

=========================================  =======================================================
In the file                                What happens
=========================================  =======================================================
a line without qid                         refused
rows of a query apart from each other      gathered; one `DataWarning` says how many queries
qid with letters or a sign                 accepted: a qid is a name, so 7 and 07 are two queries
nan, inf, 1e999 as grade or value          refused
NULL as value                              refused as a missing value
``1: .5``, ``1:``, ``:3``, ``a:1``         refused
index 0                                    accepted: `feature_ids` then starts at 0
negative index, index above 2**31 - 1      refused
a large legal index                        no column is made for features that never occur
a feature twice in a line                  refused
features out of order                      accepted
blank lines, lines with only a comment     skipped
CRLF line ends, UTF-8 byte-order mark      accepted
NUL bytes, rows that are not UTF-8         refused
a gzip file that is cut off or damaged     refused
no rows                                    refused
``docid = X`` in the comment               X is the document's id; else its number in its query
a document twice in a query                refused
a value beyond the dtype asked for         refused
a line of any length                       accepted
=========================================  =======================================================
"""

from __future__ import annotations

import codecs
import dataclasses
import itertools
import re
import warnings
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.reader import Reader
from ranking.data.judged import Judged
from ranking.data.readers.opening import open_bytes
from ranking.errors import DataError, DataWarning, PartError
from ranking.kernels.contract import LARGEST_INDEX, Defect
from ranking.kernels.kernel import Kernel
from ranking.kernels.letor import Chunk
from ranking.kernels.reference_letor import pair_defect
from ranking.kernels.select import get_kernel

BLOCK = 1 << 22
"""How many bytes are parsed at a time."""

SMALL = 1_000_000
"""The number of entries up to which dense is always fine."""

STEP = 1 << 16
"""About how many entries of a dense array are made at a time."""

NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
PAIR = re.compile(rb"(?<!\S)(\d{1,20}):(" + NUMBER + rb")(?!\S)")
GRADE = re.compile(NUMBER)
SHAPE = "write a row as `<grade> qid:<id> <index>:<value> ...`"
MESSAGES = {
    Defect.NUL_BYTE: "there is a NUL byte, so this is not text; download or export the file again",
    Defect.NO_QID: f"there is no qid after the grade, {{where}}; {SHAPE}",
    Defect.NOT_UTF8: "the text is not UTF-8; convert the file, for example with iconv",
    Defect.EMPTY_QID: f"the qid is empty; {SHAPE}",
    Defect.BAD_GRADE: f"the grade {{word}} is not a finite number; {SHAPE}",
    Defect.QID_ELSEWHERE: f"{{word}} must come right after the grade, once; {SHAPE}",
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
    Defect.LARGE_VALUE: (
        "{word} is too large for float32; rescale the feature, or read with letor:dtype=float64"
    ),
    Defect.REPEATED: "{word} gives feature {index} a second time; keep one",
}


@dataclasses.dataclass
class Letor(Reader):
    """LETOR, or SVMlight with qid; plain or gzip.

    Attributes
    ----------
    dtype : {"float32", "float64"}
        How features are stored. Files hold six digits as a rule, which float32 keeps.
    kernel : str, Kernel or None
        Who parses, as :func:`ranking.get_kernel` takes it.
    threads : int
        How many threads parse. The result depends on neither.
    """

    name: ClassVar[str] = "letor"

    dtype: str = "float32"
    kernel: str | Kernel | None = "auto"
    threads: int = 1

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.dtype not in ("float32", "float64"):
            raise PartError(f"reader letor: dtype={self.dtype!r} must be float32 or float64.")
        if not 1 <= self.threads <= 1024:
            raise PartError(f"reader letor: threads={self.threads!r} must lie in 1..1024.")

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Say whether the first row has a grade and then a qid."""
        for line in head.removeprefix(codecs.BOM_UTF8).splitlines():
            words = line.partition(b"#")[0].split()
            if words:
                return (
                    len(words) > 1
                    and bool(GRADE.fullmatch(words[0]))
                    and words[1].startswith(b"qid:")
                )
        return False

    def read(self, path: Path) -> Judged:
        """Read the whole file; see the module's table for what is accepted and refused."""
        kernel = get_kernel(self.kernel)
        rows = _Rows(path, np.dtype(self.dtype))
        with open_bytes(path) as stream:
            for text, start, stop in _blocks(stream):
                for chunk in kernel.parse_letor(
                    text, start, stop, dtype=self.dtype, threads=self.threads
                ):
                    rows.add(chunk, text)
        if not rows.n_rows:
            raise DataError(f"{path}: there are no rows; {SHAPE}.")
        return rows.judged()


def _blocks(
    stream: BufferedIOBase,
) -> Iterator[tuple[bytearray, int, int]]:
    """Yield a buffer, and where in it whole lines start and stop; it is used again."""
    buffer = bytearray(BLOCK)
    start = filled = 0
    first = True
    while True:
        # A byte stays free for the newline that the last line may lack.
        with memoryview(buffer)[filled:-1] as free:
            got = stream.readinto(free)
        filled += got
        if got and filled + 1 < len(buffer):
            continue
        if first and filled:
            start, first = len(codecs.BOM_UTF8) * buffer.startswith(codecs.BOM_UTF8), False
        if not got:
            if start < filled:
                buffer[filled] = ord("\n")
                yield buffer, start, filled + 1
            return
        stop = buffer.rfind(b"\n", start, filled) + 1
        if not stop:
            # One line is longer than the buffer.
            buffer = buffer + bytes(len(buffer))
            continue
        yield buffer, start, stop
        buffer[: filled - stop] = buffer[stop:filled]
        start, filled = 0, filled - stop


class Growing:
    """An array that more is added to; memory is moved by the system, not copied."""

    def __init__(self, dtype: Any, items: Any = ()) -> None:
        self.room = np.array(items, dtype)
        self.size = self.room.size

    def add(self, items: NDArray[Any]) -> None:
        """Add items at the end."""
        size = self.size + items.size
        if size > self.room.size:
            self.resize(size + size // 8)
        self.room[self.size : size] = items
        self.size = size

    def fill(self, items: NDArray[Any], times: int) -> None:
        """Put in the same items many times."""
        self.size = items.size * times
        self.resize(self.size)
        self.room.reshape(times, -1)[:] = items

    def resize(self, size: int) -> None:
        """Change the room; nobody else may hold the array."""
        self.room.resize(size, refcheck=False)

    def take(self) -> NDArray[Any]:
        """Return what was added, once nothing more will be."""
        self.resize(self.size)
        return self.room


class _Rows:
    """The rows of one file, as far as it is read."""

    def __init__(self, path: Path, dtype: np.dtype[Any]) -> None:
        self.path = path
        self.n_lines = 0
        self.n_rows = 0
        self.low, self.high = LARGEST_INDEX + 1, -1
        self.width: int | None = None
        """The number of features of every row so far, if they all are low, low + 1, ..., high;
        then only the values are kept. -1 if the rows differ."""
        self.values = Growing(dtype)
        self.indices = Growing(np.int32)
        self.lines = Growing(np.int64)
        self.sizes = Growing(np.int64)
        self.grades = Growing(np.float64)
        self.run_qids: list[str] = []
        self.run_sizes: list[int] = []
        self.doc_ids: list[str | None] = []

    def add(self, chunk: Chunk, text: bytearray) -> None:
        """Take in some lines, or refuse the file because of one of them."""
        if chunk.grades.size:
            self.add_names(chunk, text)
            self.add_features(chunk)
            self.lines.add(chunk.lines + self.n_lines)
            self.grades.add(chunk.grades)
            self.n_rows += chunk.grades.size
        if chunk.defect:
            defect, line, start, length = chunk.defect
            word = bytes(text[start : start + length])
            where = "though rows before have one" if self.n_rows else "and it is the first row"
            self.refuse(self.n_lines + line, _message(defect, word, where))
        self.n_lines += chunk.n_lines

    def add_names(self, chunk: Chunk, text: bytearray) -> None:
        """Take in queries, run by run, and documents."""
        starts = chunk.qids[:, 0]
        heads = np.concatenate(([0], np.flatnonzero(starts[1:] != starts[:-1]) + 1))
        sizes = np.diff(heads, append=starts.size).tolist()
        for (start, length), size in zip(chunk.qids[heads].tolist(), sizes, strict=True):
            qid = text[start : start + length].decode()
            if self.run_qids and self.run_qids[-1] == qid:
                self.run_sizes[-1] += size
            else:
                self.run_qids.append(qid)
                self.run_sizes.append(size)
        if chunk.documents[:, 1].any():
            self.doc_ids += [
                text[start : start + length].decode() if length else None
                for start, length in chunk.documents.tolist()
            ]
        else:
            self.doc_ids += [None] * starts.size

    def add_features(self, chunk: Chunk) -> None:
        """Take in values and, unless every row has the same features, their indices."""
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

    def refuse(self, number: int, message: str) -> NoReturn:
        """Refuse the file because of one line."""
        raise DataError(f"{self.path}, line {number}: {message}.")

    def judged(self) -> Judged:
        """Return the rows as data, once the last one is in."""
        if not self.values.size:
            raise DataError(f"{self.path}: no row has a feature; {SHAPE}.")
        heads = np.array(self.run_qids, dtype=np.str_)
        doc_ids = self.document_ids()
        features, feature_ids = self.features()
        data = Judged(
            features,
            self.grades.take(),
            np.repeat(heads, self.run_sizes),
            doc_ids=doc_ids,
            feature_ids=feature_ids,
        )
        self.tell_of_scattered(heads)
        return data

    def features(self) -> tuple[Any, NDArray[np.int64]]:
        """Return the features, dense or sparse, and their ids."""
        if self.width != -1:
            if self.low == min(1, self.low) and self.high - self.low < self.values.size:
                dense = self.values.take().reshape(self.n_rows, -1)
                return dense, np.arange(self.low, self.high + 1)
            self.indices.fill(np.arange(self.low, self.high + 1), self.n_rows)
        return lay_out(self.sizes.take(), self.indices, self.values)

    def document_ids(self) -> list[str] | None:
        """Return the documents' ids, or None if no comment has one."""
        if not any(self.doc_ids):
            return None
        lines: dict[str, dict[str, int]] = {}
        names = []
        qids = itertools.chain.from_iterable(map(itertools.repeat, self.run_qids, self.run_sizes))
        for line, qid, given in zip(self.lines.take().tolist(), qids, self.doc_ids, strict=True):
            known = lines.setdefault(qid, {})
            name = str(len(known)) if given is None else given
            if name in known:
                self.refuse(
                    line,
                    f"document {short(name.encode())} of query {qid} was on line {known[name]} "
                    "already; keep one of them, or rename one",
                )
            known[name] = line
            names.append(name)
        return names

    def tell_of_scattered(self, heads: NDArray[np.str_]) -> None:
        """Warn once if rows have to be gathered."""
        names, counts = np.unique(heads, return_counts=True)
        if counts.max() > 1:
            warnings.warn(
                f"{self.path}: the rows of {(counts > 1).sum()} of {names.size} queries are not "
                "next to each other and were gathered; sort the file by qid to be rid of this "
                "warning.",
                DataWarning,
                stacklevel=4,
            )


def lay_out(
    sizes: NDArray[np.int64], indices: Growing, values: Growing
) -> tuple[Any, NDArray[np.int64]]:
    """Return rows of so many indices and values as features, dense or CSR, and their ids.

    The arrays are used up.
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
        return _spread(sizes, columns, values, feature_ids.size), feature_ids
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    shape = (sizes.size, feature_ids.size)
    return sparse.csr_array((values.take(), columns, indptr), shape=shape), feature_ids


def _spread(
    sizes: NDArray[np.int64], columns: NDArray[Any], values: Growing, width: int
) -> NDArray[Any]:
    """Return the values as a dense array, made in the memory that holds them.

    Rows only move towards the end, as none has more values than there are columns; so going
    backwards overwrites nothing that is still to be read.
    """
    ends = np.cumsum(sizes)
    values.resize(sizes.size * width)
    dense = values.room.reshape(sizes.size, width)
    step = max(1, STEP // width)
    for start in reversed(range(0, sizes.size, step)):
        rows = slice(start, min(start + step, sizes.size))
        span = slice(int(ends[start] - sizes[start]), int(ends[rows.stop - 1]))
        own = values.room[span].copy()
        dense[rows] = 0.0
        dense[np.repeat(np.arange(start, rows.stop), sizes[rows]), columns[span]] = own
    return dense


def parse_pairs(pairs: bytes, largest: float) -> tuple[list[int], list[float], str]:
    """Return the indices and values of ``index:value ...``, and what is wrong with them."""
    found = PAIR.findall(pairs)
    indices = [int(index) for index, _ in found]
    values = [float(value) for _, value in found]
    # One look at the whole line; the guilty word is looked for only when there is one.
    if (
        len(found) != len(pairs.split())
        or len(set(indices)) != len(indices)
        or max(indices, default=0) > LARGEST_INDEX
        or max(map(abs, values), default=0.0) > largest
    ):
        return [], [], _fault(pairs.split(), largest)
    return indices, values, ""


def _fault(words: list[bytes], largest: float) -> str:
    """Say what is wrong with the features of a line that has something wrong."""
    seen: set[int] = set()
    for word in words:
        defect = pair_defect(word, largest)
        if defect:
            return _message(defect, word)
        index = int(word.partition(b":")[0])
        if index in seen:
            return _message(Defect.REPEATED, word)
        seen.add(index)
    raise AssertionError("a line is refused, and no word of it is wrong")


def _message(defect: Defect, word: bytes, where: str = "") -> str:
    index = int(word.partition(b":")[0]) if defect is Defect.REPEATED else None
    return MESSAGES[defect].format(word=short(word), index=index, where=where)


def short(word: bytes) -> str:
    """Quote a word for a message, cut if it is long."""
    text = word.decode(errors="replace")
    return repr(text if len(text) <= 30 else text[:30] + "...")
