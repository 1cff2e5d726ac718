"""Tensors and a description in one safetensors file, written atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from ranking._utils.files import write_bytes
from ranking._utils.tensors import Tensors
from ranking.errors import ModelFileError

KEY = "ranking"
"""Key of the description in the header of a file."""

HEADER_LIMIT = 1 << 20
"""Longest header that is read: a longer one is an attack, or not ours."""


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
        raise ModelFileError(f"{path} is damaged: its description is not a table.")
    return tensors, description


def looks_like_tensors(head: bytes) -> bool:
    """Return whether a file begins like safetensors: no text does, as there is a NUL byte."""
    return head[8:9] == b"{" and 2 <= int.from_bytes(head[:8], "little") <= HEADER_LIMIT
