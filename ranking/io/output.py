"""`Output`: a file that a program writes, checked before the work begins."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from ranking._utils.files import (
    locked,
    refuse_overwriting,
    remove_file,
    remove_temporaries,
    replace_text,
    resolve_output,
)


class Output:
    """An output file, written atomically, and never over an input, a device or a FIFO.

    Parameters
    ----------
    path : str or path
        A symbolic link stays, and the file that it names is written.
    inputs : iterable of paths
        Files and folders that the output must not replace.

    Raises
    ------
    FileError
        If the output is an input, is not a regular file, or its folder does not exist.

    Examples
    --------
    >>> Output("/dev/null")
    Traceback (most recent call last):
        ...
    ranking.errors.FileError: /dev/null is a character device; name a regular file.
    """

    def __init__(
        self, path: str | os.PathLike[str], inputs: Iterable[str | os.PathLike[str]] = ()
    ) -> None:
        self.path = Path(path)
        refuse_overwriting(self.path, inputs)

    def write_text(self, text: str) -> None:
        """Replace the file by a text, atomically and synced."""
        with replace_text(self.path) as stream:
            stream.write(text)

    def locked(self) -> AbstractContextManager[None]:
        """Hold ``PATH.lock``, which names the owner, so that no other process writes to it."""
        return locked(self.path)

    def remove_leftovers(self) -> None:
        """Remove temporary files of writers that were killed; only while it is locked."""
        remove_temporaries(resolve_output(self.path))

    def remove(self) -> None:
        """Remove the file, if it exists, and sync its folder."""
        remove_file(self.path)
