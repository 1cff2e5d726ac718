"""Adjacency lists, as of CiteULike: one line per user, the number of items, then the items."""

from __future__ import annotations

import dataclasses
import re
from array import array
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.contracts.reader import Reader
from ranking.data.matching_data import MatchingData
from ranking.data.readers.lines import head_lines, read_lines, refuse
from ranking.data.readers.rows import short
from ranking.errors import DataError

NUMBER = re.compile("[0-9]{1,18}")


@dataclasses.dataclass
class Adjacency(Reader):
    """Line u is user u, from 0; its items are positives.

    Attributes
    ----------
    item_features : str
        A file of the same format: line i lists the features of item i, such as its tags.
        Without it, only items of at least one user are documents.
    """

    name: ClassVar[str] = "adjacency"

    item_features: str = ""

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether lines are of different lengths and each begins with its length."""
        rows = [line.split() for line in head_lines(head)]
        return len({len(row) for row in rows}) > 1 and all(
            all(map(NUMBER.fullmatch, row)) and int(row[0]) == len(row) - 1 for row in rows
        )

    def read(self, path: Path) -> MatchingData:
        """Read the whole file, and that of the items' features."""
        users, items = _read(path)
        if not self.item_features:
            known, items = np.unique(items, return_inverse=True)
            return MatchingData(None, None, _matrix(users, items, known.size), document_ids=known)
        features_path = Path(self.item_features)
        rows, tags = _read(features_path)
        if items.max(initial=-1) >= rows.size - 1:
            line = int(np.searchsorted(users, np.argmax(items), side="right"))
            refuse(
                path,
                line,
                f"there is item {items.max()}, and {features_path} has {rows.size - 1} lines, from "
                "0; check that they belong together",
            )
        names, tags = np.unique(tags, return_inverse=True)
        return MatchingData(
            None,
            _matrix(rows, tags, names.size).astype(np.float32),
            _matrix(users, items, rows.size - 1),
            document_feature_ids=names,
        )


def _read(path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the offsets of the lines, and their numbers."""
    starts, numbers = array("q", [0]), array("q")
    for at, line in enumerate(read_lines(path), start=1):
        words = line.split()
        wrong = next((word for word in words if not NUMBER.fullmatch(word)), None)
        if wrong is not None:
            refuse(path, at, f"{short(wrong.encode())} is not a number from 0 on; correct it")
        if not words or int(words[0]) != len(words) - 1:
            announced = words[0] if words else "nothing"
            refuse(
                path,
                at,
                f"the line announces {announced} and has {max(0, len(words) - 1)} numbers after "
                "it; complete it, or write 0",
            )
        own = [int(word) for word in words[1:]]
        if len(set(own)) < len(own):
            repeated = next(one for one in own if own.count(one) > 1)
            refuse(path, at, f"{repeated} is there twice; keep one")
        numbers.extend(own)
        starts.append(len(numbers))
    if not numbers:
        raise DataError(f"{path}: all lines are empty; download or write it again.")
    return np.array(starts, dtype=np.int64), np.array(numbers, dtype=np.int64)


def _matrix(starts: NDArray[np.int64], columns: NDArray[Any], width: int) -> sparse.csr_array:
    return sparse.csr_array(
        (np.ones(columns.size), columns, starts), shape=(starts.size - 1, width)
    )
