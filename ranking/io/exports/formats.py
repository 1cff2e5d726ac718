"""The formats of exports: which content each needs, and the files that it writes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ranking._utils.files import cannot_write, refuse_overwriting, write_bytes
from ranking.errors import DataError, FileError, PartError
from ranking.io.exports import vespa
from ranking.io.exports.content import (
    Exportable,
    embeddings,
    linear_function,
    term_weights,
)
from ranking.io.exports.onnx_graph import onnx_bytes
from ranking.io.exports.readable import readable_json
from ranking.io.exports.search_engines import elasticsearch_ltr, solr_ltr
from ranking.io.exports.sparse_index import sparse_files
from ranking.io.exports.vector_stores import (
    faiss_files,
    numpy_files,
    parquet_files,
    usearch_files,
)
from ranking.models.linear import Linear

Files = dict[str, bytes]


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """What a target wants to know.

    Attributes
    ----------
    name : str
        The name of the model in the target.
    feature_names : sequence of str, optional
        The names of the features of a linear model in the target.
    overwrite : bool
        Whether files of a folder that is not empty may be replaced.
    """

    name: str = "ranking"
    feature_names: Sequence[str] | None = None
    overwrite: bool = False

    @property
    def names(self) -> list[str] | None:
        """The names as a list."""
        return None if self.feature_names is None else list(self.feature_names)


class Format(NamedTuple):
    """How a format is written.

    Attributes
    ----------
    write : function
        Returns the files by name; one without a name is the export itself.
    is_folder : bool
    """

    write: Callable[[Exportable, ExportOptions], Files]
    is_folder: bool = True


def _elasticsearch(source: Exportable, options: ExportOptions) -> Files:
    return {"": elasticsearch_ltr(linear_function(source, options.names), options.name).encode()}


def _solr(source: Exportable, options: ExportOptions) -> Files:
    return {"": solr_ltr(linear_function(source, options.names), options.name).encode()}


def _vespa(source: Exportable, options: ExportOptions) -> Files:
    if isinstance(source.model, Linear):
        return vespa.linear_profile(linear_function(source, options.names), options.name)
    return vespa.embedding_profile(embeddings(source), options.name)


FORMATS: dict[str, Format] = {
    "json": Format(
        lambda source, options: {"": readable_json(source, options.names).encode()}, False
    ),
    "elasticsearch-ltr": Format(_elasticsearch, False),
    "opensearch-ltr": Format(_elasticsearch, False),
    "solr-ltr": Format(_solr, False),
    "vespa": Format(_vespa),
    "onnx": Format(lambda source, options: {"": onnx_bytes(source, options.names)}, False),
    "sparse-index": Format(lambda source, _: sparse_files(term_weights(source), quantised=False)),
    "anserini": Format(lambda source, _: sparse_files(term_weights(source), quantised=True)),
    "npy": Format(lambda source, _: numpy_files(embeddings(source))),
    "parquet": Format(lambda source, _: parquet_files(embeddings(source))),
    "faiss": Format(lambda source, _: faiss_files(embeddings(source))),
    "usearch": Format(lambda source, _: usearch_files(embeddings(source))),
}
"""The formats of `EXPORT_FORMATS`."""


def export_model(
    source: Exportable,
    path: str | os.PathLike[str],
    to: str,
    options: ExportOptions,
) -> list[Path]:
    """Write a model in a format and return the paths of the files.

    Parameters
    ----------
    source : Exportable
    path : str or path
        A file, or a folder for formats of several files, which is made if it does not exist.
    to : str
        A name in `FORMATS`.
    options : ExportOptions
    """
    if to not in FORMATS:
        raise PartError(f"{to!r} is not an export format; known are {', '.join(FORMATS)}.")
    _refuse_half_characters(options)
    target, form = Path(path), FORMATS[to]
    if not form.is_folder:
        refuse_overwriting(target, ())
    elif target.exists() and not target.is_dir():
        raise FileError(f"{target} is a file, and {to} writes a folder; name another path.")
    elif target.exists() and any(target.iterdir()) and not options.overwrite:
        raise FileError(
            f"the folder {target} is not empty; name another, or allow to overwrite its files."
        )
    files = {
        target / name if name else target: content
        for name, content in form.write(source, options).items()
    }
    if form.is_folder:
        try:
            target.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(target, error) from error
    for file in files:  # before any is written
        refuse_overwriting(file, ())
    for file, content in files.items():
        write_bytes(file, content)
    return list(files)


def _refuse_half_characters(options: ExportOptions) -> None:
    """Refuse names that cannot be written."""
    for name in (options.name, *(options.names or ())):
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError(f"the name {name!r} is not valid Unicode; give another.") from error
