"""Which terms become features, and how they are kept in a file."""

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
    """Return the places of the n most frequent terms, in the order of the terms themselves.

    Frequent is what occurs often in all texts together; of two that occur equally often the first
    by code points goes in. So the result does not depend on the order of the texts.
    """
    occurrences = np.bincount(counts.indices, weights=counts.data, minlength=len(terms))
    documents = np.bincount(counts.indices, minlength=len(terms))
    places = np.flatnonzero((occurrences >= min_count) & (documents >= min_documents))
    chosen = places.tolist()
    if n is not None and places.size > n:
        # Only those that are as frequent as the last one in are compared as text: sorting all
        # pairs of words would take longer than counting them.
        often = occurrences[places]
        least = np.partition(often, -n)[-n]
        chosen = places[often > least].tolist()
        ties = sorted(places[often == least].tolist(), key=terms.__getitem__)
        chosen += ties[: n - len(chosen)]
    return sorted(chosen, key=terms.__getitem__)


def pack(terms: Sequence[str]) -> tuple[Bytes, Ints]:
    """Put terms into one array of UTF-8 bytes; term i is ``data[offsets[i]:offsets[i + 1]]``."""
    encoded = [term.encode() for term in terms]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(term) for term in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets


def unpack(data: NDArray[Any], offsets: NDArray[Any]) -> list[str]:
    """Take back what `pack` made of a vocabulary, or raise `ModelFileError`."""
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
