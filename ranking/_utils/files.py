"""Read and write files safely: regular files only, whole or not at all, one writer at a time.

Every call of the operating system that changes a file goes through the functions of `os` that are
named here (open, write, fsync, replace, unlink), so that the tests can let each of them fail.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

from ranking.errors import FileError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BUFFER = 1 << 20
"""Number of bytes that are written at a time."""

TEMPORARY = ".partial"
"""How the names of temporary files end."""

KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
    (stat.S_ISFIFO, "a FIFO (named pipe)"),
    (stat.S_ISSOCK, "a socket"),
)


class MissingFolderError(FileError, FileNotFoundError):
    """The folder of an output does not exist."""


def kind_of(mode: int) -> str:
    """Return what a file that is not regular is; an empty string for a regular file."""
    return next((name for test, name in KINDS if test(mode)), "")


@contextlib.contextmanager
def open_regular(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a regular file for reading; refuse devices and FIFOs, which may block for ever.

    Raises
    ------
    FileError
        If it is not a regular file.
    OSError
        If it cannot be opened.
    """
    # Without O_NONBLOCK the opening of a FIFO waits for a writer; regular files ignore it.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        handle = os.open(path, flags)
    except ValueError as error:  # a NUL byte
        raise FileError(f"{os.fspath(path)!r} is not a path: {error}.") from error
    with os.fdopen(handle, "rb") as stream:
        kind = kind_of(os.fstat(handle).st_mode)
        if kind == "a folder":
            raise IsADirectoryError(21, "Is a directory", str(path))
        if kind:
            raise FileError(f"{path} is {kind}; save its content to a regular file first.")
        yield stream


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
    """Open a file that replaces `path` when the block ends without an error.

    The content is written to a temporary file in the same folder and synced; then the file is
    renamed and the folder synced. A symbolic link stays, and the file that it names is replaced.
    """
    try:
        target = resolve_output(path)
        handle, temporary = tempfile.mkstemp(
            prefix=temporary_prefix(target), suffix=TEMPORARY, dir=target.parent
        )
        try:
            with _Writer(handle) as raw, io.BufferedWriter(raw, BUFFER) as stream:
                yield cast(BinaryIO, stream)
                stream.flush()
                os.fsync(handle)
            os.chmod(temporary, _mode(target))
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_folder(target.parent)
    except FileError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: object, error: OSError) -> FileError:
    """Return the error for a file that the operating system does not write."""
    return FileError(f"{path} cannot be written: {error.strerror or error}.")


def resolve_output(path: str | os.PathLike[str]) -> Path:
    """Return the file that a path names, through symbolic links; refuse what is not a file."""
    try:
        target = Path(os.path.realpath(path))
        folder = target.parent.is_dir()
        mode = stat.S_IFREG
        with contextlib.suppress(FileNotFoundError):  # a name that is too long is another error
            mode = target.lstat().st_mode if folder else mode
    except ValueError as error:  # a NUL byte
        raise FileError(f"{os.fspath(path)!r} is not a path: {error}.") from error
    except OSError as error:
        raise cannot_write(path, error) from error
    if not folder:
        raise MissingFolderError(f"the folder {target.parent} does not exist; create it first.")
    kind = "a loop of symbolic links" if stat.S_ISLNK(mode) else kind_of(mode)
    if kind:
        raise FileError(f"{path} is {kind}; name a regular file.")
    return target


def refuse_overwriting(output: Path, inputs: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse an output that is an input, or a file in a folder that is an input."""
    target = resolve_output(output)
    for one in inputs:
        try:
            source = Path(os.path.realpath(one))
            within = source.is_dir() and source in target.parents and target.exists()
            same = target.exists() and source.exists() and os.path.samefile(source, target)
        except (OSError, ValueError):  # not a path, such as another value of a spec
            continue
        if within or same:
            what = f"a file of the input {one}" if within else f"the input {one}"
            raise FileError(f"{output} is {what}, which would be lost; name another output.")


def temporary_prefix(target: Path) -> str:
    """Return how the names of temporary files of an output begin."""
    return f".{target.name[:64]}."


def remove_temporaries(target: Path) -> None:
    """Remove what writers of this file left that were killed; only for the owner of its lock."""
    start = temporary_prefix(target)
    for file in target.parent.iterdir():
        if file.name.startswith(start) and file.name.endswith(TEMPORARY):
            with contextlib.suppress(OSError):
                os.unlink(file)


def remove_file(path: Path) -> None:
    """Remove a file, if there is one, and sync its folder."""
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise FileError(f"{path} cannot be removed: {error.strerror or error}.") from error


@contextlib.contextmanager
def locked(output: Path) -> Iterator[None]:
    """Hold the lock of an output: the file ``OUTPUT.lock`` with the owner's pid and host.

    The operating system releases the lock when its owner ends, however it ends; a file that a
    killed owner left is taken over. A second owner is refused with `FileError`.
    """
    target = resolve_output(output)
    path = target.with_name(target.name + ".lock")
    try:
        handle = _take_lock(path)
    except OSError as error:
        raise error if isinstance(error, FileError) else cannot_write(path, error) from error
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.unlink(path)
        os.close(handle)


def _take_lock(path: Path) -> int:
    resolve_output(path)
    while True:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        handle = os.open(path, flags, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The owner before may have removed the file between the opening and the locking.
            if os.path.exists(path) and os.path.samestat(os.fstat(handle), os.stat(path)):
                os.ftruncate(handle, 0)
                owner = {"pid": os.getpid(), "host": socket.gethostname()}
                os.write(handle, json.dumps(owner).encode() + b"\n")
                return handle
        except BlockingIOError:
            message = f"{path.with_suffix('')} is being written by {_owner(handle)}"
            os.close(handle)
            raise FileError(f"{message}; wait for it, or name another output.") from None
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _owner(handle: int) -> str:
    """Return who holds a lock, as its file says."""
    try:
        owner: Any = json.loads(os.pread(handle, 1024, 0))
        return f"process {int(owner['pid'])} on {str(owner['host'])!r}"
    except (OSError, ValueError, TypeError, KeyError):
        return "another process"


class _Writer(io.RawIOBase):
    """A file that is written by `os.write`; closing it closes the file."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.handle

    def write(self, content: Any) -> int:
        return os.write(self.handle, content)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self.handle)


def _mode(target: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new one."""
    try:
        return stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
