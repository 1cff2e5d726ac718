"""Ids of rows and features as arrays of a model file: numbers, or text as UTF-8 bytes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ranking._utils.tensors import Tensors
from ranking.data.validation import Ids
from ranking.errors import ModelFileError, PartError


def empty_ids() -> Ids:
    """Return an empty array of ids."""
    return np.zeros(0, dtype=np.int64)


def merge_ids(known: Ids, ids: Ids) -> Ids:
    """Return the known ids, then the new ones in their order."""
    if known.dtype.kind != ids.dtype.kind:
        raise PartError(
            f"features are called like {known[0].item()!r} in the model and like "
            f"{ids[0].item()!r} in the data; use the same names."
        )
    both: Any = (known, ids[~np.isin(ids, known)])
    merged: Ids = np.concatenate(both)
    return merged


def pack_ids(name: str, ids: Ids) -> Tensors:
    """Return ids as one array of int64, or as bytes and offsets."""
    if ids.dtype.kind != "U":
        return {name: ids.astype(np.int64, copy=False)}
    encoded = [text.encode() for text in ids.tolist()]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(text) for text in encoded], out=offsets[1:])
    content = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    return {f"{name}.text": content, f"{name}.offsets": offsets}


def unpack_ids(name: str, tensors: Tensors) -> Ids:
    """Return the ids that `pack_ids` packed, or raise `ModelFileError`."""
    numbers = tensors.get(name)
    if numbers is not None:
        if numbers.dtype != np.int64 or numbers.ndim != 1:
            raise ModelFileError(f"`{name}` must be a vector of int64.")
        ids: Ids = np.array(numbers)
    else:
        ids = _texts(name, tensors)
    if np.unique(ids).size < ids.size:
        raise ModelFileError(f"`{name}` must have each id once.")
    return ids


def _texts(name: str, tensors: Tensors) -> Ids:
    content, offsets = tensors.get(f"{name}.text"), tensors.get(f"{name}.offsets")
    if content is None or offsets is None:
        raise ModelFileError(f"`{name}` is missing, and so are `{name}.text` and its offsets.")
    if content.dtype != np.uint8 or content.ndim != 1:
        raise ModelFileError(f"`{name}.text` must be a vector of uint8.")
    if offsets.dtype != np.int64 or offsets.ndim != 1 or offsets.size < 2:
        raise ModelFileError(f"`{name}.offsets` must be a vector of int64, two or more.")
    if offsets[0] != 0 or offsets[-1] != content.size or (offsets[1:] < offsets[:-1]).any():
        raise ModelFileError(
            f"`{name}.offsets` must rise from 0 to the {content.size} bytes of the text."
        )
    whole = content.tobytes()
    try:
        return np.array([whole[start:end].decode() for start, end in pairwise(offsets.tolist())])
    except UnicodeDecodeError as error:
        raise ModelFileError(f"`{name}.text` must be UTF-8: {error}.") from error
