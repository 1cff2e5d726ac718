"""Counts of words and n-grams, against a loop that spells every one of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ranking.data.text.counts import count, take_columns

TEXTS = st.lists(st.lists(st.sampled_from("abcdé"), max_size=8).map(" ".join), max_size=6)


def counters(terms, counts):
    dense = counts.toarray()
    return [Counter({t: int(c) for t, c in zip(terms, row, strict=True) if c}) for row in dense]


@settings(deadline=None)
@given(TEXTS, st.integers(1, 4), st.integers(0, 3), st.frozensets(st.sampled_from("ab")))
def test_counts_match_a_loop(texts, shortest, more, stop_words):
    longest = shortest + more
    expected = []
    for text in texts:
        terms = [word for word in text.split() if word not in stop_words]
        expected.append(
            Counter(
                " ".join(terms[start : start + n])
                for n in range(shortest, longest + 1)
                for start in range(len(terms) - n + 1)
            )
        )
    terms, counts = count(iter(texts), (shortest, longest), stop_words)
    assert len(set(terms)) == len(terms)
    assert counts.shape == (len(texts), len(terms))
    assert counts.has_canonical_format
    assert counters(terms, counts) == expected


def test_ngrams_do_not_cross_texts():
    terms, counts = count(["a b", "c", "", "d e f"], (2, 3), frozenset())
    assert sorted(terms) == ["a b", "d e", "d e f", "e f"]
    assert counts.sum(axis=1).tolist() == [1, 0, 0, 3]


def test_columns_are_moved_or_left_out():
    terms, counts = count(["a b b", "c a", "b"], (1, 1), frozenset())
    assert terms == ["a", "b", "c"]
    part = take_columns(counts, np.array([1, -1, 0]), 4)
    assert part.toarray().tolist() == [[0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 0, 0]]
    assert part.has_canonical_format
