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
=========================================  =======================================================
"""

from __future__ import annotations

import codecs
import dataclasses
import re
import warnings
from array import array
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.reader import Reader
from ranking.data.judged import Judged
from ranking.data.readers.opening import open_bytes
from ranking.errors import DataError, DataWarning, PartError

LARGEST_INDEX = 2**31 - 1
SMALL = 1_000_000
"""The number of entries up to which dense is always fine."""

NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# Twenty digits hold every index that could be meant; more would only cost time.
PAIR = re.compile(rb"(?<!\S)(\d{1,20}):(" + NUMBER + rb")(?!\S)")
GRADE = re.compile(NUMBER)
DOCID = re.compile(r"(?:^|\s)docid\s*=\s*(\S+)")
MISSING = (b"null", b"none", b"na", b"nan", b"?")
SHAPE = "write a row as `<grade> qid:<id> <index>:<value> ...`"


@dataclasses.dataclass
class Letor(Reader):
    """LETOR, or SVMlight with qid; plain or gzip.

    Attributes
    ----------
    dtype : {"float32", "float64"}
        How features are stored. Files hold six digits as a rule, which float32 keeps.
    """

    name: ClassVar[str] = "letor"

    dtype: str = "float32"

    def __post_init__(self) -> None:
        """Check the dtype."""
        if self.dtype not in ("float32", "float64"):
            raise PartError(f"reader letor: dtype={self.dtype!r} must be float32 or float64.")

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
        rows = _Rows(path, float(np.finfo(self.dtype).max))
        with open_bytes(path) as stream:
            for number, line in enumerate(stream, start=1):
                rows.add(number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line)
        if not rows.grades:
            raise DataError(f"{path}: there are no rows; {SHAPE}.")
        return rows.judged(np.dtype(self.dtype))


class _Rows:
    """The rows of one file, as far as it is read."""

    def __init__(self, path: Path, largest: float) -> None:
        self.path = path
        self.largest = largest
        self.lines = array("q")
        self.grades = array("d")
        self.qids: list[str] = []
        self.doc_ids: list[str | None] = []
        self.sizes = array("q")
        self.indices = array("q")
        self.values = array("d")

    def add(self, number: int, line: bytes) -> None:
        """Take in one line."""
        body, _, comment = line.partition(b"#")
        if b"\0" in line:
            self.refuse(
                number,
                "there is a NUL byte, so this is not text; download or export the file again",
            )
        words = body.split(None, 2)
        if not words:
            return
        qid, doc_id = self.names(number, words, comment)
        grade = float(words[0]) if GRADE.fullmatch(words[0]) else np.nan
        if not np.isfinite(grade):
            self.refuse(number, f"the grade {short(words[0])} is not a finite number; {SHAPE}")
        pairs = words[2] if len(words) > 2 else b""
        indices, values, wrong = parse_pairs(pairs, self.largest)
        if wrong:
            self.refuse(number, wrong)
        self.lines.append(number)
        self.grades.append(grade)
        self.qids.append(qid)
        self.doc_ids.append(doc_id)
        self.sizes.append(len(indices))
        self.indices.extend(indices)
        self.values.extend(values)

    def names(self, number: int, words: list[bytes], comment: bytes) -> tuple[str, str | None]:
        """Return the query of a row and, if the comment has one, its document."""
        if len(words) < 2 or not words[1].startswith(b"qid:"):
            where = "though rows before have one" if self.qids else "and it is the first row"
            self.refuse(number, f"there is no qid after the grade, {where}; {SHAPE}")
        try:
            qid = words[1].removeprefix(b"qid:").decode()
            match = DOCID.search(comment.decode())
        except UnicodeDecodeError:
            self.refuse(number, "the text is not UTF-8; convert the file, for example with iconv")
        if not qid:
            self.refuse(number, f"the qid is empty; {SHAPE}")
        return qid, match and match[1]

    def refuse(self, number: int, message: str) -> NoReturn:
        """Refuse the file because of one line."""
        raise DataError(f"{self.path}, line {number}: {message}.")

    def judged(self, dtype: np.dtype[Any]) -> Judged:
        """Return the rows as data, once the last one is in."""
        indices = np.frombuffer(self.indices, np.int64)
        if not indices.size:
            raise DataError(f"{self.path}: no row has a feature; {SHAPE}.")
        features, feature_ids = lay_out(
            np.frombuffer(self.sizes, np.int64),
            indices,
            np.frombuffer(self.values).astype(dtype, copy=False),
        )
        qids = np.array(self.qids, dtype=np.str_)
        data = Judged(
            features,
            np.frombuffer(self.grades),
            qids,
            doc_ids=self.document_ids(),
            feature_ids=feature_ids,
        )
        self.tell_of_scattered(qids)
        return data

    def document_ids(self) -> list[str] | None:
        """Return the documents' ids, or None if no comment has one."""
        if not any(self.doc_ids):
            return None
        lines: dict[str, dict[str, int]] = {}
        names = []
        for line, qid, given in zip(self.lines, self.qids, self.doc_ids, strict=True):
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

    def tell_of_scattered(self, qids: NDArray[np.str_]) -> None:
        """Warn once if rows have to be gathered."""
        heads = qids[np.concatenate(([True], qids[1:] != qids[:-1]))]
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
    sizes: NDArray[np.int64], indices: NDArray[np.int64], values: NDArray[Any]
) -> tuple[Any, NDArray[np.int64]]:
    """Return rows of so many indices and values as features, dense or CSR, and their ids."""
    largest, first = int(indices.max()), min(1, int(indices.min()))
    if largest - first < indices.size:
        feature_ids, columns = np.arange(first, largest + 1), indices - first
    else:
        feature_ids, columns = np.unique(indices, return_inverse=True)
    shape = (sizes.size, feature_ids.size)
    entries = sizes.size * feature_ids.size
    if entries <= SMALL or indices.size >= entries / 4:
        features = np.zeros(shape, values.dtype)
        features[np.repeat(np.arange(sizes.size), sizes), columns] = values
        return features, feature_ids
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return sparse.csr_array((values, columns, indptr), shape=shape), feature_ids


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
        return [], [], fault(pairs.split(), largest)
    return indices, values, ""


def fault(words: list[bytes], largest: float) -> str:
    """Say what is wrong with the features of a line that has something wrong."""
    seen: set[int] = set()
    for word in words:
        index, colon, value = word.partition(b":")
        shown = short(word)
        if index == b"qid":
            return f"{shown} must come right after the grade, once; {SHAPE}"
        if not colon or not index or not value:
            return f"{shown} is not <index>:<value>; write both, without a space between"
        if re.fullmatch(rb"-\d+", index):
            return f"{shown} has a negative index; number features from 0 or 1"
        if not re.fullmatch(rb"\d+", index):
            return f"{shown} has an index that is not a number; number features from 1"
        if len(index) > 20 or int(index) > LARGEST_INDEX:
            return f"{shown} has an index above {LARGEST_INDEX}; renumber the features or hash them"
        if value.lower() in MISSING:
            return f"{shown} is a missing value; fill it in, or leave it out if zero is meant"
        if not GRADE.fullmatch(value) or np.isinf(float(value)):
            return f"{shown} has a value that is not a finite number; correct it"
        if abs(float(value)) > largest:
            return (
                f"{shown} is too large for float32; rescale the feature, or read with "
                "letor:dtype=float64"
            )
        if int(index) in seen:
            return f"{shown} gives feature {int(index)} a second time; keep one"
        seen.add(int(index))
    raise AssertionError("a line is refused, and no word of it is wrong")


def short(word: bytes) -> str:
    """Quote a word for a message, cut if it is long."""
    text = word.decode(errors="replace")
    return repr(text if len(text) <= 30 else text[:30] + "...")
