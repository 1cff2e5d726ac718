"""Models that are served, and read again when their file is replaced."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import threading
from pathlib import Path
from typing import NamedTuple

import click

from ranking import Ranker, RankingError
from ranking_cli.serving.answers import RequestError
from ranking_cli.terminal import echo


class Stamp(NamedTuple):
    """What changes when a file is replaced."""

    inode: int
    changed: int
    size: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """Return the stamp of a file."""
        status = path.stat()
        return cls(status.st_ino, status.st_mtime_ns, status.st_size)


class ServedModel:
    """A model file and what was read from it.

    The file is read again at the next request after it was replaced; requests go on with the
    previous model until the new one is there, and if it cannot be read.

    Attributes
    ----------
    name : str
    path : Path
    problem : str
        Why the newest file is not served, or empty.
    """

    def __init__(self, name: str, path: Path, kernel: str, threads: int) -> None:
        self.name, self.path, self.problem = name, path, ""
        self._kernel, self._threads = kernel, threads
        self._lock = threading.Lock()
        self._stamp = Stamp.of(path)
        self._ranker = Ranker.load(path, kernel=kernel, threads=threads)

    def ranker(self) -> Ranker:
        """Return the model of the newest readable file."""
        try:
            stamp = Stamp.of(self.path)
        except OSError:  # between two files, or deleted: go on
            return self._ranker
        if stamp != self._stamp and self._lock.acquire(blocking=False):
            try:
                self._read(stamp)
            finally:
                self._lock.release()
        return self._ranker

    def _read(self, stamp: Stamp) -> None:
        try:
            self._ranker = Ranker.load(self.path, kernel=self._kernel, threads=self._threads)
            self.problem = ""
            release_memory()
        except (RankingError, OSError) as error:
            self.problem = " ".join(str(error).split())
            echo(f"{self.name} is not replaced: {self.problem}", err=True)
        self._stamp = stamp


def release_memory() -> None:
    """Free the previous model and return its memory to the system.

    Each thread that reads a model has an arena of its own in glibc, which keeps what was freed in
    it: after some replacements by different threads the process would have several times the
    memory of its models.
    """
    gc.collect()
    with contextlib.suppress(AttributeError, OSError, TypeError):  # other C libraries
        ctypes.CDLL(None).malloc_trim(0)


class Models:
    """All models that are served, by name."""

    def __init__(self, models: list[ServedModel]) -> None:
        self._models = {model.name: model for model in models}
        if len(self._models) < len(models):
            raise click.UsageError("two models have the same name; give them as NAME=PATH.")

    def __iter__(self):  # type: ignore[no-untyped-def]
        """Yield the models."""
        return iter(self._models.values())

    def find(self, name: object) -> ServedModel:
        """Return a model by name; the only one needs no name."""
        if name is None and len(self._models) == 1:
            return next(iter(self._models.values()))
        if name is None:
            names = ", ".join(self._models)
            raise RequestError(f"several models are served; give model, one of {names}.")
        if not isinstance(name, str) or name not in self._models:
            raise RequestError(f"model is {name!r}; it must be one of {', '.join(self._models)}.")
        return self._models[name]
