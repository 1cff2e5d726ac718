"""`read`: from one path or several to data, with the reader that fits."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from ranking.contracts.reader import Reader
from ranking.data.judged import Judged
from ranking.data.readers.opening import open_bytes
from ranking.errors import DataError
from ranking.registry import Registry, get_registry

HEAD = 4096
"""How many bytes, decompressed, a reader gets to recognise its format."""

Paths: TypeAlias = str | os.PathLike[str]


def read(
    path: Paths | Sequence[Paths],
    reader: str | Reader = "auto",
    *,
    registry: Registry | None = None,
) -> Judged:
    """Read judged data from a file, or from several as if they were one.

    Parameters
    ----------
    path : path or sequence of paths
        A query may be in one of the files only.
    reader : str or Reader
        ``"auto"`` asks each reader whether it recognises the file; else a name or spec, such as
        ``"letor:dtype=float64"``.
    registry : Registry, optional
        Where readers are looked up; by default what is installed.

    Returns
    -------
    Judged

    Raises
    ------
    DataError
        If a file is missing, not recognised or defective.
    """
    registry = registry or get_registry()
    paths = [Path(path)] if isinstance(path, str | os.PathLike) else [Path(one) for one in path]
    if not paths:
        raise DataError("there is no file to read; name at least one.")
    parts = [_reader_for(one, reader, registry).read(one) for one in paths]
    if len(parts) == 1:
        return parts[0]
    origin: dict[object, Path] = {}
    for one, part in zip(paths, parts, strict=True):
        for query in part.query_ids.tolist():
            before = origin.setdefault(query, one)
            if before is not one:
                raise DataError(
                    f"query {query} is in {before} and in {one}; leave one of the files out, or "
                    "join the rows of the query in one file."
                )
    return Judged.concatenate(parts)


def _reader_for(path: Path, reader: str | Reader, registry: Registry) -> Reader:
    if reader != "auto":
        made: Reader = registry.create("reader", reader)
        return made
    with open_bytes(path) as stream:
        head = stream.read(HEAD)
    if not head:
        raise DataError(f"{path} is empty; download or write it again.")
    for entry in registry.entries("reader"):
        factory = entry.load()
        if factory.recognises(path, head):
            found: Reader = factory()
            return found
    raise DataError(
        f"{path} is in no format that is known here; if it is one of "
        f"{', '.join(registry.names('reader')) or 'none'}, say so with --reader NAME "
        '(reader="NAME" in Python).'
    )
