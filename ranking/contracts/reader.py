"""The contract of a reader: recognize a path, and read it completely or refuse it."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

from ranking.contracts.part import Part

if TYPE_CHECKING:
    from ranking.data.kinds import Data


@dataclasses.dataclass
class Reader(Part, ABC):
    """Reads a file or a folder into one kind of data.

    Data with a defect are refused as a whole. A reader that uses a kernel has the fields `kernel`
    and `threads`, and is created with those of the call.
    """

    @classmethod
    @abstractmethod
    def recognises(cls, path: Path, head: bytes) -> bool:
        """Return whether a path has the format of the reader, by its name and its first bytes.

        A reader must be certain: a path that two readers recognize is refused. `head` is
        decompressed, and empty for a folder.
        """

    @abstractmethod
    def read(self, path: Path) -> Data:
        """Read the whole path; raise `DataError` with file, line and remedy for a defect."""
