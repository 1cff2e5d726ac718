"""Rows of ``index:value``: what readers of SVMlight's family share."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.kernels.contract import LARGEST_INDEX

SMALL = 1_000_000
"""The number of entries up to which dense is always fine."""

NUMBER = rb"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# Twenty digits hold every index that could be meant; more would only cost time.
PAIR = re.compile(rb"(?<!\S)(\d{1,20}):(" + NUMBER + rb")(?!\S)")
GRADE = re.compile(NUMBER)
MISSING = (b"null", b"none", b"na", b"nan", b"?")
SHAPE = "write a row as `<grade> qid:<id> <index>:<value> ...`"


def lay_out(
    sizes: NDArray[np.int64], indices: NDArray[np.int64], values: NDArray[Any]
) -> tuple[Any, NDArray[np.int64]]:
    """Return rows of so many indices and values as features, dense or CSR, and their ids."""
    largest, first = int(indices.max()), min(1, int(indices.min()))
    if largest - first < indices.size:
        feature_ids, columns = np.arange(first, largest + 1), indices - first
    else:
        feature_ids, columns = np.unique(indices, return_inverse=True)
    shape = (sizes.size, feature_ids.size)
    entries = sizes.size * feature_ids.size
    if entries <= SMALL or indices.size >= entries / 4:
        features = np.zeros(shape, values.dtype)
        features[np.repeat(np.arange(sizes.size), sizes), columns] = values
        return features, feature_ids
    indptr = np.concatenate(([0], np.cumsum(sizes)))
    return sparse.csr_array((values, columns, indptr), shape=shape), feature_ids


def parse_pairs(pairs: bytes, largest: float) -> tuple[list[int], list[float], str]:
    """Return the indices and values of ``index:value ...``, and what is wrong with them."""
    found = PAIR.findall(pairs)
    indices = [int(index) for index, _ in found]
    values = [float(value) for _, value in found]
    # One look at the whole line; the guilty word is looked for only when there is one.
    if (
        len(found) != len(pairs.split())
        or len(set(indices)) != len(indices)
        or max(indices, default=0) > LARGEST_INDEX
        or max(map(abs, values), default=0.0) > largest
    ):
        return [], [], fault(pairs.split(), largest)
    return indices, values, ""


def fault(words: list[bytes], largest: float) -> str:
    """Say what is wrong with the features of a line that has something wrong."""
    seen: set[int] = set()
    for word in words:
        index, colon, value = word.partition(b":")
        shown = short(word)
        if index == b"qid":
            return f"{shown} must come right after the grade, once; {SHAPE}"
        if not colon or not index or not value:
            return f"{shown} is not <index>:<value>; write both, without a space between"
        if re.fullmatch(rb"-\d+", index):
            return f"{shown} has a negative index; number features from 0 or 1"
        if not re.fullmatch(rb"\d+", index):
            return f"{shown} has an index that is not a number; number features from 1"
        if len(index) > 20 or int(index) > LARGEST_INDEX:
            return f"{shown} has an index above {LARGEST_INDEX}; renumber the features or hash them"
        if value.lower() in MISSING:
            return f"{shown} is a missing value; fill it in, or leave it out if zero is meant"
        if not GRADE.fullmatch(value) or np.isinf(float(value)):
            return f"{shown} has a value that is not a finite number; correct it"
        if abs(float(value)) > largest:
            return (
                f"{shown} is too large for float32; rescale the feature, or read with "
                "letor:dtype=float64"
            )
        if int(index) in seen:
            return f"{shown} gives feature {int(index)} a second time; keep one"
        seen.add(int(index))
    raise AssertionError("a line is refused, and no word of it is wrong")


def short(word: bytes) -> str:
    """Quote a word for a message, cut if it is long."""
    text = word.decode(errors="replace")
    return repr(text if len(text) <= 30 else text[:30] + "...")
