"""Readers of interactions: delimited text, MovieLens and Parquet; all return `MatchingData`."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from ranking._utils.files import open_regular
from ranking._utils.text import first_line
from ranking.contracts.reader import Reader
from ranking.data.frames import ROLES, find_roles, matching_from_frame, pyarrow_module
from ranking.data.matching_data import DUPLICATES, MIN_PROPENSITY, FeatureTable, MatchingData
from ranking.data.readers.lines import (
    Columns,
    head_lines,
    is_number,
    read_lines,
    refuse,
    split_line,
)
from ranking.data.readers.trec import LATEST_GRADE
from ranking.data.tables import Categories, Lists, Numbers, encode
from ranking.errors import DataError, FileError, PartError

PARQUET, ARROW = b"PAR1", b"ARROW1"
TYPES = ("token", "token_seq", "float")


@dataclasses.dataclass
class _Roles(Reader):
    """The columns to read, and how to merge repeated interactions.

    Attributes
    ----------
    user, item, value, time, propensity : str
        Names of columns; by default detected by their usual names. Without a value column, each
        interaction has the value 1. Values are divided by propensities.
    min_propensity : float
        Smaller propensities count as this.
    duplicates : {"sum", "max", "last"}
        How to merge several values of the same user and item.
    user_features, item_features : str
        Paths of tables whose first column holds the ids.
    """

    user: str = ""
    item: str = ""
    value: str = ""
    time: str = ""
    duplicates: str = "sum"
    user_features: str = ""
    item_features: str = ""
    propensity: str = ""
    min_propensity: float = MIN_PROPENSITY

    def __post_init__(self) -> None:
        """Validate `duplicates`."""
        if self.duplicates not in DUPLICATES:
            raise PartError(
                f"reader {self.name}: duplicates={self.duplicates!r} is not known; it is "
                f"{' or '.join(DUPLICATES)}."
            )

    def _columns(self) -> dict[str, str]:
        return {role: getattr(self, role) for role in ROLES}


@dataclasses.dataclass
class Interactions(_Roles):
    """CSV or TSV with a header, or a typed header as in ``user_id:token``.

    Ids are texts. The features of a typed file NAME.inter are read from NAME.user and NAME.item,
    where ``float`` is a number, ``token`` a category and ``token_seq`` several, separated by
    spaces. In other tables a column of numbers only is numeric, one with ``|`` holds lists, and
    any other categories.
    """

    name: ClassVar[str] = "interactions"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the header names a user and an item."""
        lines = head_lines(head, limit=1)
        names = {_untyped(name).lower() for line in lines for name in _cells(line)}
        return bool(names & set(ROLES["user"])) and bool(names & set(ROLES["item"]))

    def read(self, path: Path) -> MatchingData:
        """Read the file and the tables of features."""
        columns, _ = _table(path)
        roles = find_roles(columns.names, self._columns(), str(path))
        tables: dict[str, Any] = {}
        for side, ending in (("user", ".user"), ("item", ".item")):
            name = getattr(self, f"{side}_features")
            table = Path(name) if name else _sibling(path, ending)
            tables[f"{side}_features"] = None if table is None else read_features(table)
        return MatchingData.from_interactions(
            columns.texts(roles["user"]),
            columns.texts(roles["item"]),
            columns.floats(roles["value"]) if "value" in roles else None,
            columns.floats(roles["time"]) if "time" in roles else None,
            duplicates=self.duplicates,
            user_features=tables["user_features"],
            item_features=tables["item_features"],
            propensities=columns.floats(roles["propensity"]) if "propensity" in roles else None,
            min_propensity=self.min_propensity,
        )


@dataclasses.dataclass
class Movielens(Reader):
    """MovieLens: user, item, rating and time without a header, separated by tabs or ``::``.

    Attributes
    ----------
    duplicates : {"sum", "max", "last"}
        How to merge several ratings of the same user and item.
    """

    name: ClassVar[str] = "movielens"

    duplicates: str = "last"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether rows are four numbers, the last one large enough for a time."""
        rows = [_cells(line) for line in head_lines(head)]
        return bool(rows) and all(
            len(row) == 4 and all(map(is_number, row)) and float(row[3]) >= LATEST_GRADE
            for row in rows
        )

    def read(self, path: Path) -> MatchingData:
        """Read the whole file."""
        lines = read_lines(path)
        names = ("user", "item", "rating", "time")
        columns = Columns(path, lines, _splitter(lines[0]), names)
        return MatchingData.from_interactions(
            columns.texts("user"),
            columns.texts("item"),
            columns.floats("rating"),
            columns.floats("time"),
            duplicates=self.duplicates,
        )


@dataclasses.dataclass
class Parquet(_Roles):
    """Interactions in a Parquet or Arrow file; needs pyarrow.

    Ids are numbers or texts, as in the file. For features see
    `ranking.data.frames.features_from_frame`.
    """

    name: ClassVar[str] = "parquet"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the first bytes are those of Parquet or Arrow."""
        return head.startswith((PARQUET, ARROW))

    def read(self, path: Path) -> MatchingData:
        """Read the file and the tables of features."""
        users, items = (
            read_frame(Path(table)) if table else None
            for table in (self.user_features, self.item_features)
        )
        frame = read_frame(path)
        try:
            return matching_from_frame(
                frame,
                **self._columns(),
                user_features=users,
                item_features=items,
                duplicates=self.duplicates,
                min_propensity=self.min_propensity,
            )
        except DataError as error:
            raise DataError(f"{path}: {error}") from error
        except (ValueError, TypeError, OverflowError, UnicodeError, NotImplementedError) as error:
            raise DataError(
                f"{path}: a column has a type that cannot be read ({first_line(error)}); convert "
                "ids to whole numbers or text, and values to numbers."
            ) from error


def read_frame(path: Path) -> Any:
    """Return a Parquet or Arrow file as a pyarrow table."""
    arrow = pyarrow_module(str(path))
    import pyarrow.feather
    import pyarrow.parquet

    damage = (arrow.ArrowException, OSError, ValueError, TypeError, NotImplementedError)
    try:
        with open_regular(path) as stream:
            if stream.read(len(ARROW)) == ARROW:
                table = pyarrow.feather.read_table(stream)
            else:
                table = pyarrow.parquet.ParquetFile(stream).read()
        # Forged offsets point outside of the buffers: reading values before this check crashes.
        table.validate(full=True)
        return table
    except FileError as error:
        raise DataError(str(error)) from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; check the path.") from error
    except MemoryError as error:
        raise DataError(f"{path} does not fit into memory, or is damaged.") from error
    except damage as error:
        raise DataError(
            f"{path} is damaged or no Parquet file ({first_line(error)}); download or write it "
            "again."
        ) from error


def read_features(path: Path) -> FeatureTable:
    """Read a delimited file as features; its first column holds the ids."""
    columns, types = _table(path)
    first, *others = columns.names
    ids = columns.texts(first)
    lines: dict[str, int] = {}
    for one, line in zip(ids, columns.numbers, strict=True):
        if lines.setdefault(one, line) != line:
            refuse(path, line, f"id {one!r} was on line {lines[one]} already; keep one of them")
    encodings: dict[str, Numbers | Categories | Lists] = {}
    for name in others:
        values = columns.raw(name)
        kind = types.get(name) or _guess(values)
        if kind == "float":
            encodings[name] = Numbers(columns.floats(name))
        elif kind == "token":
            encodings[name] = Categories([value or None for value in values])
        else:
            separator = " " if name in types else "|"
            encodings[name] = Lists(
                [[word for word in value.split(separator) if word] for value in values]
            )
    return encode(ids, encodings)


def _guess(values: list[str]) -> str:
    if all(map(is_number, values)):
        return "float"
    return "token_seq" if any("|" in value for value in values) else "token"


def _table(path: Path) -> tuple[Columns, dict[str, str]]:
    """Return the columns of a delimited file by name, and their types if the header has types."""
    lines = read_lines(path)
    split = _splitter(lines[0])
    header = [name.strip() for name in split_line(path, 1, lines[0], split)]
    names = [_untyped(name) for name in header]
    types = {_untyped(name): name.rpartition(":")[2] for name in header if name != _untyped(name)}
    if len(set(names)) < len(names) or "" in names:
        raise DataError(
            f"{path}, line 1: a column has no name, or two have the same; the header is "
            f"{', '.join(header)}."
        )
    return Columns(path, lines[1:], split, names, first=2), types


def _untyped(name: str) -> str:
    base, _, kind = name.strip().rpartition(":")
    return base if base and kind in TYPES else name.strip()


def _splitter(line: str) -> Callable[[str], list[str]]:
    for separator in ("\t", "::"):
        if separator in line:
            return lambda line: line.split(separator)
    return _split_csv


def _cells(line: str) -> list[str]:
    """Return the cells of a line, none if it is not CSV."""
    try:
        return _splitter(line)(line)
    except csv.Error:
        return []


def _split_csv(line: str) -> list[str]:
    return next(csv.reader([line], strict=True)) if '"' in line else line.split(",")


def _sibling(path: Path, ending: str) -> Path | None:
    """Return the table of features next to a typed file of interactions, if there is one."""
    stem, inter, compressed = path.name.rpartition(".inter")
    if not inter or compressed not in ("", ".gz", ".xz", ".zst"):
        return None
    for other in ("", ".gz", ".xz", ".zst"):
        table = path.with_name(f"{stem}{ending}{other}")
        if table.is_file():
            return table
    return None
