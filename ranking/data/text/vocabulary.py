"""Select the terms of a vocabulary, and pack them into arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranking.errors import ModelFileError

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def most_frequent(
    terms: Sequence[str], counts: Any, n: int | None, min_count: int, min_documents: int
) -> list[int]:
    """Return the positions of the n most frequent terms, sorted by term.

    The frequency is that in all texts together; ties are broken by code points, so that the
    result does not depend on the order of the texts.
    """
    occurrences = np.bincount(counts.indices, weights=counts.data, minlength=len(terms))
    documents = np.bincount(counts.indices, minlength=len(terms))
    candidates = np.flatnonzero((occurrences >= min_count) & (documents >= min_documents))
    selection = candidates.tolist()
    if n is not None and candidates.size > n:
        # Only terms as frequent as the last selected one are compared as text: sorting all
        # n-grams would take longer than counting them.
        frequency = occurrences[candidates]
        least = np.partition(frequency, -n)[-n]
        selection = candidates[frequency > least].tolist()
        ties = sorted(candidates[frequency == least].tolist(), key=terms.__getitem__)
        selection += ties[: n - len(selection)]
    return sorted(selection, key=terms.__getitem__)


def pack(terms: Sequence[str]) -> tuple[Bytes, Ints]:
    """Pack terms into one array of UTF-8 bytes; term i is ``data[offsets[i]:offsets[i + 1]]``."""
    encoded = [term.encode() for term in terms]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(term) for term in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack(data: NDArray[Any], offsets: NDArray[Any]) -> list[str]:
    """Return the terms that `pack` packed, or raise `ModelFileError`."""
    if data.dtype != np.uint8 or data.ndim != 1 or offsets.dtype != np.int64 or offsets.ndim != 1:
        raise ModelFileError(
            "a vocabulary needs `words`, a vector of uint8, and `word_offsets`, one of int64."
        )
    if offsets.size < 2 or offsets[0] != 0 or offsets[-1] != data.size:
        raise ModelFileError(
            f"a vocabulary's word_offsets must go from 0 to the {data.size} bytes of its words."
        )
    if (offsets[1:] <= offsets[:-1]).any():
        raise ModelFileError("a vocabulary's word_offsets must increase: no word is empty.")
    whole = data.tobytes()
    try:
        terms = [whole[start:end].decode() for start, end in pairwise(offsets.tolist())]
    except UnicodeDecodeError as error:
        raise ModelFileError(f"a vocabulary's words must be UTF-8: {error}.") from error
    if any(first >= second for first, second in pairwise(terms)):
        raise ModelFileError("a vocabulary's words must be sorted, each there once.")
    return terms
