"""Readers of TREC files: qrels (relevance judgements) and runs (rankings of a system)."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import ClassVar

from ranking.contracts.reader import Reader
from ranking.data.readers.lines import Columns, head_lines, is_number, read_lines, refuse
from ranking.data.trec import Judgements, Run

QRELS = ("query", "iteration", "document", "grade")
BEIR = ("query-id", "corpus-id", "score")
RUN = ("query", "Q0", "document", "rank", "score", "tag")
LATEST_GRADE = 1e8
"""A fourth column of at least this value is a time, not a grade."""


def read_qrels(path: str | os.PathLike[str]) -> Judgements:
    """Read judgements: ``query 0 document grade``, or BEIR's three columns with their header."""
    path = Path(path)
    lines = read_lines(path)
    if tuple(lines[0].split("\t")) == BEIR:
        names = ("query", "document", "grade")
        columns = Columns(path, lines[1:], lambda line: line.split("\t"), names, first=2)
    else:
        columns = Columns(path, lines, str.split, QRELS)
    columns.drop_repeats("query", "document", "grade")
    return Judgements(columns.texts("query"), columns.texts("document"), columns.floats("grade"))


def read_run(path: str | os.PathLike[str]) -> Run:
    """Read a run: ``query Q0 document rank score tag``. The rank is ignored, the score is used."""
    path = Path(path)
    columns = Columns(path, read_lines(path), str.split, RUN)
    columns.refuse_repeats("query", "document")
    tags = columns.raw("tag")
    for row, tag in enumerate(tags):
        if tag != tags[0]:
            refuse(
                path,
                columns.numbers[row],
                f"the tag is {tag!r} and was {tags[0]!r}, so there are two runs; put each in a "
                "file of its own",
            )
    # Systems write an infinite score for documents that a rule excludes.
    scores = columns.floats("score", infinite=True)
    return Run(columns.texts("query"), columns.texts("document"), scores, tags[0])


@dataclasses.dataclass
class QrelsReader(Reader):
    """TREC or BEIR judgements."""

    name: ClassVar[str] = "qrels"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether rows have four columns, the second being 0 or Q0, or BEIR's header."""
        lines = head_lines(head)
        if lines and tuple(lines[0].split("\t")) == BEIR:
            return True
        rows = [line.split() for line in lines]
        return bool(rows) and all(
            len(row) == 4
            and row[1].upper() in ("0", "Q0")
            and is_number(row[3])
            and float(row[3]) < LATEST_GRADE
            for row in rows
        )

    def read(self, path: Path) -> Judgements:
        """Read the whole file."""
        return read_qrels(path)


@dataclasses.dataclass
class RunReader(Reader):
    """TREC runs."""

    name: ClassVar[str] = "run"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether rows have six columns, the second being Q0 and the fifth a number."""
        rows = [line.split() for line in head_lines(head)]
        return bool(rows) and all(
            len(row) == 6
            and row[1].upper() == "Q0"
            and (is_number(row[4]) or row[4].lower().lstrip("+-") in ("inf", "infinity"))
            for row in rows
        )

    def read(self, path: Path) -> Run:
        """Read the whole file."""
        return read_run(path)
