"""Which terms become features, how often they occur, and how they are kept in a file."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.text.tokenise import Tokeniser
from ranking.errors import ModelFileError

Ints = NDArray[np.int64]
Bytes = NDArray[np.uint8]


def count(texts: Iterable[str], tokenise: Tokeniser) -> tuple[list[str], Any]:
    """Count every term of every text.

    Returns
    -------
    terms : list of str
        In order of first appearance.
    counts : csr_array of int32
        One row a text, one column a term.
    """
    # A term that is asked for the first time gets the next number; the loop over terms is then
    # `map`, in C, and equal terms of a text are added up by SciPy, in C too.
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    found, ends = array("i"), array("q", [0])
    for text in texts:
        found.extend(map(numbers.__getitem__, tokenise(text)))
        ends.append(len(found))
    return list(numbers), _summed(np.asarray(found), ends, len(numbers))


def count_known(
    texts: Iterable[str], tokenise: Tokeniser, columns: dict[str, int]
) -> tuple[Any, int]:
    """Count the terms that have a column; return these counts and how many others occur."""
    found, ends, unknown = array("i"), array("q", [0]), 0
    for text in texts:
        numbers = list(map(columns.get, tokenise(text), repeat(-1)))
        strange = numbers.count(-1)
        found.extend([n for n in numbers if n >= 0] if strange else numbers)
        unknown += strange
        ends.append(len(found))
    return _summed(np.asarray(found), ends, len(columns)), unknown


def _summed(indices: NDArray[np.intc], ends: array[int], n_columns: int) -> Any:
    ones = np.ones(indices.size, dtype=np.int32)
    counts = sparse.csr_array((ones, indices, np.array(ends)), shape=(len(ends) - 1, n_columns))
    counts.sum_duplicates()
    return counts


def most_frequent(
    terms: Sequence[str], counts: Any, n: int | None, min_count: int, min_documents: int
) -> Ints:
    """Return the places of the n most frequent terms, in the order of the terms themselves.

    Frequent is what occurs often in all texts together; of two that occur equally often the first
    by code points goes in. So the result does not depend on the order of the texts.
    """
    occurrences = np.bincount(counts.indices, weights=counts.data, minlength=len(terms))
    documents = np.bincount(counts.indices, minlength=len(terms))
    places = np.flatnonzero((occurrences >= min_count) & (documents >= min_documents)).tolist()
    if n is not None and len(places) > n:
        places = sorted(places, key=lambda place: (-occurrences[place], terms[place]))[:n]
    return np.array(sorted(places, key=terms.__getitem__), dtype=np.int64)


def take_columns(counts: Any, places: Ints) -> Any:
    """Return the counts of these columns, in their order."""
    return sparse.csr_array(counts[:, places])


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
