"""The contract of a reader: recognise a path, and read all of it or refuse it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from pathlib import Path

from ranking.contracts.part import Part
from ranking.data.kinds import Data


@dataclasses.dataclass
class Reader(Part, ABC):
    """Turns a path, a file or a folder, into one kind of data.

    What has a defect is refused; nothing half-read is used. A reader that leaves work to a kernel
    has the fields `kernel` and `threads`, and is made with those of the call.
    """

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Say whether this looks like the reader's format, from its name and its first bytes.

        A reader must be sure: a path that two of them recognise is refused. `head` is decompressed,
        and empty for a folder.
        """

    @abstractmethod
    def read(self, path: Path) -> Data:
        """Read the whole path; raise `DataError` with file, line and remedy for a defect."""
