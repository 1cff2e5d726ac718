"""Multi-label ARFF files, sparse or dense: examples with features and labels.

The file does not say which of its attributes are labels. Mulan lists them in an XML file next to
it, ``<labels><label name="..."/>...</labels>``; MEKA in the name of the relation, ``-C 5`` for the
first five attributes and ``-C -5`` for the last.
"""

from __future__ import annotations

import dataclasses
import math
import re
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree

import numpy as np
from scipy import sparse

from ranking.contracts.parameters import choice
from ranking.contracts.reader import Reader
from ranking.data.matching_data import MatchingData
from ranking.data.readers.lines import head_lines, is_number, read_lines, read_text, refuse
from ranking.data.readers.rows import SMALL, short
from ranking.errors import DataError

ATTRIBUTE = re.compile(r"@attribute\s+('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\S+)\s*(.*)", re.I)
NUMERIC = ("numeric", "real", "integer")
INDEX = re.compile("[0-9]{1,9}")
MEKA = re.compile(r"-C\s+(-?[0-9]{1,9})(?![0-9])")
LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass
class Arff(Reader):
    """Examples become queries with features, labels documents; labels of an example are relevant.

    Attributes
    ----------
    labels : str or int
        Which attributes are labels: the path of an XML file of Mulan, or as in MEKA their number,
        n for the first and -n for the last ones. By default what the name of the relation says,
        else the XML file in the same folder whose name is a prefix of the data's.
    queries : {"examples", "labels"}
        With "labels" each label is a query without features of its own, and ranks the examples,
        which are documents with features.
    """

    name: ClassVar[str] = "arff"

    labels: str | int = ""
    queries: str = choice("examples", "examples", "labels")

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the first line that is not a comment names a relation."""
        lines = (line.lstrip() for line in head_lines(head, limit=1000))
        first = next((line for line in lines if not line.startswith("%")), "")
        return first.lower().startswith("@relation")

    def read(self, path: Path) -> MatchingData:
        """Read the whole file and, if necessary, the one that names the labels."""
        lines = read_lines(path)
        header = _read_header(path, lines)
        is_label = self._label_mask(path, header)
        cells = _read_cells(path, lines, header)
        of_label = is_label[cells.columns]
        wrong = of_label & (cells.values != 0) & (cells.values != 1)
        if wrong.any():
            at = int(np.argmax(wrong))
            label = header.names[cells.columns[at]]
            row = int(np.searchsorted(cells.row_ptr, at, side="right")) - 1
            message = f"label {label!r} is {cells.values[at]:g}; it must be 0 or 1"
            refuse(path, cells.lines[row], message)
        whole = sparse.csr_array(
            (cells.values, cells.columns, cells.row_ptr),
            shape=(len(cells.lines), len(header.names)),
        )
        whole.eliminate_zeros()
        names = np.array(header.names)
        features = whole[:, ~is_label].astype(np.float32)
        entries = features.shape[0] * features.shape[1]
        if entries <= SMALL or features.nnz >= entries / 4:
            features = features.toarray()
        positives = whole[:, is_label]
        if self.queries == "labels":
            return MatchingData(
                None,
                features,
                positives.T.tocsr(),
                query_ids=names[is_label],
                document_feature_ids=names[~is_label],
            )
        return MatchingData(
            features,
            None,
            positives,
            document_ids=names[is_label],
            query_feature_ids=names[~is_label],
        )

    def _label_mask(self, path: Path, header: _Header) -> Any:
        """Return a mask of the attributes that are labels."""
        count = len(header.names)
        number = self.labels if isinstance(self.labels, int) else header.label_count
        if isinstance(self.labels, str) and (self.labels or number is None):
            return _labels_in(self._xml(path), path, header)
        if number is None or not 0 < abs(number) < count:
            raise DataError(
                f"{path} has {count} attributes, and {number} labels are requested; give a number "
                f"from 1 to {count - 1}, or its negative for the last ones."
            )
        is_label = np.zeros(count, dtype=bool)
        is_label[slice(number) if number > 0 else slice(number, None)] = True
        return is_label

    def _xml(self, path: Path) -> Path:
        if isinstance(self.labels, str) and self.labels:
            return Path(self.labels)
        candidates = [
            (len(stem), file)
            for file in path.parent.iterdir()
            for stem, ending, _ in [file.name.partition(".xml")]
            if ending and stem and path.name.startswith(stem)
        ]
        if not candidates:
            raise DataError(
                f"{path} does not say which attributes are labels; put Mulan's XML file next to "
                "it, or say --reader arff:labels=FILE.xml, or arff:labels=-5 for the last five."
            )
        return max(candidates)[1]


class _Header(NamedTuple):
    """The attributes, the number of labels in the relation's name, and the line of @data."""

    names: list[str]
    label_count: int | None
    data_line: int


class _Cells(NamedTuple):
    """The stored values in the order of the rows, and the line of each row."""

    lines: array[int]
    row_ptr: Any
    columns: Any
    values: Any


def _read_header(path: Path, lines: Sequence[str]) -> _Header:
    names: dict[str, int] = {}
    count = None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        word = text.split(None, 1)[0].lower() if text else "%"
        if word == "@data":
            if len(names) < 2:
                refuse(path, number, "there are no attributes for a feature and a label; add them")
            return _Header(list(names), count, number)
        if word == "@relation":
            meka = MEKA.search(text)
            count = int(meka[1]) if meka else None
        elif word == "@attribute":
            name, kind = _attribute(path, number, text)
            if name in names:
                message = f"attribute {name!r} was on line {names[name]} already; rename one"
                refuse(path, number, message)
            _check_kind(path, number, name, kind)
            names[name] = number
        elif not word.startswith("%"):
            refuse(path, number, f"{short(text.encode())} is no line of a header; correct it")
    raise DataError(f"{path} has no @data; download or write it again.")


def _attribute(path: Path, number: int, text: str) -> tuple[str, str]:
    match = ATTRIBUTE.fullmatch(text)
    if not match:
        refuse(
            path, number, "an attribute needs a name and a type; write `@attribute NAME numeric`"
        )
    name, kind = match.groups()
    if name[0] in "'\"":
        name = re.sub(r"\\(.)", r"\1", name[1:-1])
    if not name:
        refuse(path, number, "the attribute's name is empty; fill it in")
    return name, kind.strip()


def _check_kind(path: Path, number: int, name: str, kind: str) -> None:
    """Raise `DataError` for an attribute that is not numeric.

    A sparse row leaves out the first of the values in braces, which therefore has to be 0.
    """
    if kind.lower() in NUMERIC:
        return
    if kind.startswith("{") and kind.endswith("}"):
        values = [value.strip().strip("'\"") for value in kind[1:-1].split(",")]
        if all(map(is_number, values)) and float(values[0]) == 0.0:
            return
    refuse(
        path,
        number,
        f"attribute {name!r} is {short(kind.encode())}, neither a number nor {{0,1}}; encode it as "
        "numbers, or as one {0,1} attribute per value",
    )


def _read_cells(path: Path, lines: Sequence[str], header: _Header) -> _Cells:
    starts, numbers = array("q", [0]), array("q")
    columns, values = array("q"), array("d")
    width = len(header.names)
    for number, line in enumerate(lines[header.data_line :], start=header.data_line + 1):
        text = line.strip()
        if not text or text.startswith("%"):
            continue
        own, words = _cells(path, number, text, width)
        columns.extend(own)
        values.extend(_values(path, number, [header.names[column] for column in own], words))
        numbers.append(number)
        starts.append(len(columns))
    if not numbers:
        raise DataError(f"{path} has no rows after @data; download or write it again.")
    return _Cells(
        numbers,
        np.frombuffer(starts, np.int64),
        np.array(columns, dtype=np.int64),
        np.array(values, dtype=np.float64),
    )


def _cells(path: Path, number: int, text: str, width: int) -> tuple[list[int], list[str]]:
    """Return the numbers of attributes and their values, of a sparse or a dense row."""
    if not text.startswith("{"):
        words = text.split(",")
        if len(words) != width:
            message = f"there are {len(words)} values and {width} attributes; complete the row"
            refuse(path, number, message)
        return list(range(width)), words
    if not text.endswith("}"):
        refuse(path, number, "the row has no closing brace; complete or remove it")
    cells: dict[int, str] = {}
    for pair in text[1:-1].split(",") if text[1:-1].strip() else []:
        index, _, word = pair.strip().partition(" ")
        if not word or not INDEX.fullmatch(index):
            message = f"{short(pair.encode())} is not `<index> <value>`; write both"
            refuse(path, number, message)
        if int(index) >= width:
            message = f"there is no attribute {index}; they are numbered from 0 to {width - 1}"
            refuse(path, number, message)
        if int(index) in cells:
            refuse(path, number, f"attribute {index} is there a second time; keep one")
        cells[int(index)] = word
    return list(cells), list(cells.values())


def _values(path: Path, number: int, names: Sequence[str], words: Sequence[str]) -> list[float]:
    """Return the values of a row; words are checked one by one only if the fast path fails."""
    try:
        values = [float(word) for word in words]
    except ValueError:
        values = [math.nan]
    in_range = all(-LARGEST <= value <= LARGEST for value in values)
    if in_range and not any("_" in word for word in words):
        return values
    return [_value(path, number, *cell) for cell in zip(names, words, strict=True)]


def _value(path: Path, number: int, name: str, word: str) -> float:
    text = word.strip().strip("'\"")
    if text == "?":
        refuse(path, number, f"attribute {name!r} has a missing value; fill it in")
    if not is_number(text):
        message = f"attribute {name!r} is {short(text.encode())}, no finite number; correct it"
        refuse(path, number, message)
    value = float(text)
    if abs(value) > LARGEST:
        refuse(path, number, f"attribute {name!r} is {value:g}, too large for float32; rescale it")
    return value


def _labels_in(xml: Path, path: Path, header: _Header) -> Any:
    """Return a mask of the attributes that Mulan's file names as labels."""
    text = read_text(xml)
    if "<!DOCTYPE" in text:
        raise DataError(f"{xml} defines entities, which labels do not need; remove its DOCTYPE.")
    try:
        # As text, so that no encoding that it declares can hide a DOCTYPE; without one, no entity.
        root = ElementTree.fromstring(text)  # noqa: S314
    except (ElementTree.ParseError, ValueError) as error:
        raise DataError(f"{xml} is not XML ({error}); download or write it again.") from error
    names = [one.get("name", "") for one in root.iter() if one.tag.rpartition("}")[2] == "label"]
    known = set(header.names)
    for name in names:
        if name not in known:
            raise DataError(
                f"{xml} has the label {name!r}, which is no attribute of {path}; check that they "
                "belong together, or name another file with --reader arff:labels=FILE.xml."
            )
    if not 0 < len(set(names)) < len(known):
        raise DataError(
            f"{xml} names {len(set(names))} of the {len(known)} attributes of {path} as labels; "
            "there must be at least one label and one feature."
        )
    return np.isin(np.array(header.names), names)
