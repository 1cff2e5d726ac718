"""How often each term occurs in each text; a term is a word or a run of n words."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ranking.data.text.tokenise import words

Ints = NDArray[np.int64]


def count(
    texts: Iterable[str], ngrams: tuple[int, int], stop_words: frozenset[str]
) -> tuple[list[str], Any]:
    """Count the terms of each text.

    Stop words are taken out first, so an n-gram may reach over one. The words of an n-gram are
    joined by a space, which no word contains.

    Returns
    -------
    terms : list of str
        Each once, in no order that means anything.
    counts : csr_array of int32
        One row a text, one column a term.
    """
    known, numbers, rows, n_texts = _numbered(texts)
    if stop_words:
        kept = np.array([word not in stop_words for word in known], dtype=bool)[numbers]
        numbers, rows = numbers[kept], rows[kept]
    terms: list[str] = []
    found_rows, found_columns = [], []
    for n, (grams, at, runs) in enumerate(_runs(known, numbers, rows, ngrams[1]), start=1):
        if n >= ngrams[0]:
            found_rows.append(at)
            found_columns.append(runs + len(terms))
            terms += grams
    places = (np.concatenate(found_rows), np.concatenate(found_columns))
    ones = np.ones(places[0].size, dtype=np.int32)
    counts = sparse.coo_array((ones, places), shape=(n_texts, len(terms))).tocsr()
    counts.sum_duplicates()
    return terms, counts


def _numbered(texts: Iterable[str]) -> tuple[list[str], Ints, Ints, int]:
    """Return the distinct words, the number and the text of each occurrence, and how many texts."""
    # A word that is asked for the first time gets the next number, so the loop over words is
    # `map`, in C.
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    found, ends = array("i"), array("q", [0])
    for text in texts:
        found.extend(map(number.__getitem__, words(text)))
        ends.append(len(found))
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(np.asarray(ends)))
    return list(number), np.asarray(found).astype(np.int64), rows, len(ends) - 1


def _runs(
    known: list[str], numbers: Ints, rows: Ints, longest: int
) -> Iterator[tuple[list[str], Ints, Ints]]:
    """Yield for n = 1, 2, ... the distinct n-grams, and the text and n-gram of each occurrence.

    An n-gram is an (n - 1)-gram and a word, so it is numbered by a pair of numbers; only distinct
    ones are spelled out.
    """
    grams, runs = known, numbers
    yield grams, rows, runs
    for n in range(2, longest + 1):
        starts = max(numbers.size - n + 1, 0)
        within = rows[:starts] == rows[numbers.size - starts :]
        pairs = runs[:starts] * len(known) + numbers[numbers.size - starts :]
        distinct, inverse = np.unique(pairs[within], return_inverse=True)
        first, last = np.divmod(distinct, max(len(known), 1))
        grams = [
            f"{grams[i]} {known[j]}" for i, j in zip(first.tolist(), last.tolist(), strict=True)
        ]
        # Where a text ends there is no run; what stands there is never looked at, for a longer
        # run from there would cross the end too.
        runs = np.zeros(starts, dtype=np.int64)
        runs[within] = inverse
        yield grams, rows[:starts][within], inverse


def take_columns(counts: Any, columns: Ints, n_columns: int) -> Any:
    """Put column i of the counts into column ``columns[i]``; leave it out if that is negative."""
    moved = columns[counts.indices]
    kept = moved >= 0
    ends = np.concatenate([[0], np.cumsum(kept)])[counts.indptr]
    taken = sparse.csr_array(
        (counts.data[kept], moved[kept], ends), shape=(counts.shape[0], n_columns)
    )
    taken.sort_indices()
    return taken
