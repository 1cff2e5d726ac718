"""Open a file of data, compressed or not, with errors that say what to do."""

from __future__ import annotations

import gzip
import importlib
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from ranking._utils.files import open_regular
from ranking.errors import DataError, FileError

GZIP = b"\x1f\x8b"
XZ = b"\xfd7zXZ\0"
ZSTD = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 17
ZSTD_PIECE = 1 << 11
"""Compressed bytes of zstd that are decompressed at once: a block of 4 bytes may hold 128 KiB."""
ZSTD_OUTPUT = 1 << 20
"""Bytes of content that the standard library decompresses at once."""


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedIOBase]:
    """Open a file for reading, decompressed if its first bytes are those of gzip, xz or zstd.

    Errors while it is open, also in the middle of a damaged file, become a `DataError`.
    """
    kind = "file"
    damage: tuple[type[Exception], ...] = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
    try:
        with open_regular(path) as raw:
            head = raw.peek(len(XZ))  # type: ignore[attr-defined]
            if head.startswith(GZIP):
                kind = "gzip file"
                with gzip.open(raw) as stream:
                    yield stream
            elif head.startswith(XZ):
                kind = "xz file"
                with lzma.open(raw) as stream:
                    yield stream
            elif head.startswith(ZSTD):
                kind = "zst file"
                module = _zstd(path)
                damage += (module.ZstdError,)
                with io.BufferedReader(_Frames(raw, module), CHUNK) as stream:
                    yield stream
            else:
                yield cast(io.BufferedIOBase, raw)
    except FileError as error:
        raise DataError(str(error)) from error
    except FileNotFoundError as error:
        raise DataError(f"{path}: there is no such file; check the path.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a directory; name the file or files in it.") from error
    except PermissionError as error:
        raise DataError(f"{path} may not be read; check its permissions.") from error
    except damage as error:
        raise DataError(
            f"{path}: the {kind} is cut off or damaged ({error}); download or copy it again."
        ) from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise DataError(f"{path} does not fit into memory; split it, or use a subset.") from error


def _zstd(path: Path) -> Any:
    """Return the module that decompresses zstd: compression.zstd (3.14 on) or zstandard."""
    for name in ("compression.zstd", "zstandard"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise DataError(
        f"{path} is compressed with zstd, which Python reads from 3.14 on; install the package "
        "zstandard (pip install 'ranking-kit[zst]'), or decompress the file."
    )


class _Frames(io.RawIOBase):
    """The content of zstd frames; raises an error if the last one is incomplete.

    The readers of both modules are not used because one of them accepts a truncated file.
    """

    def __init__(self, raw: IO[bytes], module: Any) -> None:
        self.raw = raw
        self.module = module
        self.frame: Any = None
        self.ready = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Decompress until there is some content."""
        while not self.ready:
            if not self._advance():
                return 0
        size = min(len(buffer), len(self.ready))
        buffer[:size] = self.ready[:size]
        self.ready = self.ready[size:]
        return size

    def _advance(self) -> bool:
        """Decompress a piece, which may have no content; return False at the end of the file."""
        frame = self.frame
        chunk = b""
        # Only the standard library limits its output; it keeps the input that is left.
        if frame is None or frame.eof or getattr(frame, "needs_input", True):
            chunk = frame.unused_data if frame is not None and frame.eof else b""
            chunk = chunk or self.raw.read(ZSTD_PIECE)
            if not chunk and frame is not None and not frame.eof:
                raise EOFError("it ends in the middle of a frame")
            if not chunk:
                return False
            if frame is None or frame.eof:
                self.frame = frame = self._decompressor()
        limited = {"max_length": ZSTD_OUTPUT} if hasattr(frame, "needs_input") else {}
        self.ready = frame.decompress(chunk, **limited)
        return True

    def _decompressor(self) -> Any:
        decompressor = self.module.ZstdDecompressor()
        # zstandard separates the stream from the settings, the standard library does not.
        if hasattr(decompressor, "decompressobj"):
            return decompressor.decompressobj()
        return decompressor
