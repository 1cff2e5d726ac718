"""Write files atomically: readers see the old content or the new, never a part of it."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with replace_file(path) as stream:
        stream.write(content)


@contextlib.contextmanager
def replace_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file that replaces `path` when the block ends without an error."""
    with replace_file(Path(path)) as stream:
        text = io.TextIOWrapper(stream, encoding="utf-8", newline="")
        yield text
        text.detach()  # flushes, and leaves the file open


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends without an error."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it first.")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
