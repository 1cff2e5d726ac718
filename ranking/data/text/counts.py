"""Count the terms of texts; a term is a word or an n-gram."""

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
        Distinct, in arbitrary order.
    counts : csr_array of int32
        One row per text, one column per term.
    """
    known, numbers, rows, n_texts = _number_words(texts)
    if stop_words:
        mask = np.array([word not in stop_words for word in known], dtype=bool)[numbers]
        numbers, rows = numbers[mask], rows[mask]
    terms: list[str] = []
    term_rows, term_columns = [], []
    for n, (grams, at, runs) in enumerate(_ngrams(known, numbers, rows, ngrams[1]), start=1):
        if n >= ngrams[0]:
            term_rows.append(at)
            term_columns.append(runs + len(terms))
            terms += grams
    entries = (np.concatenate(term_rows), np.concatenate(term_columns))
    ones = np.ones(entries[0].size, dtype=np.int32)
    counts = sparse.coo_array((ones, entries), shape=(n_texts, len(terms))).tocsr()
    counts.sum_duplicates()
    return terms, counts


def _number_words(texts: Iterable[str]) -> tuple[list[str], Ints, Ints, int]:
    """Return distinct words, the number and text of each occurrence, and the number of texts."""
    # A new word gets the next number by default, so the loop over words is `map`, in C.
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    numbers, ends = array("i"), array("q", [0])
    for text in texts:
        numbers.extend(map(number.__getitem__, words(text)))
        ends.append(len(numbers))
    rows = np.repeat(np.arange(len(ends) - 1), np.diff(np.asarray(ends)))
    return list(number), np.asarray(numbers).astype(np.int64), rows, len(ends) - 1


def _ngrams(
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
        # There is no n-gram across the end of a text; its number here is never used, since a
        # longer one would cross the end too.
        runs = np.zeros(starts, dtype=np.int64)
        runs[within] = inverse
        yield grams, rows[:starts][within], inverse


def take_columns(counts: Any, columns: Ints, n_columns: int) -> Any:
    """Put column i of the counts into column ``columns[i]``; leave it out if that is negative."""
    moved = columns[counts.indices]
    mask = moved >= 0
    ends = np.concatenate([[0], np.cumsum(mask)])[counts.indptr]
    selection = sparse.csr_array(
        (counts.data[mask], moved[mask], ends), shape=(counts.shape[0], n_columns)
    )
    selection.sort_indices()
    return selection
