"""The LETOR reader: SVMlight with queries, one judged document per line.

A line is ``<grade> qid:<id> <index>:<value> ... # comment``. A file is read as a whole or refused
with ``FILE, line N: what is wrong; what to do``.

=========================================  =======================================================
In the file                                What happens
=========================================  =======================================================
a line without qid                         refused
rows of a query that are not adjacent      gathered; one `DataWarning` says how many queries
qid with letters or a sign                 accepted: a qid is a name, so 7 and 07 are two queries
nan, inf, 1e999 as grade or value          refused
NULL as value                              refused as a missing value
``1: .5``, ``1:``, ``:3``, ``a:1``         refused
index 0                                    accepted: `feature_ids` then starts at 0
negative index, index above 2**31 - 1      refused
a large legal index                        no column for features that never occur
a feature twice in a line                  refused
features out of order                      accepted
blank lines, lines with only a comment     skipped
CRLF line ends, UTF-8 byte-order mark      accepted
NUL bytes, rows that are not UTF-8         refused
a gzip file that is cut off or damaged     refused
no rows                                    refused
``docid = X`` in the comment               X is the document's id; else its number in its query
a document twice in a query                refused
a value beyond the range of the dtype      refused
a line of any length                       accepted
=========================================  =======================================================
"""

from __future__ import annotations

import dataclasses
import itertools
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ranking.contracts.reader import Reader
from ranking.data.judged_lists import JudgedLists
from ranking.data.readers import rows
from ranking.data.readers.lines import refuse
from ranking.data.readers.opening import open_bytes
from ranking.errors import DataError, DataWarning, PartError
from ranking.kernels.contract import Defect
from ranking.kernels.kernel import Kernel
from ranking.kernels.letor import Chunk
from ranking.kernels.select import get_kernel

NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
GRADE = re.compile(NUMBER)
SHAPE = "write a row as `<grade> qid:<id> <index>:<value> ...`"
MESSAGES = {
    **rows.MESSAGES,
    Defect.NO_QID: f"there is no qid after the grade, {{where}}; {SHAPE}",
    Defect.NOT_UTF8: "the text is not UTF-8; convert the file, for example with iconv",
    Defect.EMPTY_QID: f"the qid is empty; {SHAPE}",
    Defect.BAD_GRADE: f"the grade {{word}} is not a finite number; {SHAPE}",
    Defect.QID_ELSEWHERE: f"{{word}} must come right after the grade, once; {SHAPE}",
    Defect.LARGE_VALUE: (f"{rows.MESSAGES[Defect.LARGE_VALUE]}, or read with letor:dtype=float64"),
}


@dataclasses.dataclass
class Letor(Reader):
    """LETOR, or SVMlight with qid; plain or gzip.

    Attributes
    ----------
    dtype : {"float32", "float64"}
        Type of the features. Files usually have six digits, which float32 keeps.
    kernel : str, Kernel or None
        The kernel that parses, as in :func:`ranking.get_kernel`.
    threads : int
        Number of threads that parse. The result depends on neither.
    """

    name: ClassVar[str] = "letor"

    dtype: str = "float32"
    kernel: str | Kernel | None = "auto"
    threads: int = 1

    def __post_init__(self) -> None:
        """Validate the parameters."""
        if self.dtype not in ("float32", "float64"):
            raise PartError(f"reader letor: dtype={self.dtype!r} must be float32 or float64.")
        rows.check_threads(self.name, self.threads)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the first row has a grade and then a qid."""
        words = rows.first_words(head)
        return len(words) > 1 and bool(GRADE.fullmatch(words[0])) and words[1].startswith(b"qid:")

    def read(self, path: Path) -> JudgedLists:
        """Read the whole file; see the module's table for what is accepted and refused."""
        kernel = get_kernel(self.kernel)
        lists = _Lists(path, np.dtype(self.dtype), MESSAGES)
        with open_bytes(path) as stream:
            for text, start, stop in rows.blocks(stream, path):
                for chunk in kernel.letor.parse(
                    text, start, stop, dtype=self.dtype, threads=self.threads
                ):
                    lists.add(chunk, text)
        if not lists.n_rows:
            raise DataError(f"{path}: there are no rows; {SHAPE}.")
        return lists.judged()


class _Lists(rows.Rows):
    """The rows of one file, with their queries and documents."""

    def __init__(self, path: Path, dtype: np.dtype[Any], messages: Mapping[Defect, str]) -> None:
        super().__init__(path, dtype, messages)
        self.lines = rows.Growing(np.int64)
        self.run_qids: list[str] = []
        self.run_sizes: list[int] = []
        self.doc_ids: list[str | None] = []

    def add_rows(self, chunk: Chunk, text: bytearray) -> None:
        """Add at least one row."""
        self.add_names(chunk, text)
        self.lines.add(chunk.lines + self.n_lines)
        super().add_rows(chunk, text)

    def add_names(self, chunk: Chunk, text: bytearray) -> None:
        """Add queries, as runs of equal ids, and documents."""
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

    def judged(self) -> JudgedLists:
        """Return the rows as data, after the last one was added."""
        if not self.values.size:
            raise DataError(f"{self.path}: no row has a feature; {SHAPE}.")
        heads = np.array(self.run_qids, dtype=np.str_)
        doc_ids = self.document_ids()
        features, feature_ids = self.features()
        data = JudgedLists(
            features,
            self.grades.take(),
            np.repeat(heads, self.run_sizes),
            doc_ids=doc_ids,
            feature_ids=feature_ids,
        )
        self.warn_of_scattered(heads)
        return data

    def document_ids(self) -> list[str] | None:
        """Return the documents' ids, or None if no comment has one."""
        if not any(self.doc_ids):
            return None
        lines: dict[str, dict[str, int]] = {}
        names = []
        qids = itertools.chain.from_iterable(map(itertools.repeat, self.run_qids, self.run_sizes))
        for line, qid, doc_id in zip(self.lines.take().tolist(), qids, self.doc_ids, strict=True):
            known = lines.setdefault(qid, {})
            name = str(len(known)) if doc_id is None else doc_id
            if name in known:
                refuse(
                    self.path,
                    line,
                    f"document {rows.short(name.encode())} of query {qid} was on line "
                    f"{known[name]} already; keep one of them, or rename one",
                )
            known[name] = line
            names.append(name)
        return names

    def warn_of_scattered(self, heads: NDArray[np.str_]) -> None:
        """Warn once if rows of a query are not adjacent."""
        names, counts = np.unique(heads, return_counts=True)
        if counts.max() > 1:
            warnings.warn(
                f"{self.path}: the rows of {(counts > 1).sum()} of {names.size} queries are not "
                "next to each other and were gathered; sort the file by qid to be rid of this "
                "warning.",
                DataWarning,
                stacklevel=4,
            )
