"""A hash of terms that is the same on every machine, for the hashing trick.

The hash of a term is FNV-1a (64 bits) of its UTF-8 bytes, mixed by the finaliser of SplitMix64::

    h = 0xCBF29CE484222325;  for each byte b:  h = (h ^ b) * 0x100000001B3
    z = (h ^ h>>30) * 0xBF58476D1CE4E5B9;  z = (z ^ z>>27) * 0x94D049BB133111EB;  z = z ^ z>>31

all modulo 2**64. FNV-1a alone leaves its high bits poor for short words. Of n columns the term gets
``((z >> 32) * n) >> 32``; its sign is minus if the lowest bit of z is set. So equal hashes have
equal columns and signs, and the order of hashes is the order of columns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ranking.data.text.vocabulary import pack

Hashes = NDArray[np.uint64]

OFFSET = 0xCBF29CE484222325
PRIME = 0x100000001B3
MASK = 2**64 - 1
PREFIX_BYTES = 64
"""Bytes of a term that are hashed for all terms at once; longer terms are rare."""


def hash_terms(terms: Sequence[str]) -> Hashes:
    """Return the hash of each term."""
    data, offsets = pack(terms)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    starts = offsets[:-1][order]
    # Terms by length, longest first: those with a byte at a position are the first `n`.
    longer = np.searchsorted(-lengths[order], -np.arange(PREFIX_BYTES + 1))
    hashes = np.full(len(terms), OFFSET, dtype=np.uint64)
    prime = np.uint64(PRIME)
    for position in range(PREFIX_BYTES):
        n = longer[position]
        if n == 0:
            break
        hashes[:n] = (hashes[:n] ^ data[starts[:n] + position]) * prime
    for i in range(longer[PREFIX_BYTES]):
        value = int(hashes[i])
        for byte in data[starts[i] + PREFIX_BYTES : starts[i] + lengths[order[i]]].tobytes():
            value = ((value ^ byte) * PRIME) & MASK
        hashes[i] = value
    result = np.empty_like(hashes)
    result[order] = _mix(hashes)
    return result


def _mix(z: Hashes) -> Hashes:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def columns_of(hashes: Hashes, n_columns: int) -> NDArray[np.int64]:
    """Return the column of each hash."""
    columns = ((hashes >> np.uint64(32)) * np.uint64(n_columns)) >> np.uint64(32)
    return columns.astype(np.int64)


def signs_of(hashes: Hashes) -> NDArray[np.float64]:
    """Return +1 or -1 for each hash."""
    return 1.0 - 2.0 * (hashes & np.uint64(1)).astype(np.float64)
