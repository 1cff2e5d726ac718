"""Opening a file of data: compressed or not, and with errors that say what to do."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path

from ranking.errors import DataError

GZIP = b"\x1f\x8b"


@contextmanager
def open_bytes(path: Path) -> Iterator[BufferedReader | gzip.GzipFile]:
    """Open a file for reading, decompressed if its first bytes say that it is gzip.

    What goes wrong while it is open, also in the middle of a damaged file, becomes a `DataError`.
    """
    try:
        with path.open("rb") as raw:
            if raw.peek(2).startswith(GZIP):
                with gzip.open(raw) as stream:
                    yield stream
            else:
                yield raw
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; check the path.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a directory; name the file or files in it.") from error
    except PermissionError as error:
        raise DataError(f"{path} may not be read; check its permissions.") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"{path}: the gzip file is cut off or damaged ({error}); download or copy it again."
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
