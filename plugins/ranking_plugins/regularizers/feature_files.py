"""Feature ids in tab-separated files, and their positions in the data."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ranking.contracts.regularizer import Ids
from ranking.errors import PartError


def read_columns(name: str, path: Path, columns: str, least: int) -> list[list[str]]:
    """Read a file of lines with columns between tabs.

    Parameters
    ----------
    name : str
        Part and parameter, for messages, such as "group-l1:groups".
    columns : str
        The names of the columns, with <TAB> between them.
    least : int
        The number of columns that must be there; the others may be missing.
    """
    names, (part, parameter) = columns.split("<TAB>"), name.split(":")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise PartError(f"{part} cannot read {parameter}={path}: {error}.") from error
    rows = [line.split("\t") for line in lines]
    for number, words in enumerate(rows, start=1):
        if not least <= len(words) <= len(names) or "" in words:
            raise PartError(
                f"{path}, line {number}: write {columns}, not {lines[number - 1][:40]!r}."
            )
    return rows


def positions(ids: Ids) -> dict[str, int]:
    """Return the position of each feature, by its id as text."""
    return {str(one): at for at, one in enumerate(ids.tolist())}


def as_pairs(name: str, pairs: object, width: int) -> list[tuple[Any, ...]]:
    """Return pairs that a user gave in Python as tuples of 2 to `width` values."""
    if isinstance(pairs, str) or not isinstance(pairs, Collection):
        raise PartError(f"{name} is {pairs!r}; give the path of a file, or pairs of features.")
    rows: list[Sequence[Any]] = [tuple(one) for one in pairs]
    for row in rows:
        if not 2 <= len(row) <= width:
            raise PartError(f"{name} has {row!r}; each entry has 2 to {width} values.")
    return [tuple(row) for row in rows]


def none_known(name: str, count: int, ids: Ids) -> PartError:
    """Return the error for features of which none is in the data."""
    return PartError(
        f"{name}: none of the {count} entries is about features of the data, where ids look like "
        f"{ids[0]!s}; use the same ids."
    )
