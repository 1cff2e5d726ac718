"""Read data from one or several paths, with the reader that recognises the format."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, overload

from ranking.contracts.reader import Reader
from ranking.data.judged_lists import JudgedLists
from ranking.data.kinds import Data
from ranking.data.matching_data import MatchingData
from ranking.data.readers.opening import open_bytes
from ranking.data.text_collection import TextCollection
from ranking.data.trec import Judgements, Run
from ranking.errors import DataError, PluginWarning
from ranking.kernels.kernel import Kernel
from ranking.registry.manager import Entry, Registry, get_registry
from ranking.registry.security import OURS, canonical
from ranking.registry.spec import parse_spec

HEAD = 4096
"""Number of decompressed bytes from which a reader recognises its format."""

TREC: Final = ("run", "qrels")
"""Readers of data to evaluate, which no model can be trained on."""

Paths: TypeAlias = str | os.PathLike[str]


def read(
    path: Paths | Sequence[Paths],
    reader: str | Reader = "auto",
    *,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
    registry: Registry | None = None,
) -> JudgedLists:
    """Read judged data from a file, or from several as if they were one.

    Parameters
    ----------
    path : path or sequence of paths
        Each query must be in one file only.
    reader : str or Reader
        ``"auto"`` takes the reader that recognises the file; else a name or spec, such as
        ``"letor:dtype=float64"``.
    kernel, threads
        The kernel and the number of threads, for readers that parse with a kernel; the result
        does not depend on them. A spec or a `Reader` with its own settings takes precedence.
    registry : Registry, optional
        Registry of readers; by default that of all installed plugins.

    Returns
    -------
    JudgedLists

    Raises
    ------
    DataError
        If a file is missing, not recognised or defective.
    """
    registry = registry or get_registry()
    paths = [Path(path)] if isinstance(path, str | os.PathLike) else [Path(one) for one in path]
    if not paths:
        raise DataError("there is no file to read; name at least one.")
    remedy = "if it is LETOR, each row needs a qid after the grade"
    if len(paths) > 1:
        remedy = "only such rows may come in several files, so join these into one"
    options: dict[str, Any] = {"kernel": kernel, "threads": threads, "registry": registry}
    parts = [_judged(one, find_reader(one, reader, **options), remedy) for one in paths]
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
    return JudgedLists.concatenate(parts)


def read_any(
    path: Paths,
    reader: str | Reader = "auto",
    *,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
    registry: Registry | None = None,
) -> Data:
    """Read a file or folder of any format.

    Parameters
    ----------
    path : path
    reader, kernel, threads, registry
        As in `read`.

    Returns
    -------
    JudgedLists, MatchingData, TextCollection, Judgements or Run
        As the reader returns them.
    """
    reader_of_path = find_reader(path, reader, kernel=kernel, threads=threads, registry=registry)
    return reader_of_path.read(Path(path))


# A literal is a str as well; mypy takes the first signature that fits.
@overload
def read_data(path: Paths, reader: Literal["run"]) -> Run: ...  # type: ignore[overload-overlap]


@overload
def read_data(  # type: ignore[overload-overlap]
    path: Paths, reader: Literal["qrels"]
) -> Judgements: ...


@overload
def read_data(
    path: Paths | Sequence[Paths],
    reader: str | Reader = ...,
    *,
    kernel: str | Kernel | None = ...,
    threads: int = ...,
) -> JudgedLists | MatchingData | TextCollection: ...


def read_data(
    path: Paths | Sequence[Paths],
    reader: str | Reader = "auto",
    *,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
) -> Data:
    """Read data that a model can be trained on or applied to, or a TREC file.

    Parameters
    ----------
    path : path or sequence of paths
        Several files are joined, if they hold judged lists; each query must be in one file only.
    reader : str or Reader
        ``"auto"`` takes the reader that recognises the file; else a name or spec, such as
        ``"letor:dtype=float64"``. ``"run"`` and ``"qrels"`` read a run and its judgements for
        `evaluate_run`.
    kernel, threads
        The kernel and the number of threads, for readers that parse with a kernel; the result
        does not depend on them. A spec or a `Reader` with its own settings takes precedence.

    Raises
    ------
    DataError
        If a file is missing, not recognised or defective.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if len(paths) != 1:
        return read(paths, reader, kernel=kernel, threads=threads)
    reader_of_path = find_reader(paths[0], reader, kernel=kernel, threads=threads)
    data = reader_of_path.read(Path(paths[0]))
    if reader in TREC or isinstance(data, JudgedLists | MatchingData | TextCollection):
        return data
    raise DataError(
        f"{paths[0]} was read as {reader_of_path.name} and holds a {type(data).__name__}, which a "
        "model cannot be trained on or applied to; name data with features or texts."
    )


def find_reader(
    path: Paths,
    reader: str | Reader = "auto",
    *,
    kernel: str | Kernel | None = "auto",
    threads: int = 1,
    registry: Registry | None = None,
) -> Reader:
    """Return the reader of that name, else the only one that recognises the path.

    Parameters are those of `read_data`. The name of the format is ``find_reader(path).name``, and
    ``find_reader(path).read(path)`` reads data of any kind.
    """
    registry = registry or get_registry()
    path = Path(path)
    options = {"kernel": kernel, "threads": threads}
    if not isinstance(reader, str):
        return reader
    if reader != "auto":
        factory = registry.find("reader", parse_spec(reader).name).load()
        instance: Reader = registry.create("reader", reader, **_supported(factory, options))
        return instance
    names = ", ".join(registry.names("reader")) or "none"
    if path.is_dir():
        head = b""
    else:
        with open_bytes(path) as stream:
            head = stream.read(HEAD)
        if not head:
            raise DataError(f"{path} is empty; download or write it again.")
    candidates = {
        entry.name: entry.load()
        for entry in registry.entries("reader")
        if _recognised(entry, path, head)
    }
    if len(candidates) == 1:
        _, factory = candidates.popitem()
        recognised: Reader = factory(**_supported(factory, options))
        return recognised
    remedy = 'say so with --reader NAME (reader="NAME" in Python)'
    if candidates:
        raise DataError(f"{path} may be {' or '.join(candidates)}; {remedy}.")
    if path.is_dir():
        raise DataError(
            f"{path} is a directory, and not a collection of a known format; name the file or "
            f"files in it, or if it is one of {names}, {remedy}."
        )
    raise DataError(f"{path} is not in a known format; if it is one of {names}, {remedy}.")


def _recognised(entry: Entry, path: Path, head: bytes) -> bool:
    """Ask a reader; a third-party reader that fails is skipped with a warning."""
    try:
        return bool(entry.load().recognises(path, head))
    except Exception as error:
        if canonical(entry.distribution) in OURS:
            raise
        warnings.warn(
            f"reader {entry.name!r} of {entry.distribution} {entry.version} is skipped: "
            f"{type(error).__name__}: {error}",
            PluginWarning,
            stacklevel=2,
        )
        return False


def _supported(factory: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that the factory has parameters for; most readers need no kernel."""
    known = inspect.signature(factory).parameters
    return {name: value for name, value in options.items() if name in known}


def _judged(path: Path, reader: Reader, remedy: str) -> JudgedLists:
    data = reader.read(path)
    if not isinstance(data, JudgedLists):
        raise DataError(
            f"{path} was read as {reader.name} and holds a {type(data).__name__}, not rows of "
            f"features judged for a query; {remedy}."
        )
    return data
