"""Readers of data labelled by class, where documents of the class of a query are relevant to it.

Every row is a query and a document; none is relevant to itself.
"""

from __future__ import annotations

import dataclasses
import lzma
import os
import re
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking._utils.text import first_line
from ranking.contracts.reader import Reader
from ranking.data.matching_data import MatchingData
from ranking.data.readers.lines import Columns, head_lines, read_lines, read_text, refuse
from ranking.data.readers.opening import open_bytes
from ranking.data.readers.rows import SMALL
from ranking.data.text_collection import TextCollection
from ranking.errors import DataError

DAMAGE = (
    *(ValueError, TypeError, KeyError, IndexError, OverflowError, EOFError, SyntaxError),
    # Encrypted members, compression methods that Python lacks, bytes that are not of a zip file.
    *(RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError),
    *(struct.error, tokenize.TokenError, AttributeError),
)
"""What NumPy and zipfile raise for damaged files."""

IMAGES, LABELS = b"\0\0\x08\x03", b"\0\0\x08\x01"


@dataclasses.dataclass
class Tab(Reader):
    """Class and text separated by a tab, after three header lines: names, types, roles."""

    name: ClassVar[str] = "tab"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the third line says which of two columns is the class."""
        rows = [line.split("\t") for line in head_lines(head, limit=3)]
        return (
            len(rows) == 3
            and all(len(row) == 2 for row in rows)
            and [cell.strip() for cell in rows[2]] in (["class", ""], ["", "class"])
        )

    def read(self, path: Path) -> TextCollection:
        """Read the whole file; the ids are the numbers of the rows, from 0."""
        lines = read_lines(path)
        header = [line.split("\t") for line in lines[:3]]
        if len(header) < 3 or any(len(row) != 2 for row in header) or "class" not in header[2]:
            refuse(path, 1, "there must be three header lines of two columns: names, types, roles")
        names = ["text", "text"]
        names[header[2].index("class")] = "class"
        columns = Columns(path, lines[3:], lambda line: line.split("\t"), names, first=4)
        return _labelled_texts(
            range(len(columns.numbers)), columns.raw("text"), columns.texts("class")
        )


@dataclasses.dataclass
class Folders(Reader):
    """One folder per class, one file per text.

    Attributes
    ----------
    encoding : str
        Of the texts. The original 20 Newsgroups need latin-1.
    """

    name: ClassVar[str] = "folders"

    encoding: str = "utf-8"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return False: subfolders are too common to detect, so this reader is selected by name."""
        return False

    def read(self, path: Path) -> TextCollection:
        """Read all texts; the ids are ``class/file``."""
        if not path.is_dir():
            raise DataError(f"{path} is not a folder; name one with a folder for each class.")
        files = sorted(
            file
            for folder in path.iterdir()
            if folder.is_dir()
            for file in folder.iterdir()
            if file.is_file() and not file.name.startswith(".")
        )
        if not files:
            raise DataError(f"{path} has no folders with texts; make one for each class.")
        _refuse_links_outside(path, files)
        ids = [f"{file.parent.name}/{file.name}" for file in files]
        texts = [read_text(file, self.encoding) for file in files]
        return _labelled_texts(ids, texts, [file.parent.name for file in files])


@dataclasses.dataclass
class Idx(Reader):
    """MNIST's idx: a file of images, and a file of labels in the same folder.

    A feature is the value of a pixel, 0 to 255, numbered from 1.

    Attributes
    ----------
    unit_length : bool
        Whether images are scaled to Euclidean norm 1, as most matching models expect.
    """

    name: ClassVar[str] = "idx"

    unit_length: bool = False

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether the first bytes are those of images or labels."""
        return head.startswith((IMAGES, LABELS))

    def read(self, path: Path) -> MatchingData:
        """Read images and labels."""
        images = _idx(path, IMAGES)
        labels_name = re.sub("images(.)idx3", r"labels\1idx1", path.name)
        stem = re.sub(r"\.(gz|xz|zst)$", "", labels_name)
        candidates = [path.with_name(stem + ending) for ending in ("", ".gz", ".xz", ".zst")]
        files = [file for file in candidates if file.is_file() and file != path]
        if not files:
            raise DataError(f"{path}: its labels are missing; put {stem} next to it.")
        labels = _idx(files[0], LABELS)
        if labels.size != images.shape[0]:
            raise DataError(
                f"{path} has {images.shape[0]} images and {files[0]} has {labels.size} labels; "
                "they do not belong together."
            )
        data = labelled_features(_compact(images.reshape(labels.size, -1)), labels)
        return data.unit_length() if self.unit_length else data


@dataclasses.dataclass
class Npz(Reader):
    """NumPy's npz with the features X and the labels y; never unpickled.

    Attributes
    ----------
    features, labels : str
        The names of the arrays.
    """

    name: ClassVar[str] = "npz"

    features: str = "X"
    labels: str = "y"

    @classmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether it is a zip file with the suffix .npz."""
        return path.suffix == ".npz" and head.startswith(b"PK\3\4")

    def read(self, path: Path) -> MatchingData:
        """Read both arrays."""
        try:
            with open_bytes(path) as stream, np.load(stream, allow_pickle=False) as arrays:
                for name in (self.features, self.labels):
                    if name not in arrays:
                        raise DataError(
                            f"{path} has no array {name}, only {', '.join(arrays)}; name the "
                            "arrays with --reader npz:features=NAME,labels=NAME."
                        )
                features, labels = arrays[self.features], arrays[self.labels]
        except DataError:
            raise
        except MemoryError as error:
            raise DataError(f"{path} does not fit into memory, or is damaged.") from error
        except DAMAGE as error:
            raise DataError(
                f"{path} cannot be read ({first_line(error)}); save plain arrays of numbers again."
            ) from error
        if features.ndim < 2 or labels.shape != features.shape[:1]:
            raise DataError(
                f"{path}: {self.features} has shape {features.shape} and {self.labels} shape "
                f"{labels.shape}; give one label per row of features."
            )
        return labelled_features(_compact(features.reshape(labels.size, -1)), labels)


def _refuse_links_outside(folder: Path, files: list[Path]) -> None:
    """Refuse symbolic links to files that are not in the folder, whose texts a model would keep."""
    root = os.path.realpath(folder)
    for file in files:
        target = os.path.realpath(file)
        if os.path.commonpath((root, target)) != root:
            raise DataError(
                f"{file} is a link to {target}, which is outside of {folder}; copy the file, or "
                "remove the link."
            )


def _labelled_texts(ids: Any, texts: list[str], classes: list[str]) -> TextCollection:
    names = np.array(ids)
    labels = np.array(classes)
    return TextCollection(
        names, texts, names, texts, labels=(labels, labels), queries_are_documents=True
    )


def labelled_features(
    features: Any, labels: NDArray[Any], feature_ids: NDArray[np.int64] | None = None
) -> MatchingData:
    """Return data whose rows are queries and documents; whole labels become int64."""
    if labels.dtype.kind in "buf" and (labels == np.floor(labels)).all():
        labels = labels.astype(np.int64)
    return MatchingData(
        features,
        features,
        labels=(labels, labels),
        query_feature_ids=feature_ids,
        document_feature_ids=feature_ids,
        queries_are_documents=True,
    )


def _compact(array: NDArray[Any]) -> Any:
    """Return features as float32 unless they are float64, and CSR if most are zero."""
    if array.dtype.kind not in "buif":
        raise DataError(f"features are of type {array.dtype}; save numbers.")
    dtype = array.dtype if array.dtype == np.float64 else np.dtype(np.float32)
    if array.size > SMALL and np.count_nonzero(array) < array.size / 4:
        return sparse.csr_array(array).astype(dtype)
    return array.astype(dtype)


def _idx(path: Path, magic: bytes) -> NDArray[np.uint8]:
    with open_bytes(path) as stream:
        content = stream.read()
    if not content.startswith(magic):
        other = content.startswith(LABELS) and magic == IMAGES
        remedy = "name the file of images" if other else "download it again"
        kind = "images" if magic == IMAGES else "labels"
        raise DataError(f"{path} does not hold {kind} of unsigned bytes in idx; {remedy}.")
    start = 4 + 4 * magic[3]
    # Python integers do not overflow, so a forged header cannot fake a fitting size.
    shape = tuple(int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4))
    size = 1
    for length in shape:
        size *= length
    if len(content) - start != size or size == 0:
        raise DataError(
            f"{path}: its header announces {size} bytes of shape {shape}, and there are "
            f"{len(content) - start}; download it again."
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
