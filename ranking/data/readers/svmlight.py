"""The SVMlight reader: rows of features labelled by class, without queries."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import ClassVar

import numpy as np

from ranking.contracts.reader import Reader
from ranking.data.matching_data import MatchingData
from ranking.data.readers import rows
from ranking.data.readers.labelled import labelled_features
from ranking.data.readers.letor import GRADE
from ranking.data.readers.lines import refuse
from ranking.data.readers.opening import open_bytes
from ranking.errors import DataError
from ranking.kernels.contract import Defect
from ranking.kernels.kernel import Kernel
from ranking.kernels.letor import Chunk
from ranking.kernels.select import get_kernel

COMMENT = re.compile(rb"#[^\n\0]*")
CLASS = re.compile(rb"(?m)^([^\S\n]*[^\s\0]+)")
LARGEST_CLASS = 2.0**53
MESSAGES = {
    **rows.MESSAGES,
    Defect.BAD_GRADE: "the class {word} is not a whole number; number the classes",
    Defect.QID_ELSEWHERE: "there is a qid, so these are judged lists; use letor",
}


@dataclasses.dataclass
class Svmlight(Reader):
    """SVMlight without qid: a whole number for the class, then ``index:value ...``.

    Attributes
    ----------
    kernel : str, Kernel or None
        The kernel that parses, as in :func:`ranking.get_kernel`.
    threads : int
        Number of threads that parse. The result depends on neither.
    """

    name: ClassVar[str] = "svmlight"

    kernel: str | Kernel | None = "auto"
    threads: int = 1

    def __post_init__(self) -> None:
        """Validate the parameters."""
        rows.check_threads(self.name, self.threads)

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the first row has a number and then a feature, not a qid."""
        words = rows.first_words(head)
        return (
            len(words) > 1
            and bool(GRADE.fullmatch(words[0]))
            and bool(re.match(rb"\d+:", words[1]))
        )

    def read(self, path: Path) -> MatchingData:
        """Read the whole file, under the policies of the LETOR reader."""
        kernel = get_kernel(self.kernel)
        lines = rows.Rows(path, np.dtype(np.float32), MESSAGES)
        with open_bytes(path) as stream:
            for text, start, stop in rows.blocks(stream, path):
                lists = _as_letor(text[start:stop])
                for chunk in kernel.letor.parse(
                    lists, 0, len(lists), dtype="float32", threads=self.threads
                ):
                    _check_classes(lines, chunk)
                    lines.add(chunk, lists)
        if not lines.values.size:
            raise DataError(
                f"{path}: there is no row with a feature; write `<class> 1:<value> ...`."
            )
        features, feature_ids = lines.features()
        return labelled_features(features, lines.grades.take(), feature_ids)


def _as_letor(text: bytearray) -> bytearray:
    """Return lines as those of one query, which kernels parse.

    Comments are removed first, as they have no meaning here and may have any encoding. A NUL byte
    stays, so that the kernel reports it.
    """
    return bytearray(CLASS.sub(rb"\1 qid:0", COMMENT.sub(b"", text)))


def _check_classes(lines: rows.Rows, chunk: Chunk) -> None:
    wrong = (chunk.grades != np.floor(chunk.grades)) | (np.abs(chunk.grades) > LARGEST_CLASS)
    if wrong.any():
        row = int(np.argmax(wrong))
        message = f"the class '{chunk.grades[row]:g}' is not a whole number; number the classes"
        refuse(lines.path, lines.n_lines + int(chunk.lines[row]), message)
