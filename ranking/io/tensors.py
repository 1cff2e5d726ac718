"""Tensors and a description in one safetensors file, written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import ModelFileError

KEY = "ranking"
"""Where the description stands in the header of a file."""

HEADER_LIMIT = 1 << 20
"""Longest header that is read: a longer one is an attack, or not ours."""

Tensors = dict[str, NDArray[Any]]


def write_tensors(path: Path, tensors: Tensors, description: dict[str, Any]) -> None:
    """Write a file atomically: a temporary file is synced, then renamed over `path`."""
    from safetensors.numpy import save

    header = json.dumps(description, sort_keys=True, allow_nan=False)
    if len(header) > HEADER_LIMIT // 2:
        raise ModelFileError(
            f"the description of {path} is {len(header)} bytes long, too long to be read back."
        )
    contiguous = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    write_bytes(path, save(contiguous, metadata={KEY: header}))


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that whoever reads it sees the old content or the new, never a part."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first.")
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
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


def read_tensors(path: Path) -> tuple[Tensors, dict[str, Any]]:
    """Read a file that `write_tensors` wrote; raise `ModelFileError` for anything else."""
    from safetensors import SafetensorError, safe_open

    try:
        with open(path, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}.") from error
    if not 2 <= length <= HEADER_LIMIT:
        raise ModelFileError(
            f"{path} is not a model of `ranking` (its header would be {length} bytes long)."
        )
    try:
        with safe_open(path, framework="numpy") as file:
            description = json.loads((file.metadata() or {})[KEY])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except KeyError:
        raise ModelFileError(
            f"{path} is a safetensors file, but was not written by `ranking`."
        ) from None
    except (SafetensorError, ValueError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: {error}.") from error
    if not isinstance(description, dict):
        raise ModelFileError(f"{path} is damaged: its description is no table.")
    return tensors, description


def looks_like_tensors(head: bytes) -> bool:
    """Say whether a file begins as safetensors do; no text does, as there is a NUL byte."""
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= HEADER_LIMIT


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
