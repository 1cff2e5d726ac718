"""Files that commands write: whole, or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import click


def write_text(path: Path, text: str) -> None:
    """Write a file atomically: readers see the old content or the new, never a part of it."""
    if not path.parent.is_dir():
        raise click.UsageError(f"the folder {path.parent} does not exist; create it first.")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
